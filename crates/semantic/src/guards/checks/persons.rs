//! Persons: who is spoken of, as what the pronoun's case and its preposition make of them.
//!
//! Refuses 我的合同在哪里 / 你的合同在哪里 (`entity`), Can I call them? / Can they call me? (`direction`).

use smallvec::SmallVec;

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Case, Person, SemanticRole};
use crate::guards::question::Question;

/// Whether the same persons are spoken of, in the same parts.
pub fn persons(one: &Question, two: &Question) -> Result<(), Guard> {
    fn parts(question: &Question) -> impl Iterator<Item = (Person, Case, Option<SemanticRole>)> {
        question.roles.persons.iter().map(|mention| (mention.person, mention.case, mention.role))
    }
    if parts(one).eq(parts(two)) {
        return Ok(());
    }
    let has =
        |question: &Question, person: Person| question.roles.persons.iter().any(|mention| mention.person == person);
    if has(one, Person::Third) != has(two, Person::Third) {
        return Err(Guard::Entity);
    }
    let only = |question: &Question, person: Person, other: Person| has(question, person) && !has(question, other);
    let (first, second) = (Person::First, Person::Second);
    let owned = |question: &Question| question.roles.persons.iter().any(|mention| mention.case == Case::Possessive);
    if owned(one)
        && owned(two)
        && (only(one, first, second) && only(two, second, first)
            || only(one, second, first) && only(two, first, second))
    {
        return Err(Guard::Entity);
    }
    for person in [first, second, Person::Third] {
        let cases = |question: &Question, case: Case| {
            question.roles.persons.iter().any(|found| found.person == person && found.case == case)
        };
        let turned = |one: &Question, two: &Question| {
            cases(one, Case::Subject)
                && !cases(one, Case::Object)
                && cases(two, Case::Object)
                && !cases(two, Case::Subject)
        };
        let roles = |question: &Question| -> SmallVec<[Option<SemanticRole>; 4]> {
            question
                .roles
                .persons
                .iter()
                .filter(|found| found.person == person && found.case != Case::Possessive)
                .map(|found| found.role.filter(|role| *role != SemanticRole::Patient))
                .collect()
        };
        let (here, there) = (roles(one), roles(two));
        let played = |roles: &[Option<SemanticRole>]| roles.iter().any(Option::is_some);
        if turned(one, two)
            || turned(two, one)
            || (!here.is_empty() && !there.is_empty() && played(&here) != played(&there))
        {
            return Err(Guard::Direction);
        }
    }
    let order = |question: &Question| -> SmallVec<[Person; 4]> {
        let mut found: SmallVec<[Person; 4]> = question
            .roles
            .persons
            .iter()
            .filter(|found| found.case != Case::Possessive)
            .map(|found| found.person)
            .collect();
        found.dedup();
        found
    };
    let (here, there) = (order(one), order(two));
    if here.len() > 1 && there.len() > 1 && here != there { Err(Guard::Direction) } else { Ok(()) }
}
