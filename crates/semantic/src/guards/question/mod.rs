//! What a question is made of, as far as it decides the answer: read once by `reading`, compared by `checks`.

pub mod coverbs_zh;
pub mod particles_zh;
pub mod syntax;
pub mod term;

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Case, Mark, Person, QuestionType, SemanticRole};
use crate::guards::quantity::Quantity;
use crate::guards::question::coverbs_zh::Coverbs;
use crate::guards::question::particles_zh::ParticleSenses;
use crate::guards::question::syntax::Preposition;
use crate::guards::question::term::Term;

/// Where a person is spoken of.
#[derive(Debug, Clone, Copy)]
pub struct Mention {
    pub person: Person,
    /// What the form of the pronoun tells.
    pub case: Case,
    /// What a preposition before it tells.
    pub role: Option<SemanticRole>,
    /// Its place among the terms.
    pub place: usize,
}

/// Pairs of places, of terms that mean the same.
pub type Matched = SmallVec<[(usize, usize); 12]>;

/// A question, read once: cheap to keep beside a stored answer, and to compare with others. What each check compares
/// stands in a group of its own.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Its words alone; empty where it is not compared.
    pub(super) words: Box<str>,
    /// The symbols that count, in their order.
    pub(super) symbols: Box<str>,
    /// Whether a Chinese word stands in it.
    pub(super) chinese: bool,
    /// Its content words, in their order.
    pub(super) terms: Vec<Term>,
    /// Whether it is negated by negators that belong to no term.
    pub(super) negated: bool,
    pub(super) asked: Asked,
    pub(super) quantities: Quantities,
    pub(super) scope: Scope,
    pub(super) tense: Tense,
    pub(super) modality: Modality,
    pub(super) roles: Roles,
    /// The question without the story before it.
    pub(super) core: Option<Box<Question>>,
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The types of question, one bit for each [`QuestionType`].
    pub types: u32,
    /// Whether it asks for what something is done to, not for who does it: whom Maria replaced.
    pub for_object: bool,
    /// Whether it asks in English who something is done to in the passive voice: who is paid.
    pub for_patient: bool,
    /// The English preposition of what is asked for: whom do I report to.
    pub preposition: Option<Preposition>,
    /// Where the Chinese word for «what» stands among the terms.
    pub wh_position: Option<WhPosition>,
    /// Whether a noun names what is asked: the procedure, the price.
    pub by_noun: bool,
}

/// Numbers, amounts, dates and times.
#[derive(Debug, Clone, Default)]
pub struct Quantities {
    /// All of them, sorted.
    pub sorted: Vec<Quantity>,
    /// The same as they follow on each other, those of one kind together; coordinated ones sorted.
    pub in_order: Vec<Quantity>,
    /// English ones, each with its first token and how many it has; empty once they are read.
    pub numbers_en: SmallVec<[(Quantity, usize, usize); 2]>,
    /// Points and spans of time with the English preposition before them.
    pub with_preposition: SmallVec<[(Quantity, Preposition); 2]>,
}

/// How much of it is spoken of: quantifiers, comparatives, focus.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Quantifiers, comparatives, and words that place in time, sorted.
    pub marks: Vec<Mark>,
    /// The place among the terms behind the last «only», and whether a person stands there.
    pub only_focus: Option<(usize, bool)>,
    /// What Chinese particles and adverbs say by their place.
    pub particles: ParticleSenses,
}

/// When it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tense {
    pub past: bool,
    pub future: bool,
    /// Whether an auxiliary tells that it is so now, or always.
    pub present: bool,
    /// Whether it is so still (true), or already (false).
    pub phase: Option<bool>,
}

/// What may or must be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modality {
    /// Permission, or ability.
    pub may: bool,
    /// Obligation.
    pub must: bool,
    /// Whether it is the obligation that is denied in English: not have to.
    pub needless: bool,
}

/// Who takes part in it, and on which side.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// Who is spoken of, in order, with the place among the terms.
    pub persons: SmallVec<[Mention; 4]>,
    /// Where Chinese words stand that part who does something from whom or what it is done for.
    pub coverbs: Coverbs,
    /// Whether something is done to the subject.
    pub passive: bool,
}

impl Question {
    /// Whether both have the same symbols that are none of prose: `<`, an arrow, the minus of a number, the case of its unit.
    /// Other words may say the same; another sign does not.
    #[must_use]
    pub(super) fn has_symbols_of(&self, other: &Self) -> bool {
        self.symbols == other.symbols
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
                    if term.negated { "!" } else { "" },
                    term.forms.join("|"),
                    if term.optional { "?" } else { "" }
                )
            })
            .collect();
        let core = self.core.as_ref().map(|core| format!(" / {}", core.brief())).unwrap_or_default();
        format!(
            "{:b} [{}] {:?} {:?} {:?} not={} may={} must={}{core}",
            self.asked.types,
            terms.join(", "),
            self.quantities.sorted,
            self.scope.marks,
            self.roles.persons.iter().map(|it| (it.person, it.case, it.role, it.place)).collect::<Vec<_>>(),
            self.negated,
            self.modality.may,
            self.modality.must
        )
    }

    /// Whether it asks this.
    pub(super) fn asks(&self, kind: QuestionType) -> bool {
        self.asked.types & bit(kind) != 0
    }
}

/// Where a word that asks stands.
#[derive(Debug, Clone, Copy)]
pub struct WhPosition {
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
pub fn bit(kind: QuestionType) -> u32 {
    1 << kind as u8
}
