//! English syntax, shallow: the preposition before a noun, the subject of a verb and its voice, which verb is the predicate
//! (*restore* deleted photos), and which participle is attributive (restore *deleted* photos).

use crate::guards::lexicon::function_words::{Person, QuestionType};
use crate::guards::lexicon::verb_forms_en;
use crate::guards::quantity::QuantityKind;
use crate::guards::question::Question;
use crate::guards::question::syntax::{Preposition, Subject, Syntax};
use crate::guards::question::term::{Term, WordClass};
use crate::guards::token::{Script, Token};

fn preposition(text: &str) -> Option<Preposition> {
    Some(match text {
        "about" | "regarding" | "concerning" => Preposition::About,
        "at" => Preposition::At,
        "by" => Preposition::By,
        "for" => Preposition::For,
        "from" => Preposition::From,
        "in" | "inside" => Preposition::In,
        "of" => Preposition::Of,
        "on" => Preposition::On,
        "to" | "into" | "onto" | "towards" | "toward" => Preposition::To,
        "with" => Preposition::With,
        _ => return None,
    })
}

/// Notes how the terms of a question are bound.
pub fn read(tokens: &[Token], question: &mut Question) {
    if question.chinese {
        return;
    }
    for at in 0..tokens.len() {
        read_preposition(tokens, at, &mut question.terms);
    }
    for at in 0..question.terms.len() {
        let syntax = read_verb(tokens, at, &question.terms);
        if let (Some(term), Some(syntax)) = (question.terms.get_mut(at), syntax) {
            term.syntax = syntax;
        }
    }
    read_counts(tokens, question);
    if question.asks(QuestionType::Who) || question.asks(QuestionType::What) {
        question.asked.preposition = governed(tokens);
    }
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.text.as_str())
}

fn before(tokens: &[Token], at: usize) -> &str {
    at.checked_sub(1).map_or("", |at| text(tokens, at))
}

/// Gives a number to what it counts, and a time its preposition.
fn read_counts(tokens: &[Token], question: &mut Question) {
    for (quantity, at, taken) in std::mem::take(&mut question.quantities.numbers_en) {
        if !matches!(quantity.kind, QuantityKind::Number | QuantityKind::Version | QuantityKind::Ordinal)
            && let Some(found) = preposition(before(tokens, at))
        {
            question.quantities.with_preposition.push((quantity, found));
        } else if quantity.kind == QuantityKind::Number && quantity.text.is_empty() {
            let mut terms = question.terms.iter_mut();
            if let Some(counted) = terms.find(|term| term.syntax.first == at + taken) {
                counted.syntax.number_before = Some(quantity.value);
            } else if let Some(verb) = question.terms.iter_mut().rfind(|term| term.syntax.end() == at) {
                verb.syntax.number_behind = Some(quantity.value);
            }
        }
    }
}

/// Gives a preposition to the nouns behind it.
fn read_preposition(tokens: &[Token], at: usize, terms: &mut [Term]) {
    let Some(found) = preposition(text(tokens, at)) else { return };
    let host = terms.iter().rposition(|term| term.syntax.first <= at);
    // The last word of a phrase is no preposition of its own: get in touch with.
    let ends = |term: &Term| term.syntax.taken > 2 && at < term.syntax.end();
    if host.and_then(|host| terms.get(host)).is_some_and(ends) {
        return;
    }
    let mut place = at + 1;
    let (mut is_first, mut is_noun) = (true, false);
    while place < tokens.len() {
        if let Some(term) = terms.iter_mut().find(|term| term.syntax.first == place) {
            let may_be_verb = term.is_action && !is_noun && !text(tokens, place).ends_with('s');
            if (term.class == WordClass::Verb && !is_first) || (found == Preposition::To && may_be_verb) {
                return;
            }
            term.syntax.preposition = Some((found, host));
            place += term.syntax.taken.max(1);
            (is_first, is_noun) = (false, true);
        } else if is_first && DETERMINERS.contains(&text(tokens, place)) {
            is_noun = true;
            place += 1;
        } else {
            return;
        }
    }
}

