//! The semantic cache: questions that were answered, by route, and another model's verdicts on matches.

pub mod questions;
pub mod verdicts;
