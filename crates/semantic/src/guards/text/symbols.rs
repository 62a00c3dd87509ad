//! Symbols that are no words and yet decide: operators, arrows, ticks, pictures, flags of commands, and the case of a unit
//! of one letter. `ls -a` is not `ls -A`, 5 m not 5 M; refused as `entity`.

use crate::guards::token::is_han;

/// Signs of prose: they part words and clauses, or are read with the number that they stand beside.
const PROSE: &str = ".,?!;:'\"()[]{}<>-/&~#…·•、。，？！；：“”《》〈〉「」『』【】〔〕％%$€£¥¢‰℃°™®©";

/// The signs of a folded text that must agree, in their order. A sign that is not known for one of prose counts.
pub fn read(text: &str) -> Box<str> {
    let signs: Vec<char> = text.chars().collect();
    let at = |place: Option<usize>| place.and_then(|place| signs.get(place)).copied().unwrap_or(' ');
    let mut found = String::new();
    for (place, &sign) in signs.iter().enumerate() {
        let (before, after) = (at(place.checked_sub(1)), at(Some(place + 1)));
        match sign {
            '≠' => found.push_str("!="),
            '≤' => found.push_str("<="),
            '≥' => found.push_str(">="),
            '<' | '>' => found.push(sign),
            '!' if after == '=' => found.push(sign),
            '-' if after == '>' || is_minus(before, after) => found.push(sign),
            '-' if is_flag(before, after) => {
                found.push(sign);
                found.extend(signs.iter().skip(place + 1).take_while(|sign| sign.is_ascii_alphabetic()));
            }
            _ if is_unit(&signs, place) || is_prefixed(&signs, place) => found.push(sign),
            // What chooses between two drawings of one sign.
            '\u{fe0e}' | '\u{fe0f}' => {}
            _ if sign.is_alphanumeric() || is_han(sign) || sign.is_whitespace() || PROSE.contains(sign) => {}
            _ => found.push(sign),
        }
    }
    found.into()
}

/// Whether a dash makes a number negative: it joins nothing before it, and has a number behind it.
fn is_minus(before: char, after: char) -> bool {
    let joins = before.is_ascii_alphanumeric() || matches!(before, '-' | ')' | '%' | '.' | '年' | '月' | '日' | '号');
    !joins && (after.is_ascii_digit() || matches!(after, '$' | '€' | '£' | '¥'))
}

/// Whether a dash begins a flag of a command, whose case decides: ls -a, ls -A.
fn is_flag(before: char, after: char) -> bool {
    before.is_whitespace() && after.is_ascii_alphabetic()
}

/// Whether a letter belongs to a unit behind a number, and its case tells milli from mega, or bits from bytes. A unit that
/// is all small is written so by those who care for neither, and is one of bytes.
fn is_prefixed(signs: &[char], place: usize) -> bool {
    let is_letter = |sign: &&char| sign.is_ascii_alphabetic();
    let Some((before, rest)) = signs.split_at_checked(place) else { return false };
    let last = before.last().copied().unwrap_or(' ');
    let may_be = match rest.first() {
        Some('m' | 'M') => !last.is_ascii_alphabetic(),
        Some('b') => last.is_ascii_uppercase(),
        _ => false,
    };
    if !may_be {
        return false;
    }
    let earlier = before.iter().rev().take_while(is_letter).count();
    let unit: String = before.iter().skip(before.len() - earlier).chain(rest.iter().take_while(is_letter)).collect();
    let mut number = before.iter().rev().skip(earlier).skip_while(|sign| **sign == ' ');
    if !number.next().is_some_and(char::is_ascii_digit) {
        return false;
    }
    match unit.to_ascii_lowercase().as_str() {
        "mw" | "mv" | "ma" | "mhz" | "mj" | "mpa" | "mn" | "mwh" => earlier == 0,
        "kb" | "mb" | "gb" | "tb" | "kbps" | "mbps" | "gbps" => {
            earlier == 1 && rest.first() == Some(&'b') && before.last().is_some_and(char::is_ascii_uppercase)
        }
        _ => false,
    }
}

/// Whether a letter behind a number is a unit that its case decides: metres and millions, bits and bytes. Money counts
/// its millions in either case.
fn is_unit(signs: &[char], place: usize) -> bool {
    let Some((before, rest)) = signs.split_at_checked(place) else { return false };
    let is_letter = matches!(rest.first(), Some('m' | 'M' | 'g' | 'G' | 'b' | 'B'));
    let ends = rest.get(1).is_none_or(|next| !next.is_ascii_alphanumeric() && *next != '\'');
    if !is_letter || !ends {
        return false;
    }
    let mut earlier = before.iter().rev().skip_while(|sign| **sign == ' ').peekable();
    if !earlier.peek().is_some_and(|sign| sign.is_ascii_digit()) {
        return false;
    }
    let mut earlier = earlier.skip_while(|sign| sign.is_ascii_digit() || matches!(sign, '.' | ','));
    !matches!(earlier.find(|sign| **sign != ' '), Some('$' | '€' | '£' | '¥'))
}
