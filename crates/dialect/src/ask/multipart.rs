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

/// Where the value of the part of that name stands; `None` where there is none.
///
/// # Errors
/// What keeps it from being told: a second part of that name, one whose name cannot be read, or more parts than are
/// looked at. Servers differ in which of them they take.
pub(super) fn find(body: &[u8], boundary: &[u8], name: &str) -> Result<Option<Span>, String> {
    let delimiter = [b"--", boundary].concat();
    let next = [b"\r\n".as_slice(), &delimiter].concat();
    let Some(first) = memmem::find(body, &delimiter) else { return Ok(None) };
    let (mut at, mut found) = (first + delimiter.len(), None);
    for _ in 0..PARTS_MAX {
        let part = body.get(at..).unwrap_or_default();
        let Some(end) = memmem::find(part, &next) else { return Ok(found) };
        let part = part.get(..end).unwrap_or_default();
        if let Some(split) = memmem::find(part, b"\r\n\r\n") {
            let its = part_name(part.get(..split).unwrap_or_default())?;
            if its.is_some_and(|its| its.eq_ignore_ascii_case(name))
                && found.replace(Span { start: at + split + 4, end: at + end }).is_some()
            {
                return Err(format!("the form has two parts named '{name}'"));
            }
        }
        at += end + 2 + delimiter.len();
    }
    Err(format!("the form has more than {PARTS_MAX} parts"))
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

/// The name that a part's headers give it (RFC 7578, 4.2).
fn part_name(headers: &[u8]) -> Result<Option<String>, String> {
    let headers = String::from_utf8_lossy(headers);
    let mut dispositions = headers.split("\r\n").filter_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let Some(disposition) = dispositions.next() else { return Ok(None) };
    if dispositions.next().is_some() {
        return Err("a part of the form has two lines `content-disposition`".to_owned());
    }
    let mut name = None;
    for (key, value) in parameters(disposition) {
        if key.eq_ignore_ascii_case("name*") {
            return Err("a part of the form is named by `name*`, which forms do not have; write `name`".to_owned());
        }
        if key.eq_ignore_ascii_case("name") && name.replace(value).is_some() {
            return Err("a part of the form has two names".to_owned());
        }
    }
    Ok(name)
}

/// The parameters of a header's value, quoted ones without their quotes.
fn parameters(value: &str) -> Vec<(&str, String)> {
    let (mut all, mut rest) = (Vec::new(), value);
    while let Some((_, behind)) = rest.split_once(';') {
        let Some((key, behind)) = behind.split_once('=') else { break };
        let behind = behind.trim_start();
        let mut text = String::new();
        rest = match behind.strip_prefix('"') {
            None => {
                let end = behind.find(';').unwrap_or(behind.len());
                let (plain, behind) = behind.split_at_checked(end).unwrap_or((behind, ""));
                text.push_str(plain.trim());
                behind
            }
            Some(quoted) => {
                let mut letters = quoted.chars();
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        // Browsers escape a quote alone, and file names of Windows have backslashes.
                        '\\' if letters.as_str().starts_with(['"', '\\']) => text.extend(letters.next()),
                        letter => text.push(letter),
                    }
                }
                letters.as_str()
            }
        };
        // A parameter without a value before it is none.
        all.push((key.rsplit(';').next().unwrap_or(key).trim(), text));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(parts: &[(&str, &'a str)], name: &str) -> Result<Option<String>, String> {
        let part = |(headers, value): &(&str, &'a str)| format!("--XX\r\n{headers}\r\n\r\n{value}\r\n");
        let body: String = parts.iter().map(part).chain(["--XX--\r\n".to_owned()]).collect();
        let at = find(body.as_bytes(), b"XX", name)?;
        Ok(at.map(|at| body.get(at.range()).unwrap().to_owned()))
    }

    const MODEL: (&str, &str) = ("Content-Disposition: form-data; name=\"model\"", "a");

    #[test]
    fn a_part_is_found_however_its_name_is_written() {
        for headers in [
            MODEL.0,
            "content-disposition:form-data;NAME=model",
            "Content-Type: text/plain\r\nContent-Disposition: form-data; filename=\"x;name=other\" ; name=\"model\"",
            "Content-Disposition: form-data; filename=\"a\\\"b\"; name=model",
        ] {
            assert_eq!(found(&[(headers, "a")], "model"), Ok(Some("a".to_owned())), "{headers}");
        }
    }

    #[test]
    fn what_stands_in_a_file_name_is_no_name() {
        let file = ("Content-Disposition: form-data; name=\"file\"; filename=\"a;name=model;b\"", "evil");
        assert_eq!(found(&[file, MODEL], "model"), Ok(Some("a".to_owned())));
        assert_eq!(found(&[file], "model"), Ok(None));
    }

    #[test]
    fn a_form_that_servers_may_read_in_two_ways_is_refused() {
        for more in [
            MODEL.0,
            "Content-Disposition: form-data; name=model",
            "Content-Disposition: form-data; NAME=\"Model\"",
            "Content-Disposition: form-data; name*=utf-8''model",
            "Content-Disposition: form-data; name=\"x\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"",
        ] {
            assert!(found(&[MODEL, (more, "evil")], "model").is_err(), "{more}");
            assert!(found(&[(more, "evil"), MODEL], "model").is_err(), "{more}");
        }
        let many = vec![("Content-Disposition: form-data; name=x", ""); PARTS_MAX];
        assert!(found(&[&many[..], &[MODEL]].concat(), "model").is_err());
    }
}
