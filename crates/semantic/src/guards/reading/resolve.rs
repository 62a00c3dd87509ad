//! What can only be said of a question once all of it is read.

use smallvec::SmallVec;

use crate::guards::lexicon::Lexicon;
use crate::guards::lexicon::function_words::{Kind, Mark};
use crate::guards::quantity::{Quantity, QuantityKind};
use crate::guards::question::{Question, bit};
use crate::guards::reading::contextual_synonyms_zh::{settle_likes, settle_times};
use crate::guards::reading::ellipsis;
use crate::guards::token::is_han;

/// Nouns that may only name what is asked, with their places among the terms.
pub type Names = SmallVec<[(Kind, usize); 2]>;

/// Settles what is asked, and what may be left out.
pub fn settle(question: &mut Question, names: &Names, opener: &str, lexicon: &'static Lexicon) {
    settle_names(question, names);
    settle_kinds(&mut question.kinds, opener);
    if question.asks(Kind::Who) {
        question.terms.iter_mut().for_each(|term| term.name_action(lexicon));
    }
    settle_times(question);
    settle_spans(question);
    settle_measures(question, lexicon);
    ellipsis::settle_optional(question);
    ellipsis::settle_offers(question);
    settle_likes(question);
    settle_periods(question);
    // The most of a number that is named bounds that number.
    if !question.quantities.is_empty() {
        question.marks.iter_mut().filter(|mark| **mark == Mark::Utmost).for_each(|mark| *mark = Mark::Under);
    }
    question.quantities.sort_unstable();
    // What counts times, and what counts pieces, may stand on either side of each other.
    let counted = |quantity: &Quantity| Some(quantity.text.clone()).filter(|text| text.starts_with(is_han));
    question.sequence.sort_by_cached_key(|quantity| (quantity.class, quantity.unit, counted(quantity)));
    question.marks.sort_unstable();
}

/// Nouns that name what is asked are taken out where that is what is asked.
fn settle_names(question: &mut Question, names: &Names) {
    for &(kind, place) in names.iter().rev() {
        let generic = bit(Kind::What) | bit(Kind::WhatIs);
        let asked = question.kinds & !generic & !bit(Kind::Polar);
        let amounts = bit(Kind::Amount) | bit(Kind::AmountIs) | bit(Kind::Price);
        let times = bit(Kind::When) | bit(Kind::Clock) | bit(Kind::Day);
        let fits = match kind {
            Kind::Price => asked & amounts != 0,
            Kind::When => asked & times != 0,
            Kind::How => asked & (bit(Kind::How) | bit(Kind::Remedy)) != 0,
            // How long the interval is.
            Kind::Often => asked & (bit(Kind::Often) | bit(Kind::Duration) | amounts) != 0,
            kind => asked & bit(kind) != 0,
        };
        // A topic that ends in such a noun asks for it: 检修时间, «shipping price».
        let topic = question.kinds == 0
            && question.persons.is_empty()
            && place + 1 == question.terms.len()
            && question.terms.first().is_some_and(|term| !term.is_action);
        let becomes =
            asked == 0 && (question.kinds & generic != 0 || topic || (kind == Kind::How && question.kinds == 0));
        // «What does it cause»: a verb, and no name for the reason.
        let is_verb = kind == Kind::Why && question.object;
        if is_verb || !(fits || becomes) || place >= question.terms.len() || question.terms.len() == 1 {
            continue;
        }
        question.named = true;
        let taken = question.terms.remove(place);
        if taken.not {
            question.loose_not = !question.loose_not;
        }
        if becomes {
            question.kinds = (question.kinds & !generic) | bit(kind);
        }
        if kind == Kind::Often {
            question.kinds = bit(Kind::Often);
        }
        if kind == Kind::Price {
            question.kinds = (question.kinds & !(amounts | generic)) | bit(Kind::Price);
        }
    }
}

/// What a period is, is how long it is.
fn settle_spans(question: &mut Question) {
    let is_span = question.terms.first().is_some_and(|term| term.ends_with(&[" period", " duration", " length"]));
    if is_span && question.kinds == bit(Kind::WhatIs) {
        question.kinds = bit(Kind::Duration);
    }
}

/// What is measured is known without the word for its measure.
fn settle_measures(question: &mut Question, lexicon: &'static Lexicon) {
    let asks = |kinds: &[Kind]| kinds.iter().any(|kind| question.asks(*kind));
    let endings: &[&str] = if asks(&[Kind::Price]) || (!question.chinese && asks(&[Kind::Amount, Kind::AmountIs])) {
        &["费用", "费", " cost", " price", " fee", " charge"]
    } else if asks(&[Kind::Duration, Kind::Wait]) {
        &["期限", "时长", "时间", "期", " time", " period"]
    } else if question.chinese && asks(&[Kind::When, Kind::Clock, Kind::Day]) {
        &["时间", "日期"]
    } else {
        return;
    };
    question.terms.iter_mut().for_each(|term| term.name_measure(endings, lexicon));
}

/// What is asked by how much, and says one year: so much a year.
fn settle_periods(question: &mut Question) {
    let measures = [Kind::Price, Kind::Amount, Kind::AmountIs, Kind::Count, Kind::Duration];
    if !measures.into_iter().any(|kind| question.asks(kind)) {
        return;
    }
    for quantity in question.quantities.iter_mut().chain(&mut question.sequence) {
        let unit = match (quantity.class, quantity.unit, quantity.value) {
            (QuantityKind::Span, "month", 12_000) => "year",
            (QuantityKind::Span, "month", 1000) => "month",
            (QuantityKind::Span, "second", 604_800_000) => "week",
            (QuantityKind::Span, "second", 86_400_000) => "day",
            _ => continue,
        };
        *quantity = Quantity::new(QuantityKind::Rate, unit, 1.0);
    }
}

fn settle_kinds(kinds: &mut u32, opener: &str) {
    if *kinds == 0
        && matches!(
            opener,
            "is" | "are"
                | "was"
                | "were"
                | "am"
                | "do"
                | "does"
                | "did"
                | "can"
                | "could"
                | "may"
                | "must"
                | "should"
                | "will"
                | "would"
                | "has"
                | "have"
                | "shall"
                | "need"
        )
    {
        *kinds = bit(Kind::Polar);
    }
    let asked = *kinds & !bit(Kind::Polar);
    if asked != 0 && asked != *kinds {
        // «Is there anything that…» asks whether; «could you say where…» asks where.
        let indefinite = bit(Kind::What) | bit(Kind::WhatIs);
        *kinds = if asked & !indefinite == 0 { bit(Kind::Polar) } else { asked };
    }
}
