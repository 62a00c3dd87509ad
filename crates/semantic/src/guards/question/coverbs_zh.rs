//! Where Chinese coverbs stand, which part who does something from whom it is done for (替, 帮, 给, 为, 向, 比), where
//! persons stand, and the word that asks. Read by `checks::direction_zh`: 我替孩子签字 / 孩子替我签字.

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Case, Effect, Person, QuestionType};

/// Where coverbs, persons and the question word stand, by tokens.
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
    pub fn note(&mut self, effect: Effect, word: &str, at: usize, taken: usize) {
        if let Some(sign) = word
            .chars()
            .next()
            .filter(|sign| word.len() == sign.len_utf8() && COVERBS.iter().any(|signs| signs.contains(*sign)))
            && !self.positions.contains(&(sign, at))
        {
            self.positions.push((sign, at));
        }
        match effect {
            Effect::Person(person, case) if case != Case::Possessive => self.persons.push((Some(person), at)),
            Effect::Asks(QuestionType::Who) => self.persons.push((None, at)),
            Effect::Asks(QuestionType::How) => self.asked_action = Some((at + taken, true)),
            Effect::May | Effect::Must | Effect::Asks(QuestionType::Polar)
                if self.asked_action.is_none_or(|asked| !asked.1) =>
            {
                self.asked_action = Some((at + taken, false));
            }
            _ => {}
        }
    }

    /// Where the only word of this kind stands.
    pub fn only_position(&self, signs: &str) -> Option<usize> {
        let mut found = self.positions.iter().filter(|found| signs.contains(found.0));
        found.next().filter(|_| found.next().is_none()).map(|found| found.1)
    }
}

/// Words that part who does something from whom it is done for, and what is compared from what it is compared with;
/// those of one line may stand for each other.
pub const COVERBS: [&str; 8] = ["比", "是", "向", "替帮代给为", "替", "帮", "给", "为"];
