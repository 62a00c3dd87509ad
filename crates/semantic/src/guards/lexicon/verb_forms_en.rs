//! English auxiliaries and forms of verbs, in one place: who opens a question («*is* it», «*can* I»), who makes the passive
//! («*is* paid», «*got* paid»), who makes the perfect («*has* been closed»), and what a participle looks like.
//!
//! The lists that are nearly alike differ on purpose: each holds the words that tell something in one place of a sentence
//! («gotten» tells nothing, «get» before its subject is no question), and a word more would change what is read there.

use crate::guards::lexicon::Lexicon;
use crate::guards::token::{Script, Token};

/// Auxiliaries that stand before their subject where something is asked: is it, can I, when will we.
pub const BEFORE_SUBJECT: &[&str] = &[
    "is", "are", "was", "were", "do", "does", "did", "can", "could", "will", "would", "should", "must", "may", "has",
    "have", "am", "shall",
];

/// Auxiliaries that tell the tense of the verb behind them; where one stands, the verb itself tells none.
pub const TENSED: &[&str] = &[
    "is", "are", "am", "was", "were", "be", "do", "does", "did", "have", "has", "had", "can", "could", "will", "would",
    "should", "must", "may", "might", "shall", "get", "gets", "got",
];

/// Words behind which «have» is an infinitive and tells no tense: may have, to have.
pub const BEFORE_INFINITIVE_HAVE: &[&str] =
    &["will", "would", "should", "could", "may", "might", "must", "can", "to", "do", "does"];

/// Auxiliaries of the passive voice behind «who»: who is paid, who got paid.
pub const PASSIVE_OF_WHO: &[&str] = &["is", "are", "was", "were", "be", "been", "being", "get", "gets", "got"];

/// Auxiliaries of the passive voice right before a participle: is paid, gets paid. Behind «got», what is told is a
/// possession as often: got used cars.
pub fn is_passive_auxiliary(word: &str) -> bool {
    matches!(word, "is" | "are" | "was" | "were" | "be" | "been" | "being" | "get" | "gets")
}

/// All forms of «be» and «get».
pub const BE_OR_GET: &[&str] =
    &["is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got", "getting"];

/// Finite forms of «be» that a question opens with.
pub fn is_finite_be(word: &str) -> bool {
    matches!(word, "is" | "are" | "was" | "were")
}

/// Forms of «have».
pub const HAVE: &[&str] = &["have", "has", "had"];

/// Obligations that «not» takes away, and does not turn into what must not be: not have to.
pub const OBLIGATIONS: &[&str] =
    &["have", "has", "need", "needs", "required", "obliged", "needed", "necessary", "mandatory"];

/// What may stand between «have» and its participle.
pub const BETWEEN_HAVE_AND_PARTICIPLE: &[&str] = &[
    "not", "i", "we", "you", "they", "he", "she", "it", "already", "just", "ever", "recently", "since", "really",
    "also", "all", "there",
];

/// What may stand between a subject and its verb, besides forms of «be», «get» and «have».
pub const BETWEEN_SUBJECT_AND_VERB: &[&str] = &[
    "not", "also", "still", "already", "ever", "just", "even", "to", "need", "needs", "want", "like", "able",
    "allowed", "supposed", "required", "can", "could", "should", "must", "will", "would", "may", "might", "shall",
    "ought",
];

/// Words right before a verb, where a word may be a noun as well.
pub const BEFORE_VERB: &[&str] = &[
    "to", "i", "we", "you", "they", "can", "could", "should", "must", "will", "would", "may", "do", "not", "please",
    "who", "gonna", "wanna", "gotta", "he", "she",
];

/// Words right before the verb that says what is done.
pub const BEFORE_PREDICATE: &[&str] = &[
    "to", "i", "we", "you", "u", "they", "he", "she", "can", "could", "should", "must", "will", "would", "may", "do",
    "not", "please", "also", "just", "gonna", "wanna", "gotta", "by", "of", "for",
];

/// Pronouns that stand as subjects.
pub const SUBJECTS: &[&str] = &["i", "we", "you", "u", "he", "she", "they", "it", "who"];

/// Whether a question that begins with this word asks whether.
pub fn opens_polar_question(word: &str) -> bool {
    BEFORE_SUBJECT.contains(&word) || word == "need"
}

/// Whether a word is no plural, no third person and no -ing form: what is left of inflections is past or participle.
pub fn may_be_participle(word: &str) -> bool {
    !word.ends_with('s') && !word.ends_with("ing")
}

/// Whether a token is inflected, and its ending that of a past or a participle: paid, closed.
pub fn is_participle(token: &Token, lexicon: &Lexicon) -> bool {
    token.text != lexicon.canonical(token) && may_be_participle(&token.text)
}

/// Whether a token is a past or participle of a verb that WordNet knows: closed, gone, been.
pub fn is_past_of_verb(token: &Token, lexicon: &Lexicon) -> bool {
    let word = token.text.as_str();
    word == "been"
        || (token.script == Script::Latin
            && may_be_participle(word)
            && !TENSED.contains(&word)
            && lexicon.lemmas_in(token).iter().any(|lemma| **lemma != *word && lexicon.is(lemma, "v")))
}
