//! Text inside JSON strings: finding what is special, unescaping, quoting.

use std::borrow::Cow;

/// An escape of half a surrogate pair: valid JSON, but no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoneSurrogate;

/// The offset of the next quote, backslash or control character at or behind `from`; the length
/// where there is none.
#[inline]
pub(super) fn next_special(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    let mut rest = bytes.get(from..).unwrap_or_default();
    // Most strings are short: two words before the search in large steps.
    for _ in 0..2 {
        let Some((word, behind)) = rest.split_first_chunk::<8>() else { break };
        if let Some(offset) = special_in(*word) {
            return at + offset;
        }
        (at, rest) = (at + 8, behind);
    }
    let stop = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let run = rest.get(..stop).unwrap_or_default();
    // Folded, so that the compiler works on whole vector registers: there hardly ever is one.
    if run.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
        return at + run.iter().position(|byte| *byte < 0x20).unwrap_or(stop);
    }
    at + stop
}

/// Where in eight bytes the first special one stands. All at once: a byte's high bit is set where
/// it is special. Borrows can only set bits behind the first one, which alone is used.
#[inline]
const fn special_in(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    const fn below(word: u64, bound: u8) -> u64 {
        word.wrapping_sub(ONES * bound as u64) & !word & HIGH
    }
    let word = u64::from_le_bytes(word);
    let found = below(word, 0x20) | below(word ^ (ONES * b'"' as u64), 1) | below(word ^ (ONES * b'\\' as u64), 1);
    if found == 0 { None } else { Some(found.trailing_zeros() as usize / 8) }
}

/// The text behind a validated string's inside.
pub(super) fn unescape(inside: &str) -> Result<Cow<'_, str>, LoneSurrogate> {
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inside));
    }
    let mut lone = false;
    let text = decode(inside, &mut lone);
    if lone { Err(LoneSurrogate) } else { Ok(Cow::Owned(text)) }
}

/// The same, with U+FFFD for what is no text.
pub(super) fn unescape_lossy(inside: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Cow::Borrowed(inside);
    }
    Cow::Owned(decode(inside, &mut false))
}

fn decode(inside: &str, lone: &mut bool) -> String {
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut chars = escaped.chars();
        match chars.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => {
                rest = decode_unit(chars.as_str(), &mut text, lone);
                continue;
            }
            Some(other) => text.push(other),
            None => {}
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
    text
}

/// Takes the four digits behind `\u` and, for a surrogate, its other half; returns what follows.
fn decode_unit<'a>(digits: &'a str, text: &mut String, lone: &mut bool) -> &'a str {
    fn unit(digits: &str) -> Option<(u32, &str)> {
        let (four, rest) = digits.split_at_checked(4)?;
        u32::from_str_radix(four, 16).ok().map(|unit| (unit, rest))
    }
    let Some((first, rest)) = unit(digits) else { return digits };
    if let Some(plain) = char::from_u32(first) {
        text.push(plain);
        return rest;
    }
    if first < 0xdc00
        && let Some((second @ 0xdc00..=0xdfff, behind)) = rest.strip_prefix("\\u").and_then(unit)
        && let Some(pair) = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    {
        text.push(pair);
        return behind;
    }
    *lone = true;
    text.push(char::REPLACEMENT_CHARACTER);
    rest
}

/// Appends a text as a JSON string.
pub fn push_quoted(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, behind) = rest.split_at(next_special(rest, 0).min(rest.len()));
        out.extend_from_slice(plain);
        let Some((special, behind)) = behind.split_first() else { break };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x8 => out.extend_from_slice(b"\\b"),
            0xc => out.extend_from_slice(b"\\f"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.extend(
                    [control >> 4, control & 15].map(|nibble| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0')),
                );
            }
        }
        rest = behind;
    }
    out.push(b'"');
}

/// A text as a JSON string.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    push_quoted(&mut out, text);
    // Quoting inserts ASCII only, between whole characters.
    String::from_utf8(out).unwrap_or_default()
}
