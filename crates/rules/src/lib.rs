//! Decisions without waiting: time and dice are passed in, nothing here knows HTTP or a wire format.

pub mod pursuit;
