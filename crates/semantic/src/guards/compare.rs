//! Two questions held against each other. What is not known to be the same is different.

use smallvec::SmallVec;

use super::closed::{Case, Kind, Mark, Role};
use super::compound::compounds;
use super::guard::Guard;
use super::likes::{DONE_THERE, remedy};
use super::mood::mood;
use super::parts::{directions, persons, restrictions};
use super::quantity::{Quantity, QuantityKind};
use super::question::{Matched, Question, bit};
use super::term::{Term, WordClass};
use super::{order, sides};

/// Whether two questions are the same, by their words.
///
/// # Errors
/// The first guard that found a difference.
pub fn compare(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.words.is_empty() || two.words.is_empty() {
        return Err(Guard::Length);
    }
    if !one.has_signs_of(two) {
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
        Err(found) if !one.has_signs_of(two) => vec![found],
        Err(_) => CHECKS.iter().filter_map(|check| check(one, two).err()).collect(),
    }
}

/// Whether no more than words tells two questions apart. Guards that compare words stop at the first that is another,
/// and what is said may differ behind it: so all that can be seen of that is looked at by itself.
#[must_use]
pub fn only_words_differ(one: &Question, two: &Question) -> bool {
    let firm = |question: &Question| -> SmallVec<[Mark; 4]> {
        question.marks.iter().copied().filter(|mark| mark.is_comparison() || mark.is_time()).collect()
    };
    let is_said = one.has_signs_of(two)
        && firm(one) == firm(two)
        && [quantities, order::turns, persons, mood, kinds].iter().all(|check| check(one, two).is_ok());
    if !is_said || one.terms.len().max(two.terms.len()) > MOST_TERMS {
        return false;
    }
    let Aligned { matched, left, right } = Aligned::of(one, two);
    let denies = |question: &Question, at: &usize| question.terms.get(*at).is_some_and(|term| term.not);
    let is_denied = matched.iter().any(|(a, b)| denies(one, a) != denies(two, b))
        || left.iter().any(|at| denies(one, at))
        || right.iter().any(|at| denies(two, at));
    !is_denied && order::sides(one, two, &matched).is_ok() && directions(one, two, &matched).is_ok()
}

/// Finds one difference.
type Check = fn(&Question, &Question) -> Result<(), Guard>;

/// From what costs least to what costs most.
const CHECKS: [Check; 7] = [quantities, marks, order::turns, persons, mood, kinds, terms];

