//! One vector as JSON writes it: judged by a scan over its bytes, turned into the other form only
//! where the caller asked for the other form.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Encoding;

/// Why a vector cannot be given to anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flaw(pub &'static str);

/// The most numbers one vector may have. No model comes near it; a longer one is an attack or a bug.
pub(crate) const MAX_DIMENSION: usize = 1 << 20;

/// Counts the numbers in the text between a vector's brackets.
///
/// The scan does not parse: it sees to it that there are number characters only, a digit or a sign
/// in front and a digit at the end. `NaN`, `null`, strings and nested arrays cannot pass; a number
/// such as `1-2`, or one that is missing between two commas, can, and breaks at whoever parses it.
///
/// # Errors
/// When the text is empty or holds anything but numbers.
pub(crate) fn count_numbers(text: &[u8]) -> Result<usize, Flaw> {
    let text = text.trim_ascii();
    let (Some(&first), Some(&last)) = (text.first(), text.last()) else {
        return Err(Flaw("a vector is empty"));
    };
    if !(first.is_ascii_digit() || first == b'-') || !last.is_ascii_digit() {
        return Err(Flaw("a vector holds something that is not a number"));
    }
    let commas = match count_compact(text) {
        Some(commas) => commas,
        None => count_spaced(text).ok_or(Flaw("a vector holds something that is not a number"))?,
    };
    if commas >= MAX_DIMENSION {
        return Err(Flaw("a vector is longer than any model's"));
    }
    Ok(commas + 1)
}

/// Counts the commas where nothing but spaces stands between the numbers, as machines write them;
/// `None` where something else does.
///
/// Written without branches, with few operations a byte and in blocks whose comma count fits a byte,
/// so that the compiler works on whole vector registers: this loop is most of what judging a large
/// answer costs.
fn count_compact(text: &[u8]) -> Option<usize> {
    const BLOCK: usize = 240;
    // `+ , - . / 0..9` are neighbours; the slash among them stands in no number that a server writes,
    // and breaks whoever parses it as much as any other wrong digit.
    let allowed = |byte: u8| (byte.wrapping_sub(b'+') <= b'9' - b'+') | (byte | 0x20 == b'e') | (byte == b' ');
    let (mut commas, mut sound) = (0, true);
    let mut count = |block: &[u8]| {
        let (mut found, mut fit) = (0_u8, 0_u8);
        for &byte in block {
            found += u8::from(byte == b',');
            fit += u8::from(allowed(byte));
        }
        commas += usize::from(found);
        sound &= usize::from(fit) == block.len();
    };
    let mut blocks = text.chunks_exact(BLOCK);
    blocks.by_ref().for_each(&mut count);
    count(blocks.remainder());
    sound.then_some(commas)
}

/// The same for any white space, number by number.
fn count_spaced(text: &[u8]) -> Option<usize> {
    let mut commas = 0;
    for number in text.split(|byte| *byte == b',') {
        let number = number.trim_ascii();
        let opens = number.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
        let closes = number.last().is_some_and(u8::is_ascii_digit);
        if !opens || !closes || !number.iter().copied().all(numeric) {
            return None;
        }
        commas += 1;
    }
    Some(commas - 1)
}

/// Bytes that JSON numbers consist of.
const fn numeric(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Appends the base64 of numbers that [`count_numbers`] has passed, as little-endian `f32` (the form
/// of `encoding_format: "base64"` in OpenAI's API).
///
/// # Errors
/// When one of them is no number, or none that `f32` can hold.
pub(crate) fn append_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), Flaw> {
    append_quoted(&read_floats(text)?, out);
    Ok(())
}

/// The numbers between a vector's brackets as little-endian `f32`s, each rounded to the nearest.
///
/// # Errors
/// When one of them is no number, or none that `f32` can hold.
pub(crate) fn read_floats(text: &[u8]) -> Result<Vec<u8>, Flaw> {
    const BAD: Flaw = Flaw("a vector holds something that is not a number of 32 bits");
    let text = std::str::from_utf8(text).map_err(|_| BAD)?;
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for number in text.split(',') {
        let value: f32 = number.trim_ascii().parse().map_err(|_| BAD)?;
        if !value.is_finite() {
            return Err(BAD);
        }
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(bytes)
}

/// Appends a vector's little-endian bytes as JSON in one of the two encodings.
pub(crate) fn append_as(bytes: &[u8], encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Base64 => append_quoted(bytes, out),
        Encoding::Float | Encoding::Other => append_floats(bytes, out),
    }
}

fn append_quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    append_encoded(bytes, out);
    out.push(b'"');
}

