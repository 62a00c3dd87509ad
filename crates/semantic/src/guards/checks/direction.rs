//! Direction: who does what to whom, whether words that both questions have play the same semantic roles. What holds in any
//! language stands here: sources and goals, agents and patients, which event comes first, which side of a verb a noun is on.
//!
//! Refuses 怎么从北京调到上海 / 怎么从上海调到北京, How do I move from Paris to Rome? / How do I move from Rome to Paris?,
//! 我欠公司钱吗 / 公司欠我钱吗 (`direction`). Nouns may turn where they are coordinated, or where voice or «of» tells why.

use smallvec::SmallVec;

use crate::guards::checks::direction_en::direction_en;
use crate::guards::checks::direction_prepositions;
use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Mark, QuestionType, SemanticRole};
use crate::guards::question::term::WordClass;
use crate::guards::question::{Matched, Question, WhPosition};

/// Whether the nouns of both play the same parts.
pub fn direction(one: &Question, two: &Question, matched: &Matched) -> Result<(), Guard> {
    let terms = |(a, b): &(usize, usize)| one.terms.get(*a).zip(two.terms.get(*b));
    for (a, b) in matched.iter().filter_map(terms) {
        let turned = |one: Option<SemanticRole>, two: Option<SemanticRole>| {
            matches!(
                (one, two),
                (Some(SemanticRole::Source), Some(SemanticRole::Goal)) | (Some(SemanticRole::Standard), None)
            )
        };
        if turned(a.role, b.role) || turned(b.role, a.role) {
            return Err(Guard::Direction);
        }
    }
    if direction_prepositions::turned(one, two, matched) || direction_prepositions::exchanged(&one.words, &two.words) {
        return Err(Guard::Direction);
    }
    direction_en(one, two, matched)?;
    if roles_exchanged(one, two, matched) || events_reversed(one, two, matched) || asks_other_side(one, two, matched) {
        return Err(Guard::Direction);
    }
    if person_and_noun_exchanged(one, two, matched) {
        return Err(Guard::Direction);
    }
    if agent_is_patient(one, two, matched)
        || agent_is_patient(two, one, &matched.iter().map(|(a, b)| (*b, *a)).collect())
    {
        return Err(Guard::Direction);
    }
    // What is asked for may stand on either side: 需要什么条件, 哪些条件才能.
    let asks_what = one.asks(QuestionType::What) || one.asks(QuestionType::WhatIs);
    if !asks_what && sides_of_verb_exchanged(one, two, matched) {
        return Err(Guard::Direction);
    }
    // A word that is a noun in one of them is one in both; a verb may stand anywhere.
    let is_noun = |a: WordClass, b: WordClass| {
        (a == WordClass::Noun || b == WordClass::Noun) && a != WordClass::Verb && b != WordClass::Verb
    };
    let nouns: SmallVec<[(usize, usize); 12]> =
        matched.iter().copied().filter(|pair| terms(pair).is_some_and(|(a, b)| is_noun(a.class, b.class))).collect();
    for (at, first) in nouns.iter().enumerate() {
        for second in nouns.iter().skip(at + 1) {
            if (first.0 < second.0) != (first.1 < second.1)
                && !may_turn(one, two, *first, *second)
                && !(is_needed(one, two, *first) || is_needed(one, two, *second))
            {
                return Err(Guard::Direction);
            }
        }
    }
    Ok(())
}

/// Whether two terms have each other's part: 把A的数据同步到B, 把B的数据同步到A.
fn roles_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let part = |question: &Question, at: usize| {
        let part = question.terms.get(at).and_then(|term| term.role);
        part.filter(|role| matches!(role, SemanticRole::Source | SemanticRole::Goal | SemanticRole::Patient))
    };
    let moved = || matched.iter().map(|(a, b)| (part(one, *a), part(two, *b))).filter(|(here, there)| here != there);
    moved().any(|(here, there)| moved().any(|other| other == (there, here)))
}

