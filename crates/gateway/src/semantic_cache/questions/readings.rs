//! Questions as their words were read lately.
//!
//! To read one takes 10 to 20 µs, to compare two that are read one or two. A question that is stored is compared with many,
//! and what callers ask is asked again, so what was read is kept: a memory of a pure function, bounded by itself.

use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use semantic::guards::{LONGEST, Question};

/// All of it together, in bytes: some 3,000 short questions.
const MOST: u64 = 8 << 20;
/// What a short one takes.
const USUAL: u64 = 3 << 10;
/// What one takes beside its words, and what is made of each byte of those.
const FIXED: usize = 1 << 10;
const EACH: usize = 64;
/// Bytes of a text that is longer than what is read: it says so at once.
const TOO_LONG: usize = LONGEST * 4;

/// A text, and the question that it asks.
#[derive(Debug)]
pub struct Reading {
    text: Arc<str>,
    /// What was read.
    pub question: Question,
}

/// What was read lately. It takes no memory before the first question.
#[derive(Debug, Default)]
pub struct Readings {
    cache: OnceLock<Cache<u64, Arc<Reading>, Weights>>,
    hashes: RandomState,
}

impl Readings {
    /// The question that a text asks.
    #[must_use]
    pub fn of(&self, text: &Arc<str>) -> Arc<Reading> {
        let cache = self.cache.get_or_init(|| {
            let items = usize::try_from(MOST / USUAL).unwrap_or(usize::MAX);
            Cache::with_weighter(items, MOST, Weights)
        });
        let print = self.hashes.hash_one(&**text);
        if let Some(known) = cache.get(&print).filter(|known| known.text == *text) {
            return known;
        }
        let reading = Arc::new(Reading { text: text.clone(), question: Question::read(text) });
        if text.len() <= TOO_LONG {
            cache.insert(print, reading.clone());
        }
        reading
    }
}

/// What an entry takes.
#[derive(Clone, Debug)]
struct Weights;

impl Weighter<u64, Arc<Reading>> for Weights {
    fn weight(&self, _: &u64, reading: &Arc<Reading>) -> u64 {
        (FIXED + reading.text.len() * EACH) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_once() {
        let readings = Readings::default();
        let first = readings.of(&"How do I reset my password?".into());
        assert!(Arc::ptr_eq(&first, &readings.of(&"How do I reset my password?".into())));
        let other = readings.of(&"How do I change my username?".into());
        assert!(semantic::guards::compare(&first.question, &other.question).is_err());
        let known = readings.of(&"How can I reset my password?".into());
        assert!(semantic::guards::compare(&first.question, &known.question).is_ok());
    }

    #[test]
    fn no_more_is_kept_than_the_bound_and_nothing_of_what_is_too_long_to_be_read() {
        let readings = Readings::default();
        let long: Arc<str> = "a question ".repeat(1_000).into();
        assert!(!Arc::ptr_eq(&readings.of(&long), &readings.of(&long)));
        for number in 0..4_000 {
            let _ = readings.of(&format!("What is article {number}?").into());
        }
        let cache = readings.cache.get().unwrap();
        assert!(cache.weight() <= MOST);
        assert!(cache.len() > 1_000, "{}", cache.len());
    }
}
