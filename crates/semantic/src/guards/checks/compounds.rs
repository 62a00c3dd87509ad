//! Compounds and separable verbs: words that are written apart in one question and together in the other, which are alike:
//! 盖合同章找谁 and 合同盖章找谁, log in and login. Refuses nothing.

use smallvec::SmallVec;

use crate::guards::lexicon::lexicon;
use crate::guards::question::Matched;
use crate::guards::question::Question;
use crate::guards::question::term::{self, Term, WordClass};

/// Takes out words that are written apart on one side and together on the other; gives the verbs among them.
pub fn compounds(
    one: &Question,
    left: &mut SmallVec<[usize; 8]>,
    two: &Question,
    right: &mut SmallVec<[usize; 8]>,
) -> Matched {
    let mut found = Matched::new();
    let mut at = 0;
    while let (Some(&first), Some(&second)) = (left.get(at), left.get(at + 1)) {
        let (Some(a), Some(b)) = (one.terms.get(first), one.terms.get(second)) else { break };
        // A verb may stand apart from its object: 盖合同章 and 合同盖章.
        let listed = |whole: &str| one.chinese.then(|| lexicon().groups(whole)).flatten().unwrap_or_default();
        let is_listed =
            a.class == WordClass::Verb && term::together(a, b).is_some_and(|whole| !listed(&whole).is_empty());
        let is_near =
            second == first + 1 || is_listed || (a.class == WordClass::Verb && a.is_character() && b.is_character());
        let whole = (is_near && !a.negated && !b.negated).then(|| term::together(a, b)).flatten();
        // What is done stands on either side of what it is done to: 账号怎么注销, 怎么注销账号.
        let turned =
            (a.class != WordClass::Verb && b.class == WordClass::Verb && !a.negated && !b.negated && one.chinese)
                .then(|| term::together(b, a))
                .flatten();
        let like = [whole, turned].into_iter().flatten().find_map(|whole| {
            let groups = listed(&whole);
            let is_whole = |term: &Term| {
                !term.negated && (term.forms.contains(&whole) || term.groups.iter().any(|group| groups.contains(group)))
            };
            right.iter().position(|place| two.terms.get(*place).is_some_and(is_whole))
        });
        if let Some(place) = like {
            let verb = if a.class == WordClass::Verb { first } else { second };
            found.push((verb, right.remove(place)));
            left.drain(at..at + 2);
        } else {
            at += 1;
        }
    }
    found
}
