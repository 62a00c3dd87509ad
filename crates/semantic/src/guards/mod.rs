//! The words of two questions, compared: what must agree before one answer may serve both.

mod asking;
mod bindings;
mod closed;
mod compare;
mod compound;
mod fold;
mod frame;
mod guard;
mod lexicon;
mod likes;
mod measure;
mod mood;
mod negate;
mod order;
mod parts;
mod pivots;
mod place;
mod preamble;
mod quantity;
mod question;
mod reader;
mod settle;
mod sides;
mod signs;
mod syntax;
mod tense;
mod term;
mod time;
mod token;
mod turns;

pub use compare::{compare, differences, only_words_differ};
pub use fold::LONGEST;
pub use guard::Guard;
pub use question::Question;

/// Loads what is known of words, if it is not loaded yet: some 200 ms, so not on a thread that serves.
pub fn warm() {
    term::load();
}
