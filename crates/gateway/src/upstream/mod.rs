//! How an upstream stands, as all workers share it: its breaker and rest, its keys, its places, and drills.

pub mod drills;
pub mod keyring;
pub mod slots;
pub mod standing;
