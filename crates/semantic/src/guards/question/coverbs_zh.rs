//! Where Chinese words stand that part who does something from whom it is done for, and the word that asks.

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Case, Effect, Person, QuestionType};

/// Where such words stand, by tokens.
#[derive(Debug, Clone, Default)]
pub struct Coverbs {
    /// Words with another part on either side.
    pub positions: SmallVec<[(char, usize); 2]>,
    /// Persons, who are no terms; none is the one who is asked for.
    pub persons: SmallVec<[(Option<Person>, usize); 2]>,
    /// The place behind the word that asks how something is done, or whether it can be; and whether it asks how.
    pub asked_action: Option<(usize, bool)>,
}

impl Coverbs {
    /// Notes a word of a closed class.
    pub fn note(&mut self, part: Effect, word: &str, at: usize, taken: usize) {
        if let Some(sign) = word
            .chars()
            .next()
            .filter(|sign| word.len() == sign.len_utf8() && COVERBS.iter().any(|signs| signs.contains(*sign)))
            && !self.positions.contains(&(sign, at))
        {
            self.positions.push((sign, at));
        }
        match part {
            Effect::Person(person, case) if case != Case::Possessive => self.persons.push((Some(person), at)),
            Effect::Asks(QuestionType::Who) => self.persons.push((None, at)),
            Effect::Asks(QuestionType::How) => self.asked_action = Some((at + taken, true)),
            Effect::May | Effect::Must | Effect::Asks(QuestionType::Polar)
                if self.asked_action.is_none_or(|led| !led.1) =>
            {
                self.asked_action = Some((at + taken, false));
            }
            _ => {}
        }
    }

    /// Where the only word of this kind stands.
    pub fn only_position(&self, signs: &str) -> Option<usize> {
        let mut found = self.positions.iter().filter(|pivot| signs.contains(pivot.0));
        found.next().filter(|_| found.next().is_none()).map(|pivot| pivot.1)
    }
}

/// Words that part who does something from whom it is done for, and what is compared from what it is compared with;
/// those of one line may stand for each other.
pub const COVERBS: [&str; 8] = ["比", "是", "向", "替帮代给为", "替", "帮", "给", "为"];
