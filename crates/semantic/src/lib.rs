//! Whether two questions are the same one.
//!
//! Similarity finds candidates: [`index`] holds the vectors of stored questions and finds the nearest.
//! But near misses score higher than paraphrases, so that no threshold can tell them apart; [`guards`]
//! compare the words of two questions, and refuse a pair that differs in what decides the answer.
//!
//! Everything here is pure and synchronous: no store, no network, no clock.

pub mod guards;
pub mod index;
