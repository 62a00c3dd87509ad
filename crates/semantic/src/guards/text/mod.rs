//! From text to tokens, before anything is understood: normalisation, segmentation, symbols, and words that stand for others
//! in their place.

pub mod disambiguate;
pub mod normalize;
pub mod separable_verbs;
pub mod symbols;