/// How a word is bound that may be a verb.
fn read_verb(tokens: &[Token], place: usize, terms: &[Term]) -> Option<Syntax> {
    let term = terms.get(place).filter(|term| term.is_action)?;
    let mut syntax = term.syntax;
    let at = syntax.first;
    let word = text(tokens, at);
    let noun_behind = terms
        .get(place + 1)
        .is_some_and(|next| next.syntax.first == at + syntax.taken && next.class != WordClass::Verb);
    let noun_before = place
        .checked_sub(1)
        .and_then(|before| terms.get(before))
        .is_some_and(|noun| noun.syntax.end() == at && !noun.is_action && noun.class == WordClass::Noun);
    let is_participle =
        syntax.taken == 1 && verb_forms_en::may_be_participle(word) && term.forms.iter().any(|form| **form != *word);
    let previous = before(tokens, at);
    let opens = |at: usize| at == 0 || tokens.get(at - 1).is_some_and(|token| token.script == Script::Stop);
    // «Are deleted photos restored»: «are» belongs to the verb behind.
    let inverted = verb_forms_en::is_finite_be(previous)
        && at.checked_sub(1).is_some_and(|be| opens(be) || ASKING.contains(&before(tokens, be)));
    // «Renew a lease», «renewing leases»; no «grant application».
    let is_told = word.ends_with("ing") || DETERMINERS.contains(&text(tokens, at + syntax.taken));
    syntax.is_attributive = is_participle
        && noun_behind
        && !noun_before
        && (inverted
            || !(verb_forms_en::BE_OR_GET.contains(&previous)
                || verb_forms_en::SUBJECTS.contains(&previous)
                || verb_forms_en::HAVE.contains(&previous)));
    syntax.passive = is_participle && !syntax.is_attributive && undergoes(tokens, at);
    syntax.is_predicate = !syntax.is_attributive
        && (verb_forms_en::BEFORE_PREDICATE.contains(&previous) || (opens(at) && is_told))
        && !term.in_time_clause;
    syntax.is_ing_form = word.ends_with("ing");
    syntax.is_infinitive = previous == "to";
    syntax.subject = subject(tokens, at, terms);
    Some(syntax)
}

/// Whether a form of «be» or «get» stands before a participle.
fn undergoes(tokens: &[Token], at: usize) -> bool {
    let mut earlier = tokens.get(at.saturating_sub(8)..at).unwrap_or_default().iter().rev();
    earlier
        .find_map(|token| match token.text.as_str() {
            text if verb_forms_en::BE_OR_GET.contains(&text) => Some(true),
            text if token.script == Script::Stop || BARS.contains(&text) => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

/// Who stands right before a verb with its auxiliaries.
fn subject(tokens: &[Token], at: usize, terms: &[Term]) -> Option<Subject> {
    let mut place = at;
    while let Some(earlier) = place.checked_sub(1) {
        let word = text(tokens, earlier);
        if let Some(found) = terms.iter().position(|term| (term.syntax.first..term.syntax.end()).contains(&earlier)) {
            let is_light = terms
                .get(found)
                .is_some_and(|term| verb_forms_en::BE_OR_GET.contains(&word) || term.class == WordClass::Other);
            if !is_light {
                return Some(Subject::Term(found));
            }
        }
        match word {
            "i" | "we" => return Some(Subject::Person(Person::First)),
            "you" | "u" => return Some(Subject::Person(Person::Second)),
            "he" | "she" | "they" => return Some(Subject::Person(Person::Third)),
            word if verb_forms_en::BE_OR_GET.contains(&word)
                || verb_forms_en::HAVE.contains(&word)
                || verb_forms_en::BETWEEN_SUBJECT_AND_VERB.contains(&word)
                || word.ends_with("ly") => {}
            _ => return None,
        }
        place = earlier;
    }
    None
}

/// The preposition of what is asked for: whom do I report to, to whom do I report.
fn governed(tokens: &[Token]) -> Option<Preposition> {
    let last = tokens.iter().rposition(|token| token.script != Script::Stop)?;
    let asking = tokens.iter().position(|token| ASKING.contains(&token.text.as_str()))?;
    if asking == last {
        return None;
    }
    // Where something is done may go without saying.
    let found = preposition(text(tokens, last)).or_else(|| preposition(before(tokens, asking)));
    found.filter(|found| !matches!(found, Preposition::At | Preposition::In | Preposition::On))
}

const ASKING: &[&str] = &["who", "whom", "what", "which", "how", "when", "where", "why"];
/// Where another clause begins.
const BARS: &[&str] = &["who", "that", "which", "and", "or", "if", "when", "have", "has", "had", "to"];
const DETERMINERS: &[&str] = &[
    "a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "his", "her", "their", "its", "all",
    "any", "each", "every", "some", "both", "another",
];
