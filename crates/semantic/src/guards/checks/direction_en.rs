//! Direction in English: whether the words that two questions share are bound alike by prepositions, voice, participles,
//! infinitives and numbers.
//!
//! Refuses emails from my boss / emails to my boss, restore deleted photos / delete restored photos, stop to eat / stop eating
//! (`direction`).

use crate::guards::guard::Guard;
use crate::guards::question::syntax::{Preposition, Subject};
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Matched, Question};

/// Whether words that both have are bound alike.
pub fn direction_en(one: &Question, two: &Question, matched: &Matched) -> Result<(), Guard> {
    if one.chinese || two.chinese {
        return Ok(());
    }
    let back: Matched = matched.iter().map(|(a, b)| (*b, *a)).collect();
    let differs: [fn(&Question, &Question, &Matched) -> bool; 11] = [
        other_preposition,
        object_and_prepositional,
        object_and_stranded,
        other_voice,
        attributive_and_predicate,
        predicates_exchanged,
        counts_exchanged,
        bounds_exchanged,
        other_time_preposition,
        infinitive_and_ing_form,
        adjective_and_adverb,
    ];
    let differs = differs.iter().any(|check| check(one, two, matched) || check(two, one, &back));
    if differs { Err(Guard::Direction) } else { Ok(()) }
}

fn terms<'a>(one: &'a Question, two: &'a Question, pair: &(usize, usize)) -> Option<(&'a Term, &'a Term)> {
    one.terms.get(pair.0).zip(two.terms.get(pair.1))
}

/// Whether a noun has another preposition behind the same word: emails from my boss, emails to my boss.
fn other_preposition(one: &Question, two: &Question, matched: &Matched) -> bool {
    matched.iter().any(|pair| {
        let Some((a, b)) = terms(one, two, pair) else { return false };
        let (Some((here, host)), Some((there, other))) = (a.syntax.preposition, b.syntax.preposition) else {
            return false;
        };
        if here == there {
            return false;
        }
        let hosts = host.zip(other).filter(|hosts| matched.contains(hosts));
        let is_done = |verbs: &[&str]| one.terms.iter().any(|term| term.syntax.is_predicate && term.is_one_of(verbs));
        if (is_done(FETCHES) && (comes_from(here, there) || comes_from(there, here)))
            || (is_done(JOINS) && joins(here) && joins(there))
        {
            return false;
        }
        hosts
            .and_then(|hosts| terms(one, two, &hosts))
            .is_some_and(|(host, _)| !alike(here, there, host, a) && !alike(there, here, host, a))
    })
}

fn comes_from(place: Preposition, source: Preposition) -> bool {
    matches!(place, Preposition::At | Preposition::In | Preposition::On) && source == Preposition::From
}

fn joins(preposition: Preposition) -> bool {
    matches!(preposition, Preposition::To | Preposition::With)
}

/// Prepositions that say the same between two words.
fn alike(one: Preposition, two: Preposition, host: &Term, noun: &Term) -> bool {
    use Preposition as P;
    match (one, two) {
        (P::For, P::Of) => !host.is_one_of(&["free"]),
        (P::About | P::On, P::For) => !host.is_one_of(TOPICS),
        (P::For, P::In | P::At) | (P::Of, P::In | P::At | P::On) | (P::At, P::In | P::To) => true,
        (P::About, P::On | P::Of) => true,
        (P::For, P::To) => host.is_one_of(ADMITS),
        // What is written, run or ridden is both.
        (P::In | P::At, P::On) => noun.is_one_of(SURFACES) || host.is_one_of(PAYS),
        (P::By, P::In | P::With | P::On) | (P::With, P::In | P::On) => host.is_one_of(PAYS),
        _ => false,
    }
}

/// What has a topic, and somebody whom it is made for.
const TOPICS: &[&str] = &[
    "article",
    "book",
    "class",
    "course",
    "exhibition",
    "film",
    "lecture",
    "lesson",
    "movie",
    "seminar",
    "study",
    "talk",
    "training",
    "workshop",
];

/// What is for an event or a place, and to it.
const ADMITS: &[&str] = &["access", "admission", "entry", "invitation", "key", "ticket", "wear"];

/// What is done with another thing, and to it.
const JOINS: &[&str] = &["attach", "compare", "connect", "link", "match", "pair", "speak", "sync", "talk"];

/// What is done in the place where it comes from.
const FETCHES: &[&str] = &["access", "buy", "download", "export", "get", "order", "print", "withdraw"];

const PAYS: &[&str] = &["pay", "payment"];

/// What something is in as well as on.
const SURFACES: &[&str] = &[
    "app",
    "application",
    "portal",
    "website",
    "site",
    "system",
    "platform",
    "page",
    "intranet",
    "account",
    "bus",
    "train",
    "plane",
    "computer",
    "laptop",
    "phone",
    "device",
    "calendar",
    "list",
    "team",
    "project",
    "weekend",
    "holiday",
    "contract",
    "invoice",
    "form",
    "course",
    "program",
    "programme",
    "server",
    "network",
    "dashboard",
    "menu",
    "report",
    "market",
    "campus",
    "street",
    "evening",
    "morning",
];

