//! Direction in Chinese, which word order alone tells: on which side of a coverb such as 替 or 比 persons and things stand,
//! which verb is the main one, and what a word modifies.
//!
//! Refuses 我能替孩子签字吗 / 孩子能替我签字吗, 怎么恢复删除的照片 / 怎么删除恢复的照片, 怎么取消自动更新 / 怎么自动取消更新
//! (`direction`).

use smallvec::SmallVec;

use crate::guards::guard::Guard;
use crate::guards::question::Matched;
use crate::guards::question::Question;
use crate::guards::question::coverbs_zh::COVERBS;
use crate::guards::question::term::{Term, WordClass};

/// A place in either question.
type Pair = (usize, usize);

/// Whether matched words stand on the same sides.
pub fn word_order(one: &Question, two: &Question, matched: &Matched) -> Result<(), Guard> {
    if !(one.chinese && two.chinese) {
        return Ok(());
    }
    let differs = sides_of_coverb_exchanged(one, two, matched)
        || patient_is_agent(one, two, matched)
        || patient_is_agent(two, one, &matched.iter().map(|(a, b)| (*b, *a)).collect())
        || other_main_verb(one, two, matched)
        || other_word_modified(one, two, matched);
    if differs { Err(Guard::Direction) } else { Ok(()) }
}

/// Whether two that play a part have changed the sides of the same word: 我替孩子签字, 孩子替我签字.
fn sides_of_coverb_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let terms = |(a, b): &Pair| one.terms.get(*a).zip(two.terms.get(*b));
    // What stands right behind such a word is no verb, whatever the dictionary takes it for.
    let is_led = |question: &Question, term: &Term| {
        question.roles.coverbs.positions.iter().any(|(sign, at)| *sign != '是' && at + 1 == term.tokens.0)
    };
    let is_noun = |(a, b): &(&Term, &Term)| {
        a.class != WordClass::Verb && b.class != WordClass::Verb || is_led(one, a) || is_led(two, b)
    };
    let nouns = matched.iter().filter_map(terms).filter(is_noun);
    let mut places: SmallVec<[Pair; 8]> = nouns.map(|(a, b)| (a.tokens.0, b.tokens.0)).collect();
    let persons = one.roles.coverbs.persons.iter();
    places.extend(persons.filter_map(|(person, at)| {
        two.roles.coverbs.persons.iter().find(|(other, _)| other == person).map(|(_, place)| (*at, *place))
    }));
    COVERBS.iter().any(|signs| {
        let (Some(here), Some(there)) =
            (one.roles.coverbs.only_position(signs), two.roles.coverbs.only_position(signs))
        else {
            return false;
        };
        // Somebody who is spoken of in one of them alone stands right behind the word.
        let taken = |question: &Question, other: &Question, pivot: usize| {
            question.roles.coverbs.persons.iter().any(|(person, at)| {
                *at == pivot + 1 && !other.roles.coverbs.persons.iter().any(|(known, _)| known == person)
            })
        };
        let rises = places.iter().any(|place| place.0 < here && place.1 > there);
        let falls = places.iter().any(|place| place.0 > here && place.1 < there);
        (rises && (falls || taken(one, two, here))) || (falls && taken(two, one, there))
    })
}

/// Whether one tells what was done to something, and the other who did it: 钱包被偷了, 偷了钱包.
fn patient_is_agent(passive: &Question, active: &Question, matched: &Matched) -> bool {
    // The one behind 被 is read as a noun.
    let is_verb = |pair: &&Pair| active.terms.get(pair.1).is_some_and(|term| term.class == WordClass::Verb);
    let turned = |verb: &Pair| matched.iter().any(|noun| noun.0 < verb.0 && noun.1 > verb.1);
    passive.scope.particles.has_patient_subject() && !active.roles.passive && matched.iter().filter(is_verb).any(turned)
}

/// Whether another verb is what is done: 恢复删除的照片, 删除恢复的照片.
fn other_main_verb(one: &Question, two: &Question, matched: &Matched) -> bool {
    let acts = |term: &Term| term.class == WordClass::Verb && !term.in_time_clause && !term.optional;
    let head = |question: &Question| {
        let (behind, _) = question.roles.coverbs.asked_action?;
        question.terms.iter().position(|term| term.tokens.0 >= behind && acts(term))
    };
    let exchanged = head(one).zip(head(two)).is_some_and(|(here, there)| {
        let is_matched = |pair: &Pair| pair.0 == here || pair.1 == there;
        !matched.contains(&(here, there)) && matched.iter().filter(|pair| is_matched(pair)).count() == 2
    });
    // Before the word that asks how, they are a name for what is done: 加班申请怎么提交.
    let neighbours = |question: &Question, first: usize, second: usize| {
        let pair = question.terms.get(first).zip(question.terms.get(second));
        let is_name = |at: usize| question.roles.coverbs.asked_action.is_some_and(|(led, how)| how && at < led);
        // Right behind that word, either is what is done: 怎么恢复备份, 怎么备份恢复.
        let opens = |a: &Term| question.roles.coverbs.asked_action.is_some_and(|(led, _)| led == a.tokens.0);
        let is_done = |a: &Term, b: &Term| acts(a) && acts(b) || opens(a) && (acts(a) || acts(b));
        pair.filter(|(a, b)| is_done(a, b) && a.tokens.1 == b.tokens.0).map(|(a, _)| is_name(a.tokens.0))
    };
    exchanged
        || matched.iter().any(|first| {
            matched.iter().any(|second| {
                let pair = neighbours(one, first.0, second.0).zip(neighbours(two, second.1, first.1));
                pair.is_some_and(|(here, there)| here == there)
            })
        })
}

/// Whether a word stands right before another one than the same in the other question: 最高温度的最低湿度, 取消自动更新.
fn other_word_modified(one: &Question, two: &Question, matched: &Matched) -> bool {
    let next = |question: &Question, at: usize| {
        let pair = question.terms.get(at).zip(question.terms.get(at + 1));
        pair.filter(|(term, next)| term.tokens.1 == next.tokens.0).map(|_| at + 1)
    };
    matched.iter().any(|pair| {
        let Some((here, there)) = next(one, pair.0).zip(next(two, pair.1)) else { return false };
        let is_matched = |pair: &&Pair| (pair.0 == here) != (pair.1 == there);
        matched.iter().filter(is_matched).count() == 2
    })
}
