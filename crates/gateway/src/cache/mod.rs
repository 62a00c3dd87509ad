//! Answers that serve more than one call: those that are stored, and those that several callers wait for.

pub mod flights;
pub mod forms;
pub mod kb_versions;
pub mod known_bodies;
pub mod purges;
pub mod shared_call;
pub mod sources;
pub mod stored;
