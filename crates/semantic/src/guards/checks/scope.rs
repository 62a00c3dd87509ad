//! Scope: quantifiers, comparatives, what «only» stands before, words that place in time, and Chinese particles by their place.
//!
//! Refuses approve all / some expenses (`scope`), 押金至少多少 / 押金至多多少 (`comparison`), 合同到期前 / 合同到期后 (`date`),
//! 只有经理能审批吗 / 经理只能审批吗, 可以不参加培训吗 / 不可以参加培训吗 (`scope`).

use smallvec::SmallVec;

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Mark, QuestionType};
use crate::guards::question::term::Term;
use crate::guards::question::{Matched, Question};

pub fn scope(one: &Question, two: &Question) -> Result<(), Guard> {
    if same_marks(one, two) || same_capacity(one, two) || same_capacity(two, one) {
        return Ok(());
    }
    let only =
        |one: &Question, two: &Question| one.scope.marks.iter().find(|mark| !two.scope.marks.contains(mark)).copied();
    Err(match only(one, two).or_else(|| only(two, one)) {
        Some(mark) if mark.is_comparison() => Guard::Comparison,
        Some(mark) if mark.is_time() => Guard::Date,
        _ => Guard::Scope,
    })
}

/// The same marks; but that something has happened before, or is so the while, may go without saying. How long it is
/// before something is how long until then.
fn same_marks(one: &Question, two: &Question) -> bool {
    let places = |question: &Question| question.scope.marks.iter().filter(|mark| mark.is_time()).count();
    let waits = one.asks(QuestionType::Wait) && two.asks(QuestionType::Wait);
    let is_unsaid = |mark: Mark| matches!(mark, Mark::After | Mark::During) || (waits && mark == Mark::Before);
    let but_after = |question: &Question| -> SmallVec<[Mark; 4]> {
        question.scope.marks.iter().copied().filter(|mark| !is_unsaid(*mark)).collect()
    };
    // What comes after a period is not in it: 试用期, 试用期后.
    let ends = |question: &Question| {
        let is_period = |term: &Term| {
            term.in_time_clause && term.ends_with(&["期", "期间"]) && !term.ends_with(&["到期", "过期", "逾期", "延期"])
        };
        question.scope.marks.contains(&Mark::After) && question.terms.iter().any(is_period)
    };
    one.scope.marks == two.scope.marks
        || (!ends(one) && !ends(two) && (places(one) == 0 || places(two) == 0) && but_after(one) == but_after(two))
}

/// Whether one asks how much may be, and the other how much may be at most.
fn same_capacity(bound: &Question, free: &Question) -> bool {
    let kinds = [
        QuestionType::Count,
        QuestionType::Amount,
        QuestionType::AmountIs,
        QuestionType::Duration,
        QuestionType::Size,
        QuestionType::Large,
        QuestionType::Age,
    ];
    let asks = |question: &Question| kinds.iter().any(|kind| question.asks(*kind));
    let utmost = |mark: &&Mark| **mark == Mark::Utmost;
    free.modality.may
        && asks(bound)
        && asks(free)
        && bound.scope.marks.iter().filter(utmost).count() == 1
        && bound.scope.marks.iter().filter(|mark| !utmost(mark)).eq(free.scope.marks.iter())
}

/// Whether «only» stands before the same: only managers can approve, managers can only approve.
pub fn only_focus(one: &Question, two: &Question, matched: &Matched) -> Result<(), Guard> {
    let (Some(here), Some(there)) = (one.scope.only_focus, two.scope.only_focus) else { return Ok(()) };
    let ends = here.0 >= one.terms.len() || there.0 >= two.terms.len();
    let is_like = here.1 == there.1 && (here.1 || ends || matched.contains(&(here.0, there.0)));
    if is_like { Ok(()) } else { Err(Guard::Scope) }
}

/// Whether small words say the same by their place in both: 可以不, 不可以.
pub fn particles(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.scope.particles.agree(two.scope.particles) { Ok(()) } else { Err(Guard::Scope) }
}