fn append_encoded(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, b'=');
    if let Some(room) = out.get_mut(start..) {
        // The room is exactly the padded length: this cannot run short.
        let written = STANDARD.encode_slice(bytes, room).unwrap_or(0);
        out.truncate(start + written);
    }
}

/// Decodes the text between the quotes of a base64 vector into its little-endian bytes.
///
/// # Errors
/// When it is not standard base64 with padding, not whole `f32`s, empty, or holds NaN or infinity.
pub(crate) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, Flaw> {
    const BAD: Flaw = Flaw("a vector is not base64 of 32-bit numbers");
    // Some JSON writers escape the slash, which base64 uses.
    let plain: Cow<'_, [u8]> = match memchr::memchr(b'\\', text) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(unescape_slashes(text)),
    };
    let bytes = STANDARD.decode(plain.as_ref()).map_err(|_| BAD)?;
    let (values, rest) = bytes.as_chunks::<4>();
    if values.is_empty() || !rest.is_empty() || values.len() > MAX_DIMENSION {
        return Err(BAD);
    }
    // All exponent bits set: NaN or infinity. Folded, not short-circuited, so that it vectorises.
    let endless = values.iter().fold(false, |seen, value| seen | (u32::from_le_bytes(*value) >> 23 & 0xff == 0xff));
    if endless { Err(Flaw("a vector holds NaN or infinity")) } else { Ok(bytes) }
}

fn unescape_slashes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'\\' && rest.peek() == Some(&b'/') {
            continue;
        }
        plain.push(byte);
    }
    plain
}

/// Appends the numbers of decoded vector bytes as a JSON array, each in the shortest form that
/// reads back as the same `f32`.
pub(crate) fn append_floats(bytes: &[u8], out: &mut Vec<u8>) {
    let mut digits = ryu::Buffer::new();
    out.push(b'[');
    let (values, _) = bytes.as_chunks::<4>();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // `decode_base64` has refused what is not finite.
        out.extend_from_slice(digits.format(f32::from_le_bytes(*value)).as_bytes());
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64_of(text: &str) -> Result<String, Flaw> {
        let mut out = Vec::new();
        append_base64(text.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn numbers_are_counted_whatever_their_spelling() {
        for (text, count) in
            [("1", 1), ("0.5, -0.25,3.0", 3), (" \n1e-7 ,\t-2E+3 ", 2), ("-0,0.0,1", 3), (&"1,".repeat(1000), 0)]
        {
            assert_eq!(count_numbers(text.as_bytes()).unwrap_or(0), count, "{text}");
        }
        let long = vec!["-0.012345"; 4096].join(",");
        assert_eq!(count_numbers(long.as_bytes()), Ok(4096));
    }

    #[test]
    fn what_is_not_a_list_of_numbers_is_refused() {
        for text in ["", "  ", "NaN", "1,NaN", "null", "1,\"2\"", "[1]", ",1", "1,", "Infinity", "{}"] {
            assert!(count_numbers(text.as_bytes()).is_err(), "{text}");
        }
        let long = format!("{},x,{}", vec!["1"; 300].join(","), vec!["1"; 300].join(","));
        assert!(count_numbers(long.as_bytes()).is_err());
    }

    #[test]
    fn floats_become_little_endian_base64_and_back() {
        assert_eq!(base64_of("0.5,-0.25,3.0").unwrap(), "\"AAAAPwAAgL4AAEBA\"");
        let bytes = decode_base64(b"AAAAPwAAgL4AAEBA").unwrap();
        let mut out = Vec::new();
        append_floats(&bytes, &mut out);
        assert_eq!(out, b"[0.5,-0.25,3.0]");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused_both_ways() {
        for text in ["1e39", "-1e39", "nan", "inf", "1,", "0x1"] {
            assert!(base64_of(text).is_err(), "{text}");
        }
        for text in ["AAA", "AAAA", "AADAfw==", "AACAfw==", "not base64!", "", "AAAAPw"] {
            assert!(decode_base64(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn escaped_slashes_in_base64_are_slashes() {
        assert_eq!(decode_base64(br"\/\/\/\/Pg=="), decode_base64(b"////Pg=="));
    }
}
