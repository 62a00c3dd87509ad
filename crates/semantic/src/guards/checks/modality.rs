//! Tense, modality and what is left of polarity: whether both speak of the same time, and of what may be, must be, or is.
//!
//! Refuses Was the order refunded? / Will the order be refunded?, 请假可以提前申请吗 / 请假必须提前申请吗, still / already (`mood`);
//! need not / must not (`negation`). What can be done and what must be done are one where it is asked how, or how much.

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::QuestionType;
use crate::guards::question::Question;

/// What is asked of one time, past or not; in English of amounts as well, whose verbs have a tense.
const TIMES: [QuestionType; 7] = [
    QuestionType::When,
    QuestionType::Clock,
    QuestionType::Day,
    QuestionType::Polar,
    QuestionType::Count,
    QuestionType::Amount,
    QuestionType::AmountIs,
];
/// Of these in Chinese.
const IN_CHINESE: usize = 4;

/// What is as long, dear or late whether it may be or must.
const MEASURES: [QuestionType; 11] = [
    QuestionType::Duration,
    QuestionType::Wait,
    QuestionType::Price,
    QuestionType::Amount,
    QuestionType::AmountIs,
    QuestionType::When,
    QuestionType::Clock,
    QuestionType::Day,
    QuestionType::Size,
    QuestionType::Large,
    QuestionType::Age,
];

/// Whether both speak of the same time, and of what may be, must be or is.
pub fn modality(one: &Question, two: &Question) -> Result<(), Guard> {
    if (one.tense.past && !one.tense.future && two.tense.future && !two.tense.past)
        || (two.tense.past && !two.tense.future && one.tense.future && !one.tense.past)
    {
        return Err(Guard::Mood);
    }
    // When it was, or whether, and when it is as a rule.
    let times = if one.chinese { TIMES.get(..IN_CHINESE).unwrap_or_default() } else { &TIMES };
    let is_time = |question: &Question| times.iter().any(|kind| question.asks(*kind));
    let (was, is) = (
        |side: &Question| side.tense.past && !side.tense.present,
        |side: &Question| side.tense.present && !side.tense.past,
    );
    if is_time(one) && is_time(two) && (was(one) && is(two) || is(one) && was(two)) {
        return Err(Guard::Mood);
    }
    // How much has been had, and how much there is.
    let is_amount = |question: &Question| TIMES.iter().skip(IN_CHINESE).any(|kind| question.asks(*kind));
    if !one.chinese
        && is_amount(one)
        && is_amount(two)
        && one.tense.past != two.tense.past
        && one.tense.present
        && two.tense.present
    {
        return Err(Guard::Mood);
    }
    // What was done, and what must be.
    let due = |must: &Question, past: &Question| {
        must.modality.must
            && !must.tense.past
            && past.tense.past
            && !past.modality.must
            && !past.tense.present
            && !past.chinese
    };
    if due(one, two) || due(two, one) {
        return Err(Guard::Mood);
    }
    // It need not be, and it must not be.
    if one.modality.must && two.modality.must && one.modality.needless != two.modality.needless {
        return Err(Guard::Negation);
    }
    if one.tense.phase.is_some() && two.tense.phase.is_some() && one.tense.phase != two.tense.phase {
        return Err(Guard::Mood);
    }
    // How something can be done, and how it must be, is one question.
    let is_how = |question: &Question| question.asks(QuestionType::How) || question.asks(QuestionType::Remedy);
    let is_measured = |question: &Question| MEASURES.iter().any(|kind| question.asks(*kind));
    if !(is_how(one) && is_how(two) || is_measured(one) && is_measured(two)) {
        let only = |question: &Question| {
            (question.modality.may && !question.modality.must, question.modality.must && !question.modality.may)
        };
        if matches!((only(one), only(two)), ((true, _), (_, true)) | ((_, true), (true, _))) {
            return Err(Guard::Mood);
        }
        // «Must I?» and «do I?» differ, as do «can I?» and «will I?».
        let polar = |question: &Question| question.asks(QuestionType::Polar);
        if polar(one) && polar(two) && one.modality.must != two.modality.must {
            return Err(Guard::Mood);
        }
    }
    if one.negated != two.negated {
        return Err(Guard::Negation);
    }
    Ok(())
}
