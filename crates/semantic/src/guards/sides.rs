//! On which side of a preposition something stands: merge develop into main, merge main into develop.

use smallvec::SmallVec;

use super::closed::{Case, Kind, Person, Role};
use super::guard::Guard;
use super::question::{Question, Spoken, bit};
use super::reader::Reader;
use super::term::{Term, WordClass};

impl Reader<'_> {
    /// The part that a person plays; it passes the owner by: into my folder.
    pub(super) fn part_of(&mut self, case: Case) -> Option<Role> {
        if case == Case::Owner && !self.question.chinese { None } else { self.next.role.take() }
    }

    /// Whether an English word is the name of something by its place, whatever it is elsewhere: behind a preposition,
    /// or behind «to» where it was told from where.
    pub(super) fn is_named(&self, at: usize) -> bool {
        let text = self.text(at);
        let Some(mut before) = at.checked_sub(1).filter(|_| !text.ends_with("ing")) else { return false };
        if ARTICLES.contains(&self.text(before)) {
            before = before.wrapping_sub(1);
        }
        let came = || self.question.terms.iter().any(|term| term.role == Some(Role::Source));
        PREPOSITIONS.contains(&self.text(before)) || self.text(before) == "to" && came()
    }
}

/// Whether two things have changed sides of a preposition, whatever the dictionary takes them for.
pub fn turned(one: &Question, two: &Question, matched: &[(usize, usize)]) -> bool {
    let led = |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.of || is_way(term.role));
    let acts =
        |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.class == WordClass::Verb);
    // A verb stands before its preposition, and what it is derived from may stand behind another: apply for, application.
    let moved = |here: bool| {
        matched
            .iter()
            .filter(move |(a, b)| led(one, *a) == here && led(two, *b) != here && !(acts(one, *a) && acts(two, *b)))
    };
    moved(true).any(|first| moved(false).any(|second| first.0 > second.0 && first.1 < second.1))
}

fn is_way(role: Option<Role>) -> bool {
    matches!(role, Some(Role::Source | Role::Goal))
}

/// Whether two questions are word for word the same but for two that have changed places, with more than «and» between
/// them: no dictionary needs to know what they are.
pub fn exchanged(one: &str, two: &str) -> bool {
    let (one, two) = without_common_ends(one, two);
    let here: SmallVec<[&str; 24]> = one.split(' ').collect();
    let there: SmallVec<[&str; 24]> = two.split(' ').collect();
    if here.len() != there.len() {
        return false;
    }
    // X between Y, and Y between X.
    (1..here.len().saturating_sub(1)).any(|first| {
        (1..here.len().saturating_sub(first)).any(|last| {
            let (x, rest) = here.split_at(first);
            let (between, y) = rest.split_at(rest.len() - last);
            let is_joined = between.first().is_none_or(|word| JOINS.contains(word));
            !is_joined
                && there.starts_with(y)
                && there.ends_with(x)
                && there.get(last..last + between.len()) == Some(between)
        })
    })
}

/// Two questions of as many words without the words that both begin with, and those that both end with.
fn without_common_ends<'a>(one: &'a str, two: &'a str) -> (&'a str, &'a str) {
    let same = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
    let begin = one.as_bytes().get(..same).and_then(|same| same.iter().rposition(|byte| *byte == b' '));
    let from = begin.map_or(0, |space| space + 1);
    let (one, two) = (one.get(from..).unwrap_or_default(), two.get(from..).unwrap_or_default());
    let same = one.bytes().rev().zip(two.bytes().rev()).take_while(|(a, b)| a == b).count();
    let end = one.as_bytes().get(one.len() - same..).and_then(|same| same.iter().position(|byte| *byte == b' '));
    let behind = end.map_or(0, |space| same - space);
    (one.get(..one.len() - behind).unwrap_or_default(), two.get(..two.len() - behind).unwrap_or_default())
}

