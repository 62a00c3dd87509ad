//! When it happens, as far as the forms of verbs tell: has been closed, is closed, will be closed.

use crate::guards::lexicon::Lexicon;
use crate::guards::question::Question;
use crate::guards::token::{Script, Token};

/// Notes the tenses that verbs and their auxiliaries tell.
pub fn read(tokens: &[Token], question: &mut Question, lexicon: &Lexicon) {
    if question.chinese {
        chinese(tokens, question);
    } else {
        english(tokens, question, lexicon);
    }
}

/// 关了, 去过: done, where the verb stands right before.
fn chinese(tokens: &[Token], question: &mut Question) {
    question.tense.past |= tokens.windows(2).any(|pair| match pair {
        [verb, end] => {
            matches!(end.text.as_str(), "了" | "过")
                && (verb.tag.starts_with('v') || matches!(verb.text.as_str(), "去" | "来"))
        }
        _ => false,
    });
}

fn english(tokens: &[Token], question: &mut Question, lexicon: &Lexicon) {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut auxiliaries = 0;
    for at in 0..tokens.len() {
        let opens = at == 0 || tokens.get(at - 1).is_some_and(|token| token.script == Script::Stop);
        let modal = at.checked_sub(1).is_some_and(|before| {
            [text(before), before.checked_sub(1).map_or("", &text)].iter().any(|word| MODALS.contains(word))
        });
        auxiliaries += usize::from(AUXILIARIES.contains(&text(at)));
        match text(at) {
            "was" | "were" if text(at + 1) != "wondering" => question.tense.past = true,
            "did" => question.tense.past = true,
            // What has been done bears on now.
            "has" | "have" if !modal => {
                let perfect = perfect(tokens, at, lexicon);
                question.tense.past |= opens || perfect;
                question.tense.present |= perfect;
            }
            // Would it have been: it has not.
            "have" if supposed(tokens, at) => question.tense.past |= perfect(tokens, at, lexicon),
            "still" => question.tense.phase = Some(true),
            "already" | "yet" => question.tense.phase = Some(false),
            "is" | "are" => {
                // What is being done is not done yet.
                let ongoing = (at + 1..at + 5).any(|place| text(place) == "being");
                question.tense.future |= ongoing;
                question.tense.present |= !ongoing;
            }
            "does" | "do" | "am" => question.tense.present = true,
            _ => {}
        }
    }
    // What is still not so is not so yet.
    if tokens.iter().any(|token| token.text == "not") {
        question.tense.phase = None;
    }
    // «Which branches closed»: no other word tells the time.
    question.tense.past |= auxiliaries == 0 && tokens.iter().any(|token| is_past(token, lexicon));
}

/// Whether «would» stands before this «have», with the subject between at most.
fn supposed(tokens: &[Token], at: usize) -> bool {
    tokens.get(at.saturating_sub(3)..at).unwrap_or_default().iter().any(|token| token.text == "would")
}

/// Whether a participle belongs to «have»: has been closed, have they really moved; not «have a used car».
fn perfect(tokens: &[Token], at: usize, lexicon: &Lexicon) -> bool {
    let rest = tokens.get(at + 1..).unwrap_or_default();
    let verb = rest.iter().find(|token| !BETWEEN.contains(&token.text.as_str()));
    verb.is_some_and(|token| is_past(token, lexicon))
}

/// Whether it is a form of a verb for what is done: closed, gone.
fn is_past(token: &Token, lexicon: &Lexicon) -> bool {
    let word = token.text.as_str();
    word == "been"
        || (token.script == Script::Latin
            && !word.ends_with('s')
            && !word.ends_with("ing")
            && !AUXILIARIES.contains(&word)
            && lexicon.lemmas_in(token).iter().any(|lemma| **lemma != *word && lexicon.is(lemma, "v")))
}

/// Words behind which «have» tells no time.
const MODALS: &[&str] = &["will", "would", "should", "could", "may", "might", "must", "can", "to", "do", "does"];

/// What may stand between «have» and its participle.
const BETWEEN: &[&str] = &[
    "not", "i", "we", "you", "they", "he", "she", "it", "already", "just", "ever", "recently", "since", "really",
    "also", "all", "there",
];

/// Words that tell the time of the verb behind them.
const AUXILIARIES: &[&str] = &[
    "is", "are", "am", "was", "were", "be", "do", "does", "did", "have", "has", "had", "can", "could", "will", "would",
    "should", "must", "may", "might", "shall", "get", "gets", "got",
];
