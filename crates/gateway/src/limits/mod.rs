//! Limits of clients and routes: what has been used of them, and the batch calls that wait for room.

pub mod meters;
pub mod queue;