/// Whether what comes first in one comes last in the other: 付款后发货, 发货后付款.
fn events_reversed(one: &Question, two: &Question, matched: &Matched) -> bool {
    let timed = |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.in_time_clause);
    let moved = |here: bool| matched.iter().any(|(a, b)| timed(one, *a) == here && timed(two, *b) != here);
    let dated = |question: &Question| question.terms.iter().any(|term| term.in_time_clause);
    if dated(one) && dated(two) {
        return moved(true) && moved(false);
    }
    // Without a word for it, the while in which something is so stands first in Chinese: 怀孕能拔牙吗.
    let late = |a: usize, b: usize| {
        timed(one, a) && matched.iter().all(|pair| pair.1 <= b)
            || timed(two, b) && matched.iter().all(|pair| pair.0 <= a)
    };
    let during = |question: &Question| question.scope.marks.contains(&Mark::During);
    one.chinese && during(one) != during(two) && matched.len() > 1 && matched.iter().any(|(a, b)| late(*a, *b))
}

/// Whether what is asked for stands on the other side of a verb, and what it does that to as well: 什么影响睡眠,
/// 睡眠影响什么; or needs what needed it.
fn asks_other_side(one: &Question, two: &Question, matched: &Matched) -> bool {
    let (Some(here), Some(there)) = (one.asked.wh_position, two.asked.wh_position) else { return false };
    if one.roles.passive != two.roles.passive {
        return false;
    }
    let done_to = |asked: WhPosition, other: WhPosition, pairs: &mut dyn Iterator<Item = (usize, usize)>| {
        let pairs: Matched = pairs.collect();
        let verb = pairs.iter().find(|pair| asked.behind_verb && pair.0 + 1 == asked.place);
        verb.is_some_and(|verb| other.place <= verb.1 && pairs.iter().any(|pair| pair.0 < verb.0 && pair.1 > verb.1))
            || (asked.needed && asked.place > 0 && other.needs && other.place == 0 && !other.needed)
    };
    done_to(here, there, &mut matched.iter().copied())
        || done_to(there, here, &mut matched.iter().map(|(a, b)| (*b, *a)))
}

/// Whether it is the noun that is asked for as something needed, which may stand before what needs it: 贷款需要什么条件,
/// 需要什么条件才能贷款.
fn is_needed(one: &Question, two: &Question, noun: (usize, usize)) -> bool {
    let asked =
        one.asked.wh_position.zip(two.asked.wh_position).filter(|(here, there)| (here.place, there.place) == noun);
    asked.is_some_and(|(here, there)| (here.needed && !there.needs) || (there.needed && !here.needs))
}

/// Whether two words that are no verbs have changed sides of a verb, whatever the dictionary takes them for.
fn sides_of_verb_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let is_verb = |pair: &&(usize, usize)| one.terms.get(pair.0).is_some_and(|term| term.class == WordClass::Verb);
    let others = || matched.iter().filter(|pair| !is_verb(pair));
    matched.iter().filter(is_verb).any(|verb| {
        others().any(|first| {
            first.0 < verb.0
                && first.1 > verb.1
                && others().any(|second| second.0 > verb.0 && second.1 < verb.1 && !may_turn(one, two, *first, *second))
        })
    })
}

/// Whether a person and a noun have changed sides of a verb: 我欠公司, 公司欠我.
fn person_and_noun_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let classes =
        |pair: &(usize, usize)| one.terms.get(pair.0).zip(two.terms.get(pair.1)).map(|(a, b)| [a.class, b.class]);
    // What is a verb in one of them is one in both.
    let is = |pair: &(usize, usize), wanted: WordClass| {
        classes(pair).is_some_and(|found| {
            found.contains(&wanted) && (wanted == WordClass::Verb || !found.contains(&WordClass::Verb))
        })
    };
    let of = |wanted: WordClass| matched.iter().filter(move |pair| is(pair, wanted));
    let persons = one.roles.persons.iter().flat_map(|here| {
        two.roles
            .persons
            .iter()
            .filter(move |there| there.person == here.person)
            .map(move |there| (here.place, there.place))
    });
    persons.into_iter().any(|person| {
        of(WordClass::Verb).any(|verb| {
            let before = (person.0 <= verb.0, person.1 <= verb.1);
            let opposite = |noun: &(usize, usize)| {
                let noun = (noun.0 < verb.0, noun.1 < verb.1);
                noun.0 != before.0 && noun.1 != before.1
            };
            before.0 != before.1 && of(WordClass::Noun).any(opposite)
        })
    })
}