/// Whether a verb has what is asked for as its object in one and behind a preposition in the other: report, report to.
fn object_and_stranded(one: &Question, two: &Question, matched: &Matched) -> bool {
    let first = |term: &Term| {
        term.forms.iter().filter_map(|form| form.split(' ').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let by = |question: &Question| question.asked.preposition == Some(Preposition::By);
    one.asked.preposition != two.asked.preposition
        && !(by(one) && one.roles.passive || by(two) && two.roles.passive)
        && one.asked.types == two.asked.types
        && matched.iter().filter_map(|pair| terms(one, two, pair)).any(|(a, b)| {
            a.is_action && b.is_action && !a.is_one_of(TALKS) && first(a).iter().any(|form| first(b).contains(form))
        })
}

/// Verbs that are the same with their preposition and without.
const TALKS: &[&str] = &["talk", "speak", "talk to", "speak to", "contact", "be", "go"];

/// Whether the same subject does it in one, and has it done to itself in the other.
fn other_voice(one: &Question, two: &Question, matched: &Matched) -> bool {
    matched.iter().any(|pair| {
        let Some((a, b)) = terms(one, two, pair) else { return false };
        if !(a.is_action && b.is_action && a.syntax.passive && !b.syntax.passive)
            || b.syntax.is_attributive
            || b.syntax.is_ing_form
        {
            return false;
        }
        match (a.syntax.subject, b.syntax.subject) {
            (Some(Subject::Person(here)), Some(Subject::Person(there))) => here == there,
            (Some(Subject::Term(here)), Some(Subject::Term(there))) => {
                matched.contains(&(here, there)) && !a.is_one_of(HAPPENS)
            }
            _ => false,
        }
    })
}

/// Verbs that say the same of their subject in both voices: the order ships, and is shipped.
const HAPPENS: &[&str] = &[
    "ship",
    "close",
    "open",
    "start",
    "begin",
    "end",
    "finish",
    "change",
    "move",
    "update",
    "print",
    "load",
    "lock",
    "unlock",
    "renew",
    "expire",
    "increase",
    "decrease",
    "reset",
    "sync",
    "synchronize",
    "convert",
    "transfer",
    "break",
    "deliver",
    "restart",
    "install",
    "download",
    "upload",
    "save",
    "sell",
    "improve",
    "stop",
    "continue",
    "cancel",
    "clear",
    "charge",
    "post",
    "process",
    "schedule",
    "work",
    "relate",
    "complete",
    "launch",
    "resume",
    "apply",
    "connect",
    "display",
    "burn",
    "freeze",
    "cook",
    "dry",
    "wash",
];

/// Whether a verb says what is done in one, and describes what it is done to in the other: restore deleted photos, delete
/// restored photos.
fn attributive_and_predicate(one: &Question, two: &Question, matched: &Matched) -> bool {
    let describes =
        |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.syntax.is_attributive);
    let acts = |question: &Question, at: usize| question.terms.get(at).is_some_and(|term| term.is_action);
    let done = |at: usize| one.terms.get(at).is_some_and(|term| term.syntax.passive);
    matched.iter().any(|verb| {
        acts(one, verb.0)
            && !describes(one, verb.0)
            && !done(verb.0)
            && describes(two, verb.1)
            && matched.iter().any(|other| {
                (acts(one, other.0) || acts(two, other.1))
                    && (verb.0 < other.0) != (verb.1 < other.1)
                    && !describes(two, other.1)
            })
    })
}

/// Whether each of two verbs says what is done in one of them, and what that is done to in the other: ask to pay, pay to ask.
fn predicates_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let first = |question: &Question| {
        question
            .terms
            .iter()
            .position(|term| term.syntax.is_predicate && !term.optional && term.class != WordClass::Other)
    };
    let (Some(here), Some(there)) = (first(one), first(two)) else { return false };
    let acts = |pair: &(usize, usize)| terms(one, two, pair).is_some_and(|(a, b)| a.is_action || b.is_action);
    let crossed = matched.iter().find(|pair| pair.0 == here).filter(|pair| pair.1 != there && acts(pair));
    let other = matched.iter().find(|pair| pair.1 == there).filter(|pair| pair.0 != here && acts(pair));
    crossed.zip(other).is_some_and(|(a, b)| {
        (a.0 < b.0) != (a.1 < b.1)
            && ![one, two].iter().any(|question| question.terms.iter().any(|term| term.in_time_clause))
    })
}

