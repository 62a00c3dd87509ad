//! Just enough of `multipart/form-data` (RFC 7578) to find one part's value and replace it.

use memchr::memmem;

use crate::json::Span;

/// No form has more parts than this; the rest is not looked at.
const PARTS_MAX: usize = 256;

/// The boundary of a form's content type; `None` for every other content type.
pub(super) fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(content_type).ok()?;
    let (essence, parameters) = text.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    // RFC 2046, 5.1.1: 1 to 70 characters.
    (1..=70).contains(&value.len()).then(|| value.as_bytes().to_vec())
}

/// Where the value of the first part of that name stands.
pub(super) fn find(body: &[u8], boundary: &[u8], name: &str) -> Option<Span> {
    let delimiter = [b"--", boundary].concat();
    let mut at = memmem::find(body, &delimiter)? + delimiter.len();
    for _ in 0..PARTS_MAX {
        let part = body.get(at..)?;
        let end = memmem::find(part, &[b"\r\n".as_slice(), &delimiter].concat())?;
        let part = part.get(..end)?;
        if let Some(split) = memmem::find(part, b"\r\n\r\n")
            && part.get(..split).is_some_and(|headers| is_named(headers, name))
        {
            return Some(Span { start: at + split + 4, end: at + end });
        }
        at += end + 2 + delimiter.len();
    }
    None
}

/// Hands over what a form says, without the boundary: between its delimiters, behind its length each.
pub(super) fn feed(body: &[u8], boundary: &[u8], sink: &mut dyn FnMut(&[u8])) {
    let delimiter = [b"\r\n--", boundary].concat();
    // The first one need not stand behind a line.
    let mut rest = body.strip_prefix(delimiter.get(2..).unwrap_or_default()).unwrap_or(body);
    loop {
        let end = memmem::find(rest, &delimiter);
        let (piece, behind) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
        sink(&(piece.len() as u64).to_le_bytes());
        sink(piece);
        match end {
            Some(_) => rest = behind.get(delimiter.len()..).unwrap_or_default(),
            None => return,
        }
    }
}

/// Whether a part's headers give it that name.
fn is_named(headers: &[u8], name: &str) -> bool {
    let headers = String::from_utf8_lossy(headers);
    let disposition = headers.split("\r\n").find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    disposition.is_some_and(|value| {
        value.split(';').any(|parameter| {
            parameter.split_once('=').is_some_and(|(key, value)| {
                key.trim().eq_ignore_ascii_case("name") && value.trim().trim_matches('"') == name
            })
        })
    })
}
