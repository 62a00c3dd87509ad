//! Tense and aspect, as far as the forms of verbs tell: has been closed, is closed, will be closed; 关了, 去过.

use crate::guards::lexicon::Lexicon;
use crate::guards::lexicon::verb_forms_en;
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
            [text(before), before.checked_sub(1).map_or("", &text)]
                .iter()
                .any(|word| verb_forms_en::BEFORE_INFINITIVE_HAVE.contains(word))
        });
        auxiliaries += usize::from(verb_forms_en::TENSED.contains(&text(at)));
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
    question.tense.past |=
        auxiliaries == 0 && tokens.iter().any(|token| verb_forms_en::is_past_of_verb(token, lexicon));
}

/// Whether «would» stands before this «have», with the subject between at most.
fn supposed(tokens: &[Token], at: usize) -> bool {
    tokens.get(at.saturating_sub(3)..at).unwrap_or_default().iter().any(|token| token.text == "would")
}

/// Whether a participle belongs to «have»: has been closed, have they really moved; not «have a used car».
fn perfect(tokens: &[Token], at: usize, lexicon: &Lexicon) -> bool {
    let rest = tokens.get(at + 1..).unwrap_or_default();
    let verb = rest.iter().find(|token| !verb_forms_en::BETWEEN_HAVE_AND_PARTICIPLE.contains(&token.text.as_str()));
    verb.is_some_and(|token| verb_forms_en::is_past_of_verb(token, lexicon))
}
