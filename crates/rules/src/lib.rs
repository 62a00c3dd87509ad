//! Decisions without waiting: time and chance are passed in.

pub mod breaker;
pub mod budget;
pub mod ewma;
pub mod order;
pub mod params;
pub mod pursuit;
pub mod repeats;
pub mod split;