/// Whether the one who does it in the passive voice has it done to itself in the active: it stands behind what it
/// stood behind before.
fn agent_is_patient(passive: &Question, active: &Question, matched: &Matched) -> bool {
    let part = |question: &Question, at: usize| question.terms.get(at).and_then(|term| term.role);
    let noun = |at: usize| passive.terms.get(at).is_some_and(|term| term.class == WordClass::Noun);
    // 费用由公司承担, 费用公司承担: in Chinese whoever does it may stand right before the verb without a word for that.
    let is_verb = |at: usize| passive.terms.get(at).is_some_and(|term| term.class == WordClass::Verb);
    let ahead = |agent: &(usize, usize)| {
        let verb = matched.iter().find(|verb| verb.0 == agent.0 + 1 && is_verb(verb.0));
        active.chinese && verb.is_some_and(|verb| verb.1 == agent.1 + 1)
    };
    let turned = |agent: &(usize, usize)| {
        passive.roles.passive
            && !active.roles.passive
            && part(passive, agent.0) == Some(SemanticRole::Agent)
            && part(active, agent.1) != Some(SemanticRole::Agent)
            && !ahead(agent)
            && (matched.iter().any(|other| noun(other.0) && other.0 < agent.0 && other.1 < agent.1)
                || passive.roles.persons.iter().any(|here| {
                    here.place <= agent.0
                        && active.roles.persons.iter().any(|there| there.person == here.person && there.place < agent.1)
                }))
    };
    matched.iter().any(turned)
}

/// Whether two nouns may change places: coordinated, as compound and with «of», in the passive voice, or each with
/// a part of its own.
fn may_turn(one: &Question, two: &Question, first: (usize, usize), second: (usize, usize)) -> bool {
    let span = |question: &Question, a: usize, b: usize| -> Span {
        let terms = question.terms.get(a.min(b)..=a.max(b)).unwrap_or_default();
        let behind = terms.get(1..).unwrap_or_default();
        let ends = [terms.first(), terms.last()];
        Span {
            coordinated: behind.iter().all(|term| term.coordinated) && terms.len() == 2,
            after_preposition: behind.iter().any(|term| term.after_preposition) && !leads_on(question, a.max(b)),
            verbs: terms.iter().any(|term| term.class == WordClass::Verb && !term.optional),
            parts: ends
                .iter()
                .flatten()
                .filter(|term| matches!(term.role, Some(SemanticRole::Source | SemanticRole::Goal)))
                .count(),
            by: ends.iter().flatten().any(|term| term.role == Some(SemanticRole::Agent)),
        }
    };
    let (here, there) = (span(one, first.0, second.0), span(two, first.1, second.1));
    if is_time_clause(one, two, first, second) {
        return true;
    }
    if (here.coordinated && there.coordinated)
        || here.parts + there.parts == 4
        || here.by != there.by
        || one.roles.passive != two.roles.passive
    {
        return true;
    }
    here.parts + there.parts == 0 && here.after_preposition != there.after_preposition && !here.verbs && !there.verbs
}

/// Whether one of two nouns says when, and the other what happens then: such a clause stands on either side of the other.
fn is_time_clause(one: &Question, two: &Question, first: (usize, usize), second: (usize, usize)) -> bool {
    let timed = |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.in_time_clause);
    let dated = |question: &Question| question.terms.iter().any(|term| term.in_time_clause);
    let (here, there) = ((timed(one, first.0), timed(one, second.0)), (timed(two, first.1), timed(two, second.1)));
    // That it comes after may go without saying: 毕业了, for 毕业后.
    let is_said = if dated(one) && dated(two) { here == there } else { one.chinese && dated(one) != dated(two) };
    is_said && (here.0 != here.1 || there.0 != there.1)
}

/// Whether an English noun only describes the next: of staff property.
fn leads_on(question: &Question, at: usize) -> bool {
    let pair = question.terms.get(at).zip(question.terms.get(at + 1));
    !question.chinese
        && pair.is_some_and(|(noun, next)| {
            next.class == WordClass::Noun && !next.is_action && noun.syntax.touches(&next.syntax)
        })
}

/// What lies from one noun to another.
struct Span {
    coordinated: bool,
    after_preposition: bool,
    verbs: bool,
    /// How many of the two come from somewhere, or go there.
    parts: usize,
    by: bool,
}
