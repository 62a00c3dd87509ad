//! The words of two questions, compared: what must agree before one answer may serve both.

mod checks;
mod compare;
mod guard;
mod lexicon;
mod quantity;
mod question;
mod reading;
mod text;
mod token;

pub use compare::{compare, differences, only_words_differ};
pub use guard::Guard;
pub use question::Question;
pub use text::normalize::LONGEST;

/// Loads what is known of words, if it is not loaded yet: some 200 ms, so not on a thread that serves.
pub fn warm() {
    lexicon::lexicon();
}