/// Whether a noun is the object of a word in one, and behind a preposition in the other: eat braces, eat with braces.
fn object_and_prepositional(one: &Question, two: &Question, matched: &Matched) -> bool {
    use Preposition as P;
    matched.iter().any(|pair| {
        let Some((a, b)) = terms(one, two, pair) else { return false };
        let Some((P::From | P::With | P::To | P::About | P::By, Some(host))) = a.syntax.preposition else {
            return false;
        };
        let object = pair.1.checked_sub(1).filter(|other| matched.contains(&(host, *other)));
        let hosts = object.and_then(|object| terms(one, two, &(host, object)));
        b.syntax.preposition.is_none()
            && hosts.is_some_and(|(host, other)| {
                host.forms == other.forms && !host.syntax.passive && !other.syntax.passive && !host.is_one_of(REACHES)
            })
    })
}

/// Verbs whose goal is their object as well.
const REACHES: &[&str] = &[
    "email", "e-mail", "mail", "write", "pay", "call", "phone", "ring", "text", "message", "visit", "contact", "talk",
    "speak", "go", "attend", "access", "join", "return", "help", "travel", "move", "apply", "reply", "respond",
    "answer",
];

/// Whether one number counts another thing that both have: buy two and get one, buy one and get two.
fn counts_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let of: [fn(&Term) -> Option<i64>; 2] = [|term| term.syntax.number_before, |term| term.syntax.number_behind];
    of.iter().any(|of| {
        one.terms.iter().enumerate().filter_map(|(at, term)| of(term).map(|value| (at, value))).any(|(at, value)| {
            let mut likes = two.terms.iter().enumerate().filter(|(_, other)| of(other) == Some(value));
            let unique = one.terms.iter().filter(|term| of(term) == Some(value)).count() == 1;
            let (Some((place, _)), None) = (likes.next(), likes.next()) else { return false };
            unique
                && !matched.contains(&(at, place))
                && matched.iter().any(|pair| pair.0 == at)
                && matched.iter().any(|pair| pair.1 == place)
        })
    })
}

/// Whether two bounds have changed places: the maximum fine for the minimum speed.
fn bounds_exchanged(one: &Question, two: &Question, matched: &Matched) -> bool {
    let mut bounds = one.scope.marks.iter().filter(|mark| mark.is_comparison());
    let first = bounds.next();
    bounds.any(|other| Some(other) != first)
        && matched
            .iter()
            .filter_map(|pair| terms(one, two, pair))
            .any(|(a, b)| a.syntax.bound.zip(b.syntax.bound).is_some_and(|(here, there)| here != there))
}

/// Whether one time has another preposition: for ten minutes, in ten minutes.
fn other_time_preposition(one: &Question, two: &Question, _: &Matched) -> bool {
    use Preposition as P;
    let like = |here: P, there: P| {
        matches!(
            (here, there),
            (P::On | P::At | P::In | P::Of | P::For, P::On | P::At | P::Of) | (P::Of, P::In | P::For)
        )
    };
    one.quantities.with_preposition.iter().any(|(quantity, here)| {
        two.quantities
            .with_preposition
            .iter()
            .any(|(other, there)| quantity == other && here != there && !like(*here, *there) && !like(*there, *here))
    })
}

/// Whether something is done in one to do the other, which is itself done no more in the other: stop to eat, stop eating.
fn infinitive_and_ing_form(one: &Question, two: &Question, matched: &Matched) -> bool {
    let leads = |question: &Question, at: usize| {
        at.checked_sub(1).and_then(|at| question.terms.get(at)).is_some_and(|term| term.is_one_of(BEGINS))
    };
    matched.iter().any(|pair| {
        terms(one, two, pair).is_some_and(|(a, b)| {
            a.syntax.is_infinitive && !a.syntax.is_ing_form && b.syntax.is_ing_form && !b.syntax.is_infinitive
        }) && leads(one, pair.0)
            && leads(two, pair.1)
    })
}

/// Verbs to which «to» and -ing are two things.
const BEGINS: &[&str] = &["stop", "quit", "remember", "forget", "regret", "try"];

/// Whether a word describes a noun in one, and what is done to it in the other: stop automatic updates, automatically stop
/// updates.
fn adjective_and_adverb(one: &Question, two: &Question, matched: &Matched) -> bool {
    matched.iter().any(|pair| {
        let Some((a, b)) = terms(one, two, pair) else { return false };
        let is_adverb = |term: &Term| term.ends_with(&["ly"]);
        let Some(noun) =
            two.terms.get(pair.1 + 1).filter(|noun| is_adverb(a) && !is_adverb(b) && b.syntax.touches(&noun.syntax))
        else {
            return false;
        };
        let Some((at, _)) = matched.iter().find(|found| found.1 == pair.1 + 1) else { return false };
        let Some(done) = one.terms.get(*at).filter(|done| done.is_action && noun.is_action) else { return true };
        !(*at == pair.0 + 1 || (*at + 1 == pair.0 && (done.class == WordClass::Verb || done.syntax.is_ing_form)))
    })
}
