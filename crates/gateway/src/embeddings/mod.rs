//! Vectors: calls for them that go upstream together, inputs that several calls wait for, and how a vector is kept.

pub mod digits;
pub mod input_flights;
pub mod joining;
pub mod vector;

use std::sync::Arc;

use crate::cache::flights::Passenger;
use crate::cache::shared_call::SharedCall;

/// A caller who may bring something for others too.
#[derive(Clone, Copy, Debug)]
pub struct Carrier<'a> {
    /// Who it is.
    pub passenger: &'a Passenger,
    /// Its call, which goes on while anybody waits for something of it.
    pub shared_call: &'a Arc<SharedCall>,
}
