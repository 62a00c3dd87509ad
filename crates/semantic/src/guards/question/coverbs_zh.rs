//! Where Chinese words stand that part who does something from whom it is done for, and the word that asks.

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Case, Kind, Part, Person};

/// Where such words stand, by tokens.
#[derive(Debug, Clone, Default)]
pub struct Sides {
    /// Words with another part on either side.
    pub pivots: SmallVec<[(char, usize); 2]>,
    /// Persons, who are no terms; none is the one who is asked for.
    pub persons: SmallVec<[(Option<Person>, usize); 2]>,
    /// The place behind the word that asks how something is done, or whether it can be; and whether it asks how.
    pub led: Option<(usize, bool)>,
}

impl Sides {
    /// Notes a word of a closed class.
    pub fn note(&mut self, part: Part, word: &str, at: usize, taken: usize) {
        if let Some(sign) = word
            .chars()
            .next()
            .filter(|sign| word.len() == sign.len_utf8() && PIVOTS.iter().any(|signs| signs.contains(*sign)))
            && !self.pivots.contains(&(sign, at))
        {
            self.pivots.push((sign, at));
        }
        match part {
            Part::Person(person, case) if case != Case::Owner => self.persons.push((Some(person), at)),
            Part::Asks(Kind::Who) => self.persons.push((None, at)),
            Part::Asks(Kind::How) => self.led = Some((at + taken, true)),
            Part::May | Part::Must | Part::Asks(Kind::Polar) if self.led.is_none_or(|led| !led.1) => {
                self.led = Some((at + taken, false));
            }
            _ => {}
        }
    }

    /// Where the only word of this kind stands.
    pub fn pivot(&self, signs: &str) -> Option<usize> {
        let mut found = self.pivots.iter().filter(|pivot| signs.contains(pivot.0));
        found.next().filter(|_| found.next().is_none()).map(|pivot| pivot.1)
    }
}

/// Words that part who does something from whom it is done for, and what is compared from what it is compared with;
/// those of one line may stand for each other.
pub const PIVOTS: [&str; 8] = ["比", "是", "向", "替帮代给为", "替", "帮", "给", "为"];
