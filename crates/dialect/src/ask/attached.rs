//! What a body holds that is no text: images, files and sounds, found by the names of the parts that hold them.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;

/// How far behind the name of its part a `data:` URL begins at most: `{"url":"data:application/…`.
const NEAR: usize = 256;

/// Something that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// An image, by URL or in the body.
    Image,
    /// A file, in the body or known to the provider.
    File,
    /// A sound in the body.
    Sound,
}

/// Members whose value is one (OpenAI's reference of chat and responses), and what stands between the type and the bytes
/// of a `data:` URL (RFC 2397).
const SIGNS: [&str; 5] = ["\"image_url\"", "\"input_audio\"", "\"file_id\"", "\"file_url\"", ";base64,"];

/// What finds any of them in one pass; made once, for making it costs as much as finding nothing in a usual prompt.
static FIND: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(SIGNS).ok());

/// The same for each alone. Most bodies hold none, and that is told sooner by five passes for a rare byte each than by
/// one that halts at every quote.
static FINDERS: LazyLock<[Finder<'static>; SIGNS.len()]> = LazyLock::new(|| SIGNS.map(Finder::new));

/// Whether there may be any.
pub fn any(body: &[u8]) -> bool {
    FINDERS.iter().any(|finder| finder.find(body).is_some())
}

/// All of them in the order of the body, each with the bytes that are no text: none for a URL. Reads each byte a few
/// times at most, however many there are.
pub fn all(body: &[u8]) -> Vec<(Attached, Range<usize>)> {
    let mut found: Vec<(Attached, Range<usize>)> = Vec::new();
    let Some(finder) = FIND.as_ref().filter(|_| any(body)) else { return found };
    // Behind the bytes of the last one.
    let mut past = 0;
    for sign in finder.find_iter(body) {
        let behind = sign.end();
        if sign.start() < past {
            continue;
        }
        let what = match sign.pattern().as_usize() {
            0 => Attached::Image,
            1 => Attached::Sound,
            2 | 3 => Attached::File,
            _ => {
                let rest = body.get(sign.start()..).unwrap_or_default();
                past = memchr::memchr(b'"', rest).map_or(body.len(), |length| sign.start() + length);
                let bytes = sign.start()..past;
                match found.last_mut() {
                    // The bytes of what has just been named.
                    Some((_, named)) if named.start == named.end && bytes.start - named.start <= NEAR => *named = bytes,
                    _ => found.push((Attached::File, bytes)),
                }
                continue;
            }
        };
        // A name of a member, and no type (`"type":"image_url"`). In a text its quotes are escaped.
        if !body.get(behind..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b":")) {
            continue;
        }
        let bytes = if what == Attached::Sound { sound(body, behind) } else { behind..behind };
        past = bytes.end;
        found.push((what, bytes));
    }
    found
}

/// The bytes of a sound, whose part begins there: `{"data":"…","format":"wav"}`.
fn sound(body: &[u8], from: usize) -> Range<usize> {
    const NAME: &[u8] = b"\"data\"";
    let near = body.get(from..(from + NEAR).min(body.len())).unwrap_or_default();
    let Some(name) = memchr::memmem::find(near, NAME).map(|at| from + at + NAME.len()) else { return from..from };
    let quote = |from: usize| memchr::memchr(b'"', body.get(from..).unwrap_or_default()).map(|at| from + at);
    let Some(open) = quote(name).filter(|open| *open <= name + NEAR).map(|open| open + 1) else { return from..from };
    open..quote(open).unwrap_or(body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(body: &str) -> Vec<(Attached, usize)> {
        all(body.as_bytes()).into_iter().map(|(what, bytes)| (what, bytes.len())).collect()
    }

    #[test]
    fn each_part_that_is_no_text_is_found_once() {
        let image = r#"{"type":"image_url","image_url":{"url":"https://a/b.png"}}"#;
        let inline = r#"{"type":"image_url","image_url" : {"url":"data:image/png;base64,AAAA"}}"#;
        let response = r#"{"type":"input_image","image_url":"https://a/b.png"}"#;
        let sound = r#"{"type":"input_audio","input_audio":{"data":"AAAAAAAA","format":"wav"}}"#;
        let file = r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA"}}"#;
        let known = r#"{"type":"input_file","file_id":"file-1"}"#;
        assert_eq!(kinds(image), [(Attached::Image, 0)]);
        assert_eq!(kinds(inline), [(Attached::Image, 12)]);
        assert_eq!(kinds(response), [(Attached::Image, 0)]);
        assert_eq!(kinds(sound), [(Attached::Sound, 8)]);
        assert_eq!(kinds(file), [(Attached::File, 12)]);
        assert_eq!(kinds(known), [(Attached::File, 0)]);
        let all = [image, inline, sound, file, inline, response].join(",");
        let sizes: Vec<_> = kinds(&all).iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(sizes, [0, 12, 8, 12, 12, 0]);
    }

    #[test]
    fn a_text_about_images_holds_none() {
        assert_eq!(kinds(r#"{"content":"write {\"image_url\": {\"url\": 1}} and \"input_audio\":"}"#), []);
        assert_eq!(kinds(r#"{"type":"image_url"}"#), []);
    }

    #[test]
    fn however_many_there_are_each_is_found_once_in_one_pass() {
        let body = format!("[{}{}]", ";base64,".repeat(20_000), r#""image_url":{},"#.repeat(20_000));
        let found = all(body.as_bytes());
        assert_eq!(found.len(), 1 + 20_000);
        assert!(found.is_sorted_by_key(|(_, bytes)| bytes.start));
    }

    #[test]
    fn what_ends_in_the_middle_of_it_is_taken_to_its_end() {
        for body in
            [r#"{"a":";base64,AAA"#, r#""input_audio":{"data":"AA"#, r#""input_audio":{"data""#, r#""image_url":"#]
        {
            assert_eq!(kinds(body).len(), 1, "{body}");
        }
    }
}
