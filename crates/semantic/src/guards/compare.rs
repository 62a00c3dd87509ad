//! Two questions held against each other. What is not known to be the same is different.

use smallvec::SmallVec;

use crate::guards::checks::content_words::{Alignment, content_words};
use crate::guards::checks::direction::direction;
use crate::guards::checks::direction_zh;
use crate::guards::checks::modality::modality;
use crate::guards::checks::persons::persons;
use crate::guards::checks::quantities::quantities;
use crate::guards::checks::question_type::question_type;
use crate::guards::checks::scope::{particles, scope};
use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::Mark;
use crate::guards::question::Question;

/// Whether two questions are the same, by their words.
///
/// # Errors
/// The first guard that found a difference.
pub fn compare(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.words.is_empty() || two.words.is_empty() {
        return Err(Guard::Length);
    }
    if !one.has_symbols_of(two) {
        return Err(Guard::Entity);
    }
    if one.words == two.words {
        return Ok(());
    }
    if one.terms.len().max(two.terms.len()) > MOST_TERMS {
        return Err(Guard::Length);
    }
    let found = CHECKS.iter().try_for_each(|check| check(one, two));
    // One of them may tell a story first.
    let told = |core: &Option<Box<Question>>, other: &Question| {
        core.as_ref().is_some_and(|core| CHECKS.iter().all(|check| check(core, other).is_ok()))
    };
    if found.is_err() && (told(&one.core, two) || told(&two.core, one)) { Ok(()) } else { found }
}

/// Questions with more content words are not compared: the work grows with the square.
const MOST_TERMS: usize = 48;

/// Every guard that finds a difference, for figures: [`compare`] stops at the first.
#[must_use]
pub fn differences(one: &Question, two: &Question) -> Vec<Guard> {
    match compare(one, two) {
        Ok(()) => Vec::new(),
        Err(Guard::Length) => vec![Guard::Length],
        Err(found) if !one.has_symbols_of(two) => vec![found],
        Err(_) => CHECKS.iter().filter_map(|check| check(one, two).err()).collect(),
    }
}

/// Whether no more than words tells two questions apart. Guards that compare words stop at the first that is another,
/// and what is said may differ behind it: so all that can be seen of that is looked at by itself.
#[must_use]
pub fn only_words_differ(one: &Question, two: &Question) -> bool {
    let firm = |question: &Question| -> SmallVec<[Mark; 4]> {
        question.scope.marks.iter().copied().filter(|mark| mark.is_comparison() || mark.is_time()).collect()
    };
    let is_said = one.has_symbols_of(two)
        && firm(one) == firm(two)
        && [quantities, particles, persons, modality, question_type].iter().all(|check| check(one, two).is_ok());
    if !is_said || one.terms.len().max(two.terms.len()) > MOST_TERMS {
        return false;
    }
    let Alignment { matched, left, right } = Alignment::of(one, two);
    let denies = |question: &Question, at: &usize| question.terms.get(*at).is_some_and(|term| term.negated);
    let is_denied = matched.iter().any(|(a, b)| denies(one, a) != denies(two, b))
        || left.iter().any(|at| denies(one, at))
        || right.iter().any(|at| denies(two, at));
    !is_denied && direction_zh::word_order(one, two, &matched).is_ok() && direction(one, two, &matched).is_ok()
}

/// Finds one difference.
type Check = fn(&Question, &Question) -> Result<(), Guard>;

/// From what costs least to what costs most.
const CHECKS: [Check; 7] = [quantities, scope, particles, persons, modality, question_type, content_words];
