//! Quantities: numbers, ranks, amounts of money, measures, versions, dates and times must be the same, and in the same order.
//!
//! Refuses 报销要 3 天吗 / 报销要 30 天吗 (`number`), Is the fee $500? / Is the fee €500? (`unit`), v1.2 / v2.1 (`version`),
//! Saturday / Sunday (`date`). The same quantities in another order are a `direction`: 一次两片 / 两次一片.
//! A period that a word of both holds may go without saying: 一年 beside 年假.

use crate::guards::guard::Guard;
use crate::guards::quantity::{Quantity, QuantityKind};
use crate::guards::question::Question;

pub fn quantities(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.quantities.sorted == two.quantities.sorted {
        return if one.quantities.in_order == two.quantities.in_order { Ok(()) } else { Err(Guard::Direction) };
    }
    let only = |one: &Question, two: &Question| {
        one.quantities.sorted.iter().find(|found| !two.quantities.sorted.contains(found)).cloned()
    };
    if implied(one, two) || implied(two, one) {
        return Ok(());
    }
    let found = only(one, two).or_else(|| only(two, one));
    let counterpart = |found: &Quantity| {
        [one, two]
            .into_iter()
            .flat_map(|side| &side.quantities.sorted)
            .any(|other| other.value == found.value && (other.unit, &other.text) != (found.unit, &found.text))
    };
    Err(match found {
        Some(found)
            if matches!(
                found.kind,
                QuantityKind::Measure | QuantityKind::Span | QuantityKind::Amount | QuantityKind::Number
            ) && counterpart(&found) =>
        {
            Guard::Unit
        }
        Some(found) => match found.kind {
            QuantityKind::Number | QuantityKind::Ordinal | QuantityKind::Measure | QuantityKind::Span => Guard::Number,
            QuantityKind::Amount => Guard::Amount,
            QuantityKind::Version => Guard::Version,
            QuantityKind::Year
            | QuantityKind::Month
            | QuantityKind::Quarter
            | QuantityKind::Weekday
            | QuantityKind::Clock
            | QuantityKind::DayPart
            | QuantityKind::Relative
            | QuantityKind::Rate => Guard::Date,
        },
        None => Guard::Number,
    })
}

/// Whether one says no more than the other, but a period that a word of both holds: 一年 of 年假.
fn implied(longer: &Question, shorter: &Question) -> bool {
    let mut more = longer.quantities.sorted.iter().filter(|found| !shorter.quantities.sorted.contains(found));
    let (Some(more), None) = (more.next(), more.next()) else { return false };
    let sign = match (more.kind, more.unit, more.value) {
        (QuantityKind::Rate, "year", _) | (QuantityKind::Span, "month", 12_000) => '年',
        (QuantityKind::Rate, "month", _) | (QuantityKind::Span, "month", 1000) => '月',
        (QuantityKind::Rate, "day", _) | (QuantityKind::Span, "second", 86_400_000) => '日',
        (QuantityKind::Rate, "week", _) | (QuantityKind::Span, "second", 604_800_000) => '周',
        _ => return false,
    };
    // Leave is so many days a year.
    let is_yearly = more.kind == QuantityKind::Rate && more.unit == "year";
    let yearly = ["annual", "vacation", "holiday", "leave", "pto"];
    let holds = |question: &Question| {
        let says = |form: &str| form.contains(sign) || is_yearly && yearly.iter().any(|word| form.contains(word));
        question.terms.iter().any(|term| term.forms.iter().any(|form| says(form)))
    };
    longer.quantities.sorted.len() == shorter.quantities.sorted.len() + 1 && holds(longer) && holds(shorter)
}
