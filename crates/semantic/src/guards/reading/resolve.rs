//! What only the whole question tells: nouns that name what is asked (the *price* of, 报销*流程*), topics that ask without a
//! question word, and quantities and marks in the order in which they are compared.

use smallvec::SmallVec;

use crate::guards::lexicon::Lexicon;
use crate::guards::lexicon::function_words::{Mark, QuestionType};
use crate::guards::lexicon::verb_forms_en;
use crate::guards::quantity::{Quantity, QuantityKind};
use crate::guards::question::{Question, bit};
use crate::guards::reading::contextual_synonyms_zh::{contextual_synonyms, opening_hours};
use crate::guards::reading::ellipsis;
use crate::guards::token::is_han;

/// Nouns that may only name what is asked, with their places among the terms.
pub type Names = SmallVec<[(QuestionType, usize); 2]>;

/// Settles what is asked, and what may be left out.
pub fn resolve(question: &mut Question, names: &Names, opener: &str, lexicon: &'static Lexicon) {
    type_nouns(question, names);
    polar_and_wh(&mut question.asked.types, opener);
    if question.asks(QuestionType::Who) {
        question.terms.iter_mut().for_each(|term| term.name_action(lexicon));
    }
    opening_hours(question);
    periods_as_durations(question);
    measure_nouns(question, lexicon);
    ellipsis::optional_terms(question);
    ellipsis::offers(question);
    contextual_synonyms(question);
    spans_as_rates(question);
    // The most of a number that is named bounds that number.
    if !question.quantities.sorted.is_empty() {
        question.scope.marks.iter_mut().filter(|mark| **mark == Mark::Utmost).for_each(|mark| *mark = Mark::Under);
    }
    question.quantities.sorted.sort_unstable();
    // What counts times, and what counts pieces, may stand on either side of each other.
    let counted = |quantity: &Quantity| Some(quantity.text.clone()).filter(|text| text.starts_with(is_han));
    question.quantities.in_order.sort_by_cached_key(|quantity| (quantity.kind, quantity.unit, counted(quantity)));
    question.scope.marks.sort_unstable();
}

/// Nouns that name what is asked are taken out where that is what is asked.
fn type_nouns(question: &mut Question, names: &Names) {
    for &(kind, place) in names.iter().rev() {
        let generic = bit(QuestionType::What) | bit(QuestionType::WhatIs);
        let asked = question.asked.types & !generic & !bit(QuestionType::Polar);
        let amounts = bit(QuestionType::Amount) | bit(QuestionType::AmountIs) | bit(QuestionType::Price);
        let times = bit(QuestionType::When) | bit(QuestionType::Clock) | bit(QuestionType::Day);
        let fits = match kind {
            QuestionType::Price => asked & amounts != 0,
            QuestionType::When => asked & times != 0,
            QuestionType::How => asked & (bit(QuestionType::How) | bit(QuestionType::Remedy)) != 0,
            // How long the interval is.
            QuestionType::Often => asked & (bit(QuestionType::Often) | bit(QuestionType::Duration) | amounts) != 0,
            kind => asked & bit(kind) != 0,
        };
        // A topic that ends in such a noun asks for it: 检修时间, «shipping price».
        let topic = question.asked.types == 0
            && question.roles.persons.is_empty()
            && place + 1 == question.terms.len()
            && question.terms.first().is_some_and(|term| !term.is_action);
        let becomes = asked == 0
            && (question.asked.types & generic != 0
                || topic
                || (kind == QuestionType::How && question.asked.types == 0));
        // «What does it cause»: a verb, and no name for the reason.
        let is_verb = kind == QuestionType::Why && question.asked.for_object;
        if is_verb || !(fits || becomes) || place >= question.terms.len() || question.terms.len() == 1 {
            continue;
        }
        question.asked.by_noun = true;
        let taken = question.terms.remove(place);
        if taken.negated {
            question.negated = !question.negated;
        }
        if becomes {
            question.asked.types = (question.asked.types & !generic) | bit(kind);
        }
        if kind == QuestionType::Often {
            question.asked.types = bit(QuestionType::Often);
        }
        if kind == QuestionType::Price {
            question.asked.types = (question.asked.types & !(amounts | generic)) | bit(QuestionType::Price);
        }
    }
}

/// What a period is, is how long it is.
fn periods_as_durations(question: &mut Question) {
    let is_span = question.terms.first().is_some_and(|term| term.ends_with(&[" period", " duration", " length"]));
    if is_span && question.asked.types == bit(QuestionType::WhatIs) {
        question.asked.types = bit(QuestionType::Duration);
    }
}

/// What is measured is known without the word for its measure.
fn measure_nouns(question: &mut Question, lexicon: &'static Lexicon) {
    let asks = |kinds: &[QuestionType]| kinds.iter().any(|kind| question.asks(*kind));
    let endings: &[&str] = if asks(&[QuestionType::Price])
        || (!question.chinese && asks(&[QuestionType::Amount, QuestionType::AmountIs]))
    {
        &["费用", "费", " cost", " price", " fee", " charge"]
    } else if asks(&[QuestionType::Duration, QuestionType::Wait]) {
        &["期限", "时长", "时间", "期", " time", " period"]
    } else if question.chinese && asks(&[QuestionType::When, QuestionType::Clock, QuestionType::Day]) {
        &["时间", "日期"]
    } else {
        return;
    };
    question.terms.iter_mut().for_each(|term| term.name_measure(endings, lexicon));
}

/// What is asked by how much, and says one year: so much a year.
fn spans_as_rates(question: &mut Question) {
    let measures = [
        QuestionType::Price,
        QuestionType::Amount,
        QuestionType::AmountIs,
        QuestionType::Count,
        QuestionType::Duration,
    ];
    if !measures.into_iter().any(|kind| question.asks(kind)) {
        return;
    }
    for quantity in question.quantities.sorted.iter_mut().chain(&mut question.quantities.in_order) {
        let unit = match (quantity.kind, quantity.unit, quantity.value) {
            (QuantityKind::Span, "month", 12_000) => "year",
            (QuantityKind::Span, "month", 1000) => "month",
            (QuantityKind::Span, "second", 604_800_000) => "week",
            (QuantityKind::Span, "second", 86_400_000) => "day",
            _ => continue,
        };
        *quantity = Quantity::new(QuantityKind::Rate, unit, 1.0);
    }
}

fn polar_and_wh(kinds: &mut u32, opener: &str) {
    if *kinds == 0 && verb_forms_en::opens_polar_question(opener) {
        *kinds = bit(QuestionType::Polar);
    }
    let asked = *kinds & !bit(QuestionType::Polar);
    if asked != 0 && asked != *kinds {
        // «Is there anything that…» asks whether; «could you say where…» asks where.
        let indefinite = bit(QuestionType::What) | bit(QuestionType::WhatIs);
        *kinds = if asked & !indefinite == 0 { bit(QuestionType::Polar) } else { asked };
    }
}