fn quantities(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.quantities == two.quantities {
        return if one.sequence == two.sequence { Ok(()) } else { Err(Guard::Direction) };
    }
    let only =
        |one: &Question, two: &Question| one.quantities.iter().find(|found| !two.quantities.contains(found)).cloned();
    if implied(one, two) || implied(two, one) {
        return Ok(());
    }
    let found = only(one, two).or_else(|| only(two, one));
    let counterpart = |found: &Quantity| {
        [one, two]
            .into_iter()
            .flat_map(|side| &side.quantities)
            .any(|other| other.value == found.value && (other.unit, &other.text) != (found.unit, &found.text))
    };
    Err(match found {
        Some(found)
            if matches!(
                found.class,
                QuantityKind::Measure | QuantityKind::Span | QuantityKind::Amount | QuantityKind::Number
            ) && counterpart(&found) =>
        {
            Guard::Unit
        }
        Some(found) => match found.class {
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
    let mut more = longer.quantities.iter().filter(|found| !shorter.quantities.contains(found));
    let (Some(more), None) = (more.next(), more.next()) else { return false };
    let sign = match (more.class, more.unit, more.value) {
        (QuantityKind::Rate, "year", _) | (QuantityKind::Span, "month", 12_000) => '年',
        (QuantityKind::Rate, "month", _) | (QuantityKind::Span, "month", 1000) => '月',
        (QuantityKind::Rate, "day", _) | (QuantityKind::Span, "second", 86_400_000) => '日',
        (QuantityKind::Rate, "week", _) | (QuantityKind::Span, "second", 604_800_000) => '周',
        _ => return false,
    };
    // Leave is so many days a year.
    let is_yearly = more.class == QuantityKind::Rate && more.unit == "year";
    let yearly = ["annual", "vacation", "holiday", "leave", "pto"];
    let holds = |question: &Question| {
        let says = |form: &str| form.contains(sign) || is_yearly && yearly.iter().any(|word| form.contains(word));
        question.terms.iter().any(|term| term.forms.iter().any(|form| says(form)))
    };
    longer.quantities.len() == shorter.quantities.len() + 1 && holds(longer) && holds(shorter)
}

fn marks(one: &Question, two: &Question) -> Result<(), Guard> {
    if same_marks(one, two) || same_capacity(one, two) || same_capacity(two, one) {
        return Ok(());
    }
    let only = |one: &Question, two: &Question| one.marks.iter().find(|mark| !two.marks.contains(mark)).copied();
    Err(match only(one, two).or_else(|| only(two, one)) {
        Some(mark) if mark.is_comparison() => Guard::Comparison,
        Some(mark) if mark.is_time() => Guard::Date,
        _ => Guard::Scope,
    })
}

/// The same marks; but that something has happened before, or is so the while, may go without saying. How long it is
/// before something is how long until then.
fn same_marks(one: &Question, two: &Question) -> bool {
    let places = |question: &Question| question.marks.iter().filter(|mark| mark.is_time()).count();
    let waits = one.asks(Kind::Wait) && two.asks(Kind::Wait);
    let is_unsaid = |mark: Mark| matches!(mark, Mark::After | Mark::During) || (waits && mark == Mark::Before);
    let but_after = |question: &Question| -> SmallVec<[Mark; 4]> {
        question.marks.iter().copied().filter(|mark| !is_unsaid(*mark)).collect()
    };
    // What comes after a period is not in it: 试用期, 试用期后.
    let ends = |question: &Question| {
        let is_period = |term: &Term| {
            term.timed && term.ends_with(&["期", "期间"]) && !term.ends_with(&["到期", "过期", "逾期", "延期"])
        };
        question.marks.contains(&Mark::After) && question.terms.iter().any(is_period)
    };
    one.marks == two.marks
        || (!ends(one) && !ends(two) && (places(one) == 0 || places(two) == 0) && but_after(one) == but_after(two))
}

/// Whether one asks how much may be, and the other how much may be at most.
fn same_capacity(bound: &Question, free: &Question) -> bool {
    let kinds = [Kind::Count, Kind::Amount, Kind::AmountIs, Kind::Duration, Kind::Size, Kind::Large, Kind::Age];
    let asks = |question: &Question| kinds.iter().any(|kind| question.asks(*kind));
    let utmost = |mark: &&Mark| **mark == Mark::Utmost;
    free.may
        && asks(bound)
        && asks(free)
        && bound.marks.iter().filter(utmost).count() == 1
        && bound.marks.iter().filter(|mark| !utmost(mark)).eq(free.marks.iter())
}

/// Whether both speak of the same, in the same parts.
fn terms(one: &Question, two: &Question) -> Result<(), Guard> {
    // What «that» is stands in no question: how does that work, how do I do that.
    if one.terms.is_empty() && two.terms.is_empty() && one.asks(Kind::How) && two.asks(Kind::How) {
        return Err(Guard::Entity);
    }
    let matched = aligned(one, two)?;
    restrictions(one, two, &matched)?;
    sides::owners(one, two, &matched)?;
    order::sides(one, two, &matched)?;
    directions(one, two, &matched)
}

/// Whether two terms are alike.
type Alike = fn(&Term, &Term) -> bool;

fn exact(one: &Term, two: &Term) -> bool {
    one.forms == two.forms
}

/// Terms of two questions with their likes, and those that have none.
struct Aligned {
    matched: Matched,
    left: SmallVec<[usize; 8]>,
    right: SmallVec<[usize; 8]>,
}

impl Aligned {
    fn of(one: &Question, two: &Question) -> Self {
        let mut matched = Matched::new();
        let mut taken: SmallVec<[bool; 24]> = SmallVec::from_elem(false, two.terms.len());
        let mut left: SmallVec<[usize; 8]> = SmallVec::new();
        let mut open: SmallVec<[usize; 24]> = (0..one.terms.len()).collect();
        // A word that is there twice is told by the one before it: 测试环境, 生产环境.
        let before = |at: usize, place: usize| {
            let pair = at.checked_sub(1).zip(place.checked_sub(1));
            pair.and_then(|(at, place)| one.terms.get(at).zip(two.terms.get(place))).is_some_and(|(a, b)| exact(a, b))
        };
        let is_noun = |a: &Term, b: &Term| a.class != WordClass::Verb && b.class != WordClass::Verb;
        let passes: [(Alike, bool); 3] = [(exact, true), (exact, false), (Term::same, false)];
        for (same, led) in passes {
            left.clear();
            for &at in &open {
                let Some(term) = one.terms.get(at) else { continue };
                let found = two.terms.iter().zip(&mut taken).enumerate().find(|(place, (other, taken))| {
                    !**taken && same(term, other) && (!led || is_noun(term, other) && before(at, *place))
                });
                match found {
                    Some((place, (_, taken))) => {
                        *taken = true;
                        matched.push((at, place));
                    }
                    None => left.push(at),
                }
            }
            open.clear();
            open.extend(left.iter().copied());
        }
        let right: SmallVec<[usize; 8]> =
            taken.iter().enumerate().filter(|(_, taken)| !**taken).map(|(at, _)| at).collect();
        Self { matched, left, right }
    }
}

/// Finds for each term of either question its like in the other.
fn aligned(one: &Question, two: &Question) -> Result<Matched, Guard> {
    let Aligned { mut matched, left, right } = Aligned::of(one, two);
    for (a, b) in &matched {
        let (a, b) = (one.terms.get(*a), two.terms.get(*b));
        let in_vain = |a: &Term, b: &Term| a.failed && b.undone;
        let is_other = a.zip(b).is_some_and(|(a, b)| in_vain(a, b) || in_vain(b, a));
        if a.map(|term| term.not) != b.map(|term| term.not) || is_other {
            return Err(Guard::Negation);
        }
    }
    let (left, right) = (spare(one, &left, two), spare(two, &right, one));
    if left.is_empty() && right.is_empty() {
        return Ok(matched);
    }
    let (mut left, mut right) = (left, right);
    matched.extend(compounds(one, &mut left, two, &mut right));
    matched.extend(compounds(two, &mut right, one, &mut left).into_iter().map(|(b, a)| (a, b)));
    if (left.is_empty() && remedy(one, two, &right)) || (right.is_empty() && remedy(two, one, &left)) {
        return Ok(matched);
    }
    if left.is_empty() && right.is_empty() { Ok(matched) } else { Err(unlike(one, &left, two, &right)) }
}

/// The places of terms that were not found in the other question, and may not be left out.
fn spare(question: &Question, places: &[usize], other: &Question) -> SmallVec<[usize; 8]> {
    let needed = |at: &usize| {
        question.terms.get(*at).is_some_and(|term| {
            let repeated = other
                .terms
                .iter()
                .chain(question.terms.iter().take(*at))
                .any(|known| known.same(term) && known.not == term.not);
            let bare = || term.bare && !sides::acts(other);
            term.not || !(term.optional || repeated || contained(question, term, other) || bare())
        })
    };
    places.iter().copied().filter(needed).collect()
}

/// Whether another word of both questions holds a Chinese word, and says it again: 加班有加班费吗.
fn contained(question: &Question, term: &Term, other: &Question) -> bool {
    let holds = |whole: &Term| {
        let mut pairs = whole.forms.iter().zip(&term.forms);
        pairs.any(|(whole, part)| whole != part && part.chars().count() > 1 && whole.starts_with(&**part))
    };
    let whole = question.terms.iter().find(|whole| !whole.not && whole.class == WordClass::Noun && holds(whole));
    question.chinese && whole.is_some_and(|whole| other.terms.iter().any(|known| exact(known, whole)))
}

/// What kind of difference the terms make that have no like.
fn unlike(one: &Question, left: &[usize], two: &Question, right: &[usize]) -> Guard {
    fn of<'q>(question: &'q Question, places: &[usize]) -> SmallVec<[&'q Term; 8]> {
        places.iter().filter_map(|at| question.terms.get(*at)).collect()
    }
    let (left, right) = (of(one, left), of(two, right));
    if left.iter().any(|term| right.iter().any(|other| term.opposes(other)))
        || left.iter().chain(&right).any(|term| term.not)
    {
        return Guard::Negation;
    }
    if left.is_empty() || right.is_empty() {
        return Guard::Scope;
    }
    if left.iter().chain(&right).all(|term| term.class == WordClass::Verb) { Guard::Action } else { Guard::Entity }
}

fn kinds(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.kinds == two.kinds {
        let by = |question: &Question| question.terms.iter().any(|term| term.role == Some(Role::By));
        if one.asks(Kind::Who) && (undergoes(one, two) || undergoes(two, one)) {
            return Err(Guard::Direction);
        }
        let is_who = one.asks(Kind::Who) || one.asks(Kind::What);
        return if is_who && one.object != two.object && !by(one) && !by(two) && !one.passive && !two.passive {
            Err(Guard::Direction)
        } else {
            Ok(())
        };
    }
    let both = (one.kinds, two.kinds);
    // Where something can be seen is how it can be.
    let (how, place) = (bit(Kind::How), bit(Kind::Where));
    let is_seen = |term: &Term| term.is_one_of(SEES) || term.is_one_of(DONE_THERE) || term.is_one_of(sides::GETS);
    let sees = |question: &Question| {
        let terms = &question.terms;
        // What stands before a noun describes it: 登录密码.
        let describes =
            |at: usize| terms.get(at + 1).is_some_and(|next| next.class == WordClass::Noun && !next.is_action);
        let mut actions = terms.iter().enumerate().filter(|(_, term)| term.is_action);
        actions.all(|(at, term)| is_seen(term) || term.class == WordClass::Noun || describes(at))
    };
    if (both == (how, place) || both == (place, how))
        && sees(one)
        && sees(two)
        && [one, two].iter().all(|side| side.terms.iter().any(is_seen))
    {
        return Ok(());
    }
    let fits = ALIKE.iter().any(|(a, b)| {
        let (a, b) = (a.map_or(0, bit), b.map_or(0, bit));
        both == (a, b) || both == (b, a)
    });
    if fits || sides::tell_somebody(one, two) { Ok(()) } else { Err(Guard::Kind) }
}

/// Whether it asks in English who something is done to, where the other asks who does it: who is paid, who pays.
fn undergoes(passive: &Question, active: &Question) -> bool {
    let does = active.persons.iter().any(|(_, case, ..)| *case != Case::Owner);
    passive.undergone && !active.undergone && !active.object && !active.passive && !does
}

/// Verbs of finding and seeing, and of turning to the place where it is done.
const SEES: &[&str] = &[
    "查询",
    "查看",
    "查",
    "看",
    "查阅",
    "查找",
    "找到",
    "看到",
    "下载",
    "see",
    "view",
    "find",
    "check",
    "look at",
    "look up",
    "download",
    "access",
    "修改",
    "更改",
    "改",
    "设置",
    "更新",
    "重置",
    "change",
    "update",
    "edit",
    "reset",
    "set",
    "报名",
    "举报",
    "反馈",
    "register",
    "sign up",
    "sign up for",
    "enroll",
    "report",
];

/// Kinds that ask the same; none is a topic, without a question.
const ALIKE: [(Option<Kind>, Option<Kind>); 19] = [
    (Some(Kind::Size), Some(Kind::Age)),
    (Some(Kind::Wait), Some(Kind::When)),
    (Some(Kind::Wait), Some(Kind::Day)),
    (Some(Kind::Wait), Some(Kind::Duration)),
    (Some(Kind::What), Some(Kind::WhatIs)),
    (Some(Kind::WhatIs), Some(Kind::AmountIs)),
    (Some(Kind::WhatIs), Some(Kind::Amount)),
    (Some(Kind::WhatIs), Some(Kind::Price)),
    (Some(Kind::Amount), Some(Kind::AmountIs)),
    (Some(Kind::Amount), Some(Kind::Price)),
    (Some(Kind::AmountIs), Some(Kind::Price)),
    (Some(Kind::Amount), Some(Kind::Count)),
    (Some(Kind::When), Some(Kind::Clock)),
    (Some(Kind::When), Some(Kind::Day)),
    (Some(Kind::How), Some(Kind::Remedy)),
    (None, Some(Kind::How)),
    (None, Some(Kind::What)),
    (None, Some(Kind::WhatIs)),
    (None, Some(Kind::AmountIs)),
];
