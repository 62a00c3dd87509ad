//! Direction by position alone: two things that have changed sides of a preposition, or of whatever stands between them,
//! though no dictionary needs to know what they are.
//!
//! Refuses How do I merge develop into main? / How do I merge main into develop?, 怎么把develop合并到main /
//! 怎么把main合并到develop (`direction`).

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::SemanticRole;
use crate::guards::question::Question;
use crate::guards::question::term::WordClass;

/// Whether two things have changed sides of a preposition, whatever the dictionary takes them for.
pub fn turned(one: &Question, two: &Question, matched: &[(usize, usize)]) -> bool {
    let led = |question: &Question, at: usize| {
        question.terms.get(at).is_some_and(|term| term.after_preposition || is_way(term.role))
    };
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

fn is_way(role: Option<SemanticRole>) -> bool {
    matches!(role, Some(SemanticRole::Source | SemanticRole::Goal))
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

/// Words that join two of which either may stand first.
const JOINS: [&str; 16] =
    ["and", "or", "和", "与", "跟", "及", "或", "或者", "还是", "以及", "、", "versus", "vs", "同", "是", "of"];
