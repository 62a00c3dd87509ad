//! Text inside JSON strings: finding what is special, unescaping, quoting.

use std::borrow::Cow;

use wide::u8x16;

/// An escape of half a surrogate pair: valid JSON, but no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoneSurrogate;

/// How many bytes are looked at in one step.
pub(super) const WINDOW: usize = 64;

/// Which of the bytes from `at` on are a quote, a backslash or a control character: one bit each, for
/// [`WINDOW`] bytes. What stands behind the end is nothing special.
#[inline]
pub(super) fn special_bits(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk::<WINDOW>() {
        Some(window) => bits_of(window),
        None => {
            let mut window = [b' '; WINDOW];
            window.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
            bits_of(&window)
        }
    }
}

/// The offset of the first special byte; the length where there is none.
fn first_special(bytes: &[u8]) -> usize {
    let windows = (0..bytes.len()).step_by(WINDOW).map(|at| (at, special_bits(bytes, at)));
    let found = windows.into_iter().find(|(_, bits)| *bits != 0);
    found.map_or(bytes.len(), |(at, bits)| at + bits.trailing_zeros() as usize)
}

#[inline]
fn bits_of(window: &[u8; WINDOW]) -> u64 {
    let (quote, backslash, control) = (u8x16::splat(b'"'), u8x16::splat(b'\\'), u8x16::splat(0x1f));
    let (lanes, _) = window.as_chunks::<16>();
    lanes.iter().rev().fold(0, |bits, lane| {
        let lane = u8x16::new(*lane);
        let found = lane.simd_eq(quote) | lane.simd_eq(backslash) | lane.min(control).simd_eq(lane);
        bits << 16 | u64::from(found.to_bitmask())
    })
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

/// The text behind a piece of a validated string's inside, with U+FFFD for what is no text.
#[must_use]
pub fn unescaped(inside: &str) -> Cow<'_, str> {
    unescape_lossy(inside)
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
                // Where one letter is written so, as a rule the next ones are too.
                while let Some(digits) = rest.strip_prefix("\\u") {
                    rest = decode_unit(digits, &mut text, lone);
                }
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
        let four = digits.as_bytes().first_chunk::<4>()?;
        let add = |unit, digit: &u8| Some(unit << 4 | char::from(*digit).to_digit(16)?);
        Some((four.iter().try_fold(0, add)?, digits.get(4..)?))
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
        let (plain, behind) = rest.split_at(first_special(rest));
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
