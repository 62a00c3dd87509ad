//! What is read of a question: its tokens, from the first to the last, become a [`Question`](super::question::Question).
//!
//! `preamble` is where it begins; `reader` goes through the tokens and gives each to the file that knows what it tells;
//! `resolve`, at last, settles what only the whole question tells. Nothing here compares.

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
