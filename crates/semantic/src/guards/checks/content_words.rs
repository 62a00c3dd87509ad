//! Content words: each finds its like in the other question by lemma, sense, derivation or synonym, or may go without
//! saying. What has none is another action or thing; what has one must be as negated as that.
//!
//! Refuses 报销怎么提交 / 报销怎么取消 (`action`), 年假有几天 / 剩余年假有几天 (`entity`), travel with / without a visa
//! (`negation`), and what only one of them says (`scope`). The pairs that it finds are what the checks of direction compare.

use smallvec::SmallVec;

use crate::guards::checks::compounds::compounds;
use crate::guards::checks::direction::direction;
use crate::guards::checks::question_type::remedy;
use crate::guards::checks::scope::only_focus;
use crate::guards::checks::{direction_zh, employer};
use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Case, QuestionType};
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Matched, Question};

/// Whether both speak of the same, in the same parts.
pub fn content_words(one: &Question, two: &Question) -> Result<(), Guard> {
    // What «that» is stands in no question: how does that work, how do I do that.
    if one.terms.is_empty() && two.terms.is_empty() && one.asks(QuestionType::How) && two.asks(QuestionType::How) {
        return Err(Guard::Entity);
    }
    let matched = aligned(one, two)?;
    only_focus(one, two, &matched)?;
    employer::employer(one, two, &matched)?;
    direction_zh::word_order(one, two, &matched)?;
    direction(one, two, &matched)
}

/// Whether two terms are alike.
type Alike = fn(&Term, &Term) -> bool;

fn exact(one: &Term, two: &Term) -> bool {
    one.forms == two.forms
}

/// Terms of two questions with their likes, and those that have none.
pub struct Alignment {
    pub matched: Matched,
    pub left: SmallVec<[usize; 8]>,
    pub right: SmallVec<[usize; 8]>,
}

impl Alignment {
    pub fn of(one: &Question, two: &Question) -> Self {
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
    let Alignment { mut matched, left, right } = Alignment::of(one, two);
    for (a, b) in &matched {
        let (a, b) = (one.terms.get(*a), two.terms.get(*b));
        let in_vain = |a: &Term, b: &Term| a.failed && b.not_attempted;
        let is_other = a.zip(b).is_some_and(|(a, b)| in_vain(a, b) || in_vain(b, a));
        if a.map(|term| term.negated) != b.map(|term| term.negated) || is_other {
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
                .any(|known| known.same(term) && known.negated == term.negated);
            let bare = || term.optional_without_agent && !has_agent(other);
            term.negated || !(term.optional || repeated || contained(question, term, other) || bare())
        })
    };
    places.iter().copied().filter(needed).collect()
}

/// Whether somebody does something in it.
fn has_agent(question: &Question) -> bool {
    question.roles.persons.iter().any(|mention| mention.case != Case::Possessive)
        || question.terms.iter().any(|term| term.optional_without_agent || term.class == WordClass::Verb)
}

/// Whether another word of both questions holds a Chinese word, and says it again: 加班有加班费吗.
fn contained(question: &Question, term: &Term, other: &Question) -> bool {
    let holds = |whole: &Term| {
        let mut pairs = whole.forms.iter().zip(&term.forms);
        pairs.any(|(whole, part)| whole != part && part.chars().count() > 1 && whole.starts_with(&**part))
    };
    let whole = question.terms.iter().find(|whole| !whole.negated && whole.class == WordClass::Noun && holds(whole));
    question.chinese && whole.is_some_and(|whole| other.terms.iter().any(|known| exact(known, whole)))
}

/// What kind of difference the terms make that have no like.
fn unlike(one: &Question, left: &[usize], two: &Question, right: &[usize]) -> Guard {
    fn of<'q>(question: &'q Question, places: &[usize]) -> SmallVec<[&'q Term; 8]> {
        places.iter().filter_map(|at| question.terms.get(*at)).collect()
    }
    let (left, right) = (of(one, left), of(two, right));
    if left.iter().any(|term| right.iter().any(|other| term.opposes(other)))
        || left.iter().chain(&right).any(|term| term.negated)
    {
        return Guard::Negation;
    }
    if left.is_empty() || right.is_empty() {
        return Guard::Scope;
    }
    if left.iter().chain(&right).all(|term| term.class == WordClass::Verb) { Guard::Action } else { Guard::Entity }
}
