//! Separable verbs, put together: «send it back» is «send back it», 打不开 is 不能打开, 导出来 is 导出.

use crate::guards::lexicon::Lexicon;
use crate::guards::token::{Script, Token};

/// Puts the parts of a verb together that stand apart: «send it back» is «send back it», 打不开 is 不能打开.
pub fn rejoin(tokens: &mut Vec<Token>, lexicon: &Lexicon) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.script == Script::Latin {
            if let Some(place) = particle(tokens, at, lexicon) {
                let moved = tokens.remove(place);
                tokens.insert(at + 1, moved);
            }
        } else if let Some(end) = complement(tokens.get(at..).unwrap_or_default(), lexicon) {
            let text = tokens.get(at).map(|verb| format!("{}{end}", verb.text)).unwrap_or_default();
            tokens.splice(at..at + 2, [Token { tag: "v", ..Token::new(&text, Script::Han) }]);
        } else if let [verb, not, result, ..] = tokens.get(at..).unwrap_or_default() {
            let whole = || format!("{}{}", verb.text, result.text);
            let is_verb = |token: &Token| token.script == Script::Han && token.text.chars().count() == 1;
            if not.text == "不"
                && verb.text != result.text
                && is_verb(verb)
                && is_verb(result)
                && lexicon.is_verb(&whole())
            {
                let joined = [("不能", verb.tag), (whole().as_str(), "v")]
                    .map(|(text, tag)| Token { tag, ..Token::new(text, Script::Han) });
                tokens.splice(at..at + 3, joined);
            }
        }
        at += 1;
    }
}

/// What of the word behind a Chinese verb belongs to it: 出 in 导出来, nothing in 删除掉.
fn complement(tokens: &[Token], lexicon: &Lexicon) -> Option<String> {
    let [verb, end, ..] = tokens else { return None };
    let length = verb.text.chars().count();
    if !verb.tag.starts_with('v') {
        return None;
    }
    if end.text == "掉" && length > 1 {
        return Some(String::new());
    }
    let way = end.text.strip_suffix(['来', '去']).filter(|way| way.chars().count() == 1 && length == 1)?;
    let is_way = matches!(way, "出" | "回" | "进" | "上" | "下");
    (is_way && lexicon.is_verb(&format!("{}{way}", verb.text))).then(|| way.to_owned())
}

/// Where the particle of the English verb stands that is here: at the end of its clause, behind a short object.
fn particle(tokens: &[Token], at: usize, lexicon: &Lexicon) -> Option<usize> {
    let clause = tokens.get(at..)?.iter().take_while(|token| token.script != Script::Stop).count();
    let place = at + clause.checked_sub(1)?;
    let particle = tokens.get(place).filter(|_| (2..=4).contains(&(place - at)))?;
    let pronoun =
        tokens.get(at + 1).is_some_and(|token| matches!(token.text.as_str(), "it" | "them" | "this" | "that"));
    let is_particle = matches!(particle.text.as_str(), "back" | "off" | "out" | "up" | "down" | "away")
        || (matches!(particle.text.as_str(), "on" | "in") && pronoun && place == at + 2);
    let verb = tokens.get(at)?;
    let is_phrasal = |lemma: &str| {
        lexicon.is(&format!("{lemma}_{}", particle.text), "v")
            || lexicon.groups(&format!("{lemma} {}", particle.text)).is_some()
    };
    (is_particle
        && lexicon.closed(&verb.text).is_none()
        && lexicon.lemmas_in(verb).iter().any(|lemma| is_phrasal(lemma)))
    .then_some(place)
}
