//! What a question is made of, as far as it decides the answer.

pub mod coverbs_zh;
pub mod particles_zh;
pub mod syntax;
pub mod term;

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Case, Kind, Mark, Person, Role};
use crate::guards::quantity::Quantity;
use crate::guards::question::coverbs_zh::Sides;
use crate::guards::question::particles_zh::Turns;
use crate::guards::question::syntax::Preposition;
use crate::guards::question::term::Term;

/// A person, the form of the word, the part that it plays, and its place among the terms.
pub type Spoken = (Person, Case, Option<Role>, usize);

/// Pairs of places, of terms that mean the same.
pub type Matched = SmallVec<[(usize, usize); 12]>;

/// A question, read once: cheap to keep beside a stored answer, and to compare with others.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Its words alone; empty where it is not compared.
    pub(super) words: Box<str>,
    /// The signs that count, in their order.
    pub(super) signs: Box<str>,
    /// What is asked, one bit for each [`Kind`].
    pub(super) kinds: u32,
    /// Whether it asks for what something is done to, not for who does it.
    pub(super) object: bool,
    /// Whether it asks in English who something is done to: who is paid.
    pub(super) undergone: bool,
    /// The English preposition of what is asked for.
    pub(super) governed: Option<Preposition>,
    /// Where a Chinese word that asks what stands among the terms.
    pub(super) asked: Option<Asked>,
    pub(super) terms: Vec<Term>,
    pub(super) quantities: Vec<Quantity>,
    /// The same quantities as they follow on each other, those of one kind together; coordinated ones sorted.
    pub(super) sequence: Vec<Quantity>,
    /// The place among the terms behind the last «only», and whether a person stands there.
    pub(super) only: Option<(usize, bool)>,
    pub(super) marks: Vec<Mark>,
    /// Negators that belong to no term.
    pub(super) loose_not: bool,
    pub(super) past: bool,
    pub(super) future: bool,
    /// Whether an auxiliary tells that it is so now, or always.
    pub(super) present: bool,
    pub(super) may: bool,
    pub(super) must: bool,
    /// Whether it is the obligation that is denied in English: not have to.
    pub(super) needless: bool,
    /// Whether it is so still (true), or already (false).
    pub(super) phase: Option<bool>,
    /// English numbers, each with its first token and how many it has.
    pub(super) counts: SmallVec<[(Quantity, usize, usize); 2]>,
    /// Points and spans of time with the English preposition before them.
    pub(super) dated: SmallVec<[(Quantity, Preposition); 2]>,
    /// Who is spoken of, in order, with the place among the terms.
    pub(super) persons: SmallVec<[Spoken; 4]>,
    /// Where Chinese words stand that part who does something from whom or what it is done for.
    pub(super) sides: Sides,
    /// What small Chinese words say by their place.
    pub(super) turns: Turns,
    /// Whether something is done to its subject.
    pub(super) passive: bool,
    pub(super) chinese: bool,
    /// Whether a noun names what is asked: the procedure, the price.
    pub(super) named: bool,
    /// The question without the story before it.
    pub(super) core: Option<Box<Question>>,
}

impl Question {
    /// Whether both have the same signs that are none of prose: `<`, an arrow, the minus of a number, the case of its unit.
    /// Other words may say the same; another sign does not.
    #[must_use]
    pub(super) fn has_signs_of(&self, other: &Self) -> bool {
        self.signs == other.signs
    }

    /// What was read, in one line for people.
    #[must_use]
    pub fn brief(&self) -> String {
        let terms: Vec<String> = self
            .terms
            .iter()
            .map(|term| {
                format!(
                    "{}{}{}",
                    if term.not { "!" } else { "" },
                    term.forms.join("|"),
                    if term.optional { "?" } else { "" }
                )
            })
            .collect();
        let core = self.core.as_ref().map(|core| format!(" / {}", core.brief())).unwrap_or_default();
        format!(
            "{:b} [{}] {:?} {:?} {:?} not={} may={} must={}{core}",
            self.kinds,
            terms.join(", "),
            self.quantities,
            self.marks,
            self.persons,
            self.loose_not,
            self.may,
            self.must
        )
    }

    /// Whether it asks this.
    pub(super) fn asks(&self, kind: Kind) -> bool {
        self.kinds & bit(kind) != 0
    }
}

/// Where a word that asks stands.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// How many terms stand before it.
    pub place: usize,
    /// Whether the last of them is a verb right before it, which it is then the object of.
    pub behind_verb: bool,
    /// Whether a word such as 需要 stands right before it.
    pub needed: bool,
    /// Whether such a word stands behind it.
    pub needs: bool,
}

/// The bit of a kind.
pub fn bit(kind: Kind) -> u32 {
    1 << kind as u8
}
