//! Whether two questions speak of the same time, and of what may be, must be, or is.

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::Kind;
use crate::guards::question::Question;

/// What is asked of one time, past or not; in English of amounts as well, whose verbs have a tense.
const TIMES: [Kind; 7] = [Kind::When, Kind::Clock, Kind::Day, Kind::Polar, Kind::Count, Kind::Amount, Kind::AmountIs];
/// Of these in Chinese.
const IN_CHINESE: usize = 4;

/// What is as long, dear or late whether it may be or must.
const MEASURES: [Kind; 11] = [
    Kind::Duration,
    Kind::Wait,
    Kind::Price,
    Kind::Amount,
    Kind::AmountIs,
    Kind::When,
    Kind::Clock,
    Kind::Day,
    Kind::Size,
    Kind::Large,
    Kind::Age,
];

/// Whether both speak of the same time, and of what may be, must be or is.
pub fn modality(one: &Question, two: &Question) -> Result<(), Guard> {
    if (one.past && !one.future && two.future && !two.past) || (two.past && !two.future && one.future && !one.past) {
        return Err(Guard::Mood);
    }
    // When it was, or whether, and when it is as a rule.
    let times = if one.chinese { TIMES.get(..IN_CHINESE).unwrap_or_default() } else { &TIMES };
    let is_time = |question: &Question| times.iter().any(|kind| question.asks(*kind));
    let (was, is) = (|side: &Question| side.past && !side.present, |side: &Question| side.present && !side.past);
    if is_time(one) && is_time(two) && (was(one) && is(two) || is(one) && was(two)) {
        return Err(Guard::Mood);
    }
    // How much has been had, and how much there is.
    let is_amount = |question: &Question| TIMES.iter().skip(IN_CHINESE).any(|kind| question.asks(*kind));
    if !one.chinese && is_amount(one) && is_amount(two) && one.past != two.past && one.present && two.present {
        return Err(Guard::Mood);
    }
    // What was done, and what must be.
    let due = |must: &Question, past: &Question| {
        must.must && !must.past && past.past && !past.must && !past.present && !past.chinese
    };
    if due(one, two) || due(two, one) {
        return Err(Guard::Mood);
    }
    // It need not be, and it must not be.
    if one.must && two.must && one.needless != two.needless {
        return Err(Guard::Negation);
    }
    if one.phase.is_some() && two.phase.is_some() && one.phase != two.phase {
        return Err(Guard::Mood);
    }
    // How something can be done, and how it must be, is one question.
    let is_how = |question: &Question| question.asks(Kind::How) || question.asks(Kind::Remedy);
    let is_measured = |question: &Question| MEASURES.iter().any(|kind| question.asks(*kind));
    if !(is_how(one) && is_how(two) || is_measured(one) && is_measured(two)) {
        let only = |question: &Question| (question.may && !question.must, question.must && !question.may);
        if matches!((only(one), only(two)), ((true, _), (_, true)) | ((_, true), (true, _))) {
            return Err(Guard::Mood);
        }
        // «Must I?» and «do I?» differ, as do «can I?» and «will I?».
        let polar = |question: &Question| question.asks(Kind::Polar);
        if polar(one) && polar(two) && one.must != two.must {
            return Err(Guard::Mood);
        }
    }
    if one.loose_not != two.loose_not {
        return Err(Guard::Negation);
    }
    Ok(())
}