/// Whether the company does in one of them what whoever asks, or the staff, does in the other: who pays for the course.
///
/// # Errors
/// That it is another one who does it.
pub fn owners(one: &Question, two: &Question, matched: &[(usize, usize)]) -> Result<(), Guard> {
    if one.chinese || two.chinese {
        return Ok(());
    }
    let is = |question: &Question, words: &[&str]| question.terms.iter().any(|term| term.is_one_of(words));
    if !is(one, COMPANY) && !is(two, COMPANY) {
        return Ok(());
    }
    // Who does it stands before the verb, or behind «by».
    let stands = |question: &Question, words: &[&str], verb: usize| {
        let does = |(at, term): (usize, &Term)| {
            let leads = !question.passive && at < verb && term.role.is_none() && !term.of;
            (leads || term.role == Some(Role::By)) && term.is_one_of(words)
        };
        question.terms.iter().enumerate().any(does)
    };
    let asks = |question: &Question, verb: usize| {
        let is_before = |(person, case, role, place): &Spoken| {
            *person == Person::First && *case != Case::Owner && role.is_none() && *place <= verb
        };
        // «We» may be either.
        !question.passive && question.persons.iter().any(is_before) && question.words.split(' ').any(|word| word == "i")
    };
    let company = |question: &Question, verb: usize| stands(question, COMPANY, verb);
    let staff = |question: &Question, verb: usize| stands(question, STAFF, verb) || asks(question, verb);
    let acts = |question: &Question, at: usize| {
        question.terms.get(at).is_some_and(|term| term.is_action && !term.optional && term.class == WordClass::Verb)
    };
    let side = |question: &Question| (is(question, COMPANY), is(question, STAFF));
    let is_named = one.terms.iter().chain(&two.terms).all(|term| !term.is_action);
    if is_named && matches!((side(one), side(two)), ((true, false), (false, true)) | ((false, true), (true, false))) {
        return Err(Guard::Entity);
    }
    let differs = matched.iter().filter(|(a, b)| acts(one, *a) || acts(two, *b)).any(|(a, b)| {
        let (here, there) = ((company(one, *a), staff(one, *a)), (company(two, *b), staff(two, *b)));
        matches!((here, there), ((true, false), (false, true)) | ((false, true), (true, false)))
    });
    if differs { Err(Guard::Entity) } else { Ok(()) }
}

/// Whether somebody does something in it.
pub fn acts(question: &Question) -> bool {
    question.persons.iter().any(|(_, case, ..)| *case != Case::Owner)
        || question.terms.iter().any(|term| term.bare || term.class == WordClass::Verb)
}

/// Whether one asks where something is reported, and the other whom one tells.
pub fn tell_somebody(one: &Question, two: &Question) -> bool {
    let tells = |question: &Question| question.terms.iter().any(|term| term.is_one_of(TELLS));
    let asker = |question: &Question| question.persons.iter().any(|(person, ..)| *person == Person::First);
    let fits =
        |one: &Question, two: &Question| one.kinds == bit(Kind::Who) && asker(one) && two.kinds == bit(Kind::Where);
    (fits(one, two) || fits(two, one)) && tells(one) && tells(two)
}

/// Verbs of getting something: where that is done is how it is.
pub const GETS: &[&str] = &[
    "get",
    "obtain",
    "get hold of",
    "locate",
    "look",
    "request",
    "apply for",
    "apply",
    "adjust",
    "book",
    "reserve",
    "order",
    "read",
];
/// Verbs of telling somebody what is amiss.
const TELLS: &[&str] = &["report", "tell", "notify", "inform", "flag"];
/// Who employs.
const COMPANY: &[&str] = &["company", "employer", "organization", "organisation", "firm", "business"];
/// Who is employed.
const STAFF: &[&str] = &["employee", "staff", "staff member", "worker", "personnel", "people", "team member"];

/// Prepositions behind which a noun stands, but for verbs in «-ing».
const PREPOSITIONS: [&str; 15] = [
    "into", "onto", "from", "under", "above", "below", "over", "in", "on", "with", "inside", "behind", "of", "for",
    "at",
];
const ARTICLES: [&str; 8] = ["the", "a", "an", "my", "our", "your", "this", "that"];
/// Words that join two of which either may stand first.
const JOINS: [&str; 16] =
    ["and", "or", "和", "与", "跟", "及", "或", "或者", "还是", "以及", "、", "versus", "vs", "同", "是", "of"];
