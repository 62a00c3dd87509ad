//! Decisions without waiting: time and chance are passed in.

pub mod breaker;
pub mod budget;
pub mod cache_key;
pub mod context;
pub mod ewma;
pub mod knee;
pub mod limits;
pub mod order;
pub mod params;
pub mod prices;
pub mod pursuit;
pub mod queue;
pub mod quota;
pub mod repeats;
pub mod shares;
pub mod slots;
pub mod split;
pub mod tokens;
