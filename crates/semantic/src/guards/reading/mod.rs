//! TODO

pub mod contextual_synonyms_zh;
pub mod ellipsis;
pub mod negation;
pub mod particles_zh;
pub mod preamble;
pub mod question_type;
pub mod reader;
pub mod resolve;
pub mod roles;
pub mod syntax_en;
pub mod tense;
