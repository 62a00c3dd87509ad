//! Normalisation and segmentation: one form for what is written in several (widths, traditional characters, quotes,
//! contractions), and the places where a word may begin.

use crate::guards::lexicon::Lexicon;
use crate::guards::token::{Script, Token, is_han};

/// A question of more characters is not compared: it says more than words can be held against each other.
pub const LONGEST: usize = 400;

/// One form for what is written in several: full width, traditional characters, marks, invisible signs.
pub fn fold(text: &str, lexicon: &Lexicon) -> String {
    let mut folded = String::with_capacity(text.len());
    for sign in text.chars() {
        let sign = match sign {
            '\u{3000}' | '\u{a0}' | '\t' | '\n' | '\r' => ' ',
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(sign) - 0xfee0).unwrap_or(sign),
            '\u{2018}' | '\u{2019}' | '\u{b4}' | '`' => '\'',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{ad}' | '\u{2060}' => continue,
            '\u{ffe5}' => '¥',
            '\u{ffe0}' => '¢',
            '\u{ffe1}' => '£',
            other => lexicon.simplified(other),
        };
        folded.push(sign);
    }
    folded
}

/// The tokens of a folded text.
pub fn tokens(text: &str, lexicon: &Lexicon) -> Vec<Token> {
    let signs: Vec<char> = text.chars().collect();
    let shouting =
        !signs.iter().any(|sign| sign.is_lowercase()) && signs.iter().filter(|sign| sign.is_alphabetic()).count() > 12;
    let mut found = Vec::new();
    let mut rest = signs.as_slice();
    while let Some(&first) = rest.first() {
        let (taken, script) = run(rest, first);
        let word: String = rest.iter().take(taken).collect();
        rest = rest.get(taken..).unwrap_or_default();
        match script {
            None => {}
            Some(Script::Han) => lexicon.segment(&word, &mut found),
            Some(Script::Latin) => words(&word, shouting, lexicon, &mut found),
            Some(script) => found.push(Token::new(&word, script)),
        }
    }
    found
}

/// How many characters belong together from here on, and to what.
fn run(rest: &[char], first: char) -> (usize, Option<Script>) {
    let count = |belongs: &dyn Fn(char) -> bool| rest.iter().take_while(|sign| belongs(**sign)).count();
    if is_han(first) {
        return (count(&is_han), Some(Script::Han));
    }
    if first.is_ascii_digit() {
        return (number(rest), Some(Script::Number));
    }
    if first.is_alphanumeric() {
        return (word(rest), Some(Script::Latin));
    }
    match first {
        '$' | '€' | '£' | '¥' | '%' | '‰' | '℃' | '°' => (1, Some(Script::Sign)),
        ' ' => (1, None),
        _ => (1, Some(Script::Stop)),
    }
}

/// Digits with the signs between them, and the letters that are written on to them.
fn number(rest: &[char]) -> usize {
    let is_digit = |at: usize| rest.get(at).is_some_and(char::is_ascii_digit);
    let mut at = 0;
    while is_digit(at) || (matches!(rest.get(at), Some(',' | '.' | ':' | '/' | '-')) && is_digit(at + 1)) {
        at += 1;
    }
    while rest.get(at).is_some_and(|sign| sign.is_ascii_alphanumeric()) {
        at += 1;
    }
    at
}

/// Letters, with signs that stand between letters.
fn word(rest: &[char]) -> usize {
    let goes_on = |at: usize| rest.get(at).is_some_and(|sign| sign.is_alphanumeric() && !is_han(*sign));
    let mut at = 0;
    while goes_on(at) || (matches!(rest.get(at), Some('\'' | '-' | '.' | '&' | '_')) && goes_on(at + 1)) {
        at += 1;
    }
    while matches!(rest.get(at), Some('+' | '#')) {
        at += 1;
    }
    at
}

/// One written word as one token or several: contractions opened, unknown compounds divided.
fn words(written: &str, shouting: bool, lexicon: &Lexicon, found: &mut Vec<Token>) {
    let lower = written.to_lowercase();
    let begins = found.last().is_none_or(|token| token.script == Script::Stop);
    let capital = !begins && written.chars().next().is_some_and(char::is_uppercase);
    let upper = !shouting
        && written.chars().filter(|sign| sign.is_alphabetic()).count() > 1
        && !written.chars().any(char::is_lowercase);
    let mut push = |text: &str| {
        found.push(Token { upper, capital, ..Token::new(text, Script::Latin) });
    };
    if let Some((head, tail)) = lower.rsplit_once('\'') {
        let (head, tail) = match (head, tail) {
            ("can", "t") => ("can", "not"),
            ("won", "t") => ("will", "not"),
            ("shan", "t") => ("shall", "not"),
            (head, "t") if head.ends_with('n') => (head.strip_suffix('n').unwrap_or(head), "not"),
            (head, "re") => (head, "are"),
            (head, "ve") => (head, "have"),
            (head, "ll") => (head, "will"),
            (head, "d") => (head, "would"),
            (head, "m") => (head, "am"),
            (head, "s") if lexicon.opens_with_is(head) => (head, "is"),
            (head, "s") => (head, ""),
            _ => ("", ""),
        };
        if !head.is_empty() {
            push(head);
            if !tail.is_empty() {
                push(tail);
            }
            return;
        }
    }
    if lower == "cannot" {
        push("can");
        push("not");
    } else if lower.contains('-') && !lexicon.knows(&lower) {
        lower.split('-').filter(|part| !part.is_empty()).for_each(push);
    } else {
        push(&lower);
    }
}
