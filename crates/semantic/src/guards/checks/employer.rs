//! The employer and its staff, in English: which of the two does it. Elsewhere both may go without saying.
//!
//! Refuses Does the company pay for the course? / Do employees pay for the course? (`entity`).

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Case, Person, SemanticRole};
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Mention, Question};

/// Whether the company does in one of them what whoever asks, or the staff, does in the other: who pays for the course.
///
/// # Errors
/// That it is another one who does it.
pub fn employer(one: &Question, two: &Question, matched: &[(usize, usize)]) -> Result<(), Guard> {
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
            let leads = !question.roles.passive && at < verb && term.role.is_none() && !term.after_preposition;
            (leads || term.role == Some(SemanticRole::Agent)) && term.is_one_of(words)
        };
        question.terms.iter().enumerate().any(does)
    };
    let asks = |question: &Question, verb: usize| {
        let is_before = |mention: &Mention| {
            mention.person == Person::First
                && mention.case != Case::Possessive
                && mention.role.is_none()
                && mention.place <= verb
        };
        // «We» may be either.
        !question.roles.passive
            && question.roles.persons.iter().any(is_before)
            && question.words.split(' ').any(|word| word == "i")
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

/// Who employs.
const COMPANY: &[&str] = &["company", "employer", "organization", "organisation", "firm", "business"];

/// Who is employed.
const STAFF: &[&str] = &["employee", "staff", "staff member", "worker", "personnel", "people", "team member"];
