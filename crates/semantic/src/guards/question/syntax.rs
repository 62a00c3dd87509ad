//! How one word of an English question is bound to others, as `reading::syntax_en` has read it.

use crate::guards::lexicon::function_words::{Mark, Person};

/// How one English word is bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Syntax {
    /// Its first token.
    pub first: usize,
    /// How many tokens it has.
    pub taken: usize,
    /// What bounds it: the maximum fine.
    pub bound: Option<Mark>,
    /// The number right before it, in thousandths.
    pub number_before: Option<i64>,
    /// The number right behind it, where that counts no word.
    pub number_behind: Option<i64>,
    /// The preposition of its noun phrase, and the place among the terms of the last one before that.
    pub preposition: Option<(Preposition, Option<usize>)>,
    /// Who does it, or has it done to them, where that stands right before it.
    pub subject: Option<Subject>,
    /// Whether something is done to its subject.
    pub passive: bool,
    /// Whether it is a participle that describes the noun behind it: deleted files.
    pub is_attributive: bool,
    /// Whether it is a verb that says what is done.
    pub is_predicate: bool,
    /// Whether it ends in -ing.
    pub is_ing_form: bool,
    /// Whether «to» stands before it.
    pub is_infinitive: bool,
}

/// What stands as the subject of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Person(Person),
    /// The term at this place.
    Term(usize),
}

/// A preposition, one for those that may stand for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preposition {
    About,
    At,
    By,
    For,
    From,
    In,
    Of,
    On,
    To,
    With,
}

impl Syntax {
    /// Of a term of these tokens.
    pub fn at(at: usize, taken: usize, bound: Option<Mark>) -> Self {
        Self { first: at, taken, bound, ..Self::default() }
    }

    /// The token behind it.
    pub fn end(&self) -> usize {
        self.first + self.taken
    }

    /// Whether another word stands right behind it.
    pub fn touches(&self, next: &Self) -> bool {
        self.end() == next.first
    }
}
