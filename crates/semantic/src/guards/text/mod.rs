//! TODO

pub mod disambiguate;
pub mod normalize;
pub mod separable_verbs;
pub mod symbols;
