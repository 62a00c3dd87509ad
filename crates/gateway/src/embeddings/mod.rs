//! Vectors: calls for them that go upstream together, inputs that several calls wait for, and how a vector is kept.

pub mod digits;
pub mod input_flights;
pub mod joining;
pub mod vector;
