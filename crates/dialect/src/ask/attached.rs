//! What a body holds that is no text: images, files and sounds, found by the names of the parts that hold them.
//!
//! A name that is written with escapes (`"image\u005furl"`) is not found: no client writes it so, and what it holds counts
//! as the text that it then is here.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;

/// How far behind the name of its part the bytes begin at most, and so far a `data:` URL may reach before its bytes:
/// `{"url":"data:application/…`.
const NEAR: usize = 256;

/// Something that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// An image or a film, by URL or in the body.
    Image,
    /// A file, in the body or known to the provider.
    File,
    /// A sound in the body.
    Sound,
}

/// Members whose value is one (OpenAI's reference of chat and responses; `video_url` of vLLM and Qwen-VL), and what stands
/// between the type and the bytes of a `data:` URL (RFC 2397).
const SIGNS: [&str; 6] = ["\"image_url\"", "\"video_url\"", "\"input_audio\"", "\"file_id\"", "\"file_url\"", BASE64];
const BASE64: &str = ";base64,";

/// What finds any of them in one pass; made once, for making it costs as much as finding nothing in a usual prompt.
static FIND: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(SIGNS).ok());

/// What stands in any of them, each alone. Most bodies hold none, and that is told sooner by four passes for a rare byte
/// each than by one that halts at every quote.
static FINDERS: LazyLock<[Finder<'static>; 4]> =
    LazyLock::new(|| ["_url\"", "\"input_audio\"", "\"file_id\"", BASE64].map(Finder::new));

/// Members that hold a `data:` URL which no model reads as text. In any other (`content`, `text`, `input`) it is text.
const HOLDERS: [&[u8]; 7] = [b"url", b"image_url", b"video_url", b"audio_url", b"file_url", b"file_data", b"image"];

/// Whether there may be any.
pub fn any(body: &[u8]) -> bool {
    FINDERS.iter().any(|finder| finder.find(body).is_some())
}

/// All of them in the order of the body, each with the bytes that are no text: none for a URL. Reads each byte a few
/// times at most, however many there are.
pub fn all(body: &[u8]) -> Vec<(Attached, Range<usize>)> {
    let mut found: Vec<(Attached, Range<usize>)> = Vec::new();
    let Some(finder) = FIND.as_ref().filter(|_| any(body)) else { return found };
    // Behind the bytes of the last one, and behind the last sign.
    let (mut past, mut seen) = (0, 0);
    for sign in finder.find_iter(body) {
        let behind = sign.end();
        if sign.start() < past {
            continue;
        }
        let from = std::mem::replace(&mut seen, behind);
        let what = match sign.pattern().as_usize() {
            0 | 1 => Attached::Image,
            2 => Attached::Sound,
            3 | 4 => Attached::File,
            _ => {
                let Some(bytes) = inline(body, from, sign.start()..behind) else { continue };
                past = bytes.end;
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

/// The bytes of a `data:` URL from the `;base64,` that stands there, where that is what the whole string is, to its
/// closing quote: whatever else holds the word is text. `from` is the earliest place where it may begin.
fn inline(body: &[u8], from: usize, sign: Range<usize>) -> Option<Range<usize>> {
    const SCHEME: &[u8] = b"data:";
    let from = from.max(sign.start.saturating_sub(NEAR));
    let open = from + memchr::memrchr(b'"', body.get(from..sign.start)?)?;
    let kind = body.get(open + 1..sign.start)?;
    if !kind.get(..SCHEME.len())?.eq_ignore_ascii_case(SCHEME) || !is_held(body.get(..open)?) {
        return None;
    }
    let length = memchr::memchr(b'"', body.get(sign.end..)?)?;
    is_base64(body.get(sign.end..sign.end + length)?).then(|| sign.start..sign.end + length)
}

/// Whether what ends there is the name of one of [`HOLDERS`], and the value is about to begin.
fn is_held(before: &[u8]) -> bool {
    let name = before.trim_ascii_end().strip_suffix(b":").and_then(|rest| rest.trim_ascii_end().strip_suffix(b"\""));
    name.is_some_and(|name| {
        HOLDERS.iter().any(|holder| name.strip_suffix(*holder).is_some_and(|rest| rest.ends_with(b"\"")))
    })
}

/// Whether nothing but base64 (RFC 4648) stands there, its slashes escaped or not.
fn is_base64(text: &[u8]) -> bool {
    let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() | matches!(byte, b'+' | b'/' | b'=' | b'\\');
    // A chunk without a way out of it is looked through many bytes at a time.
    let are_all = text.chunks(64).all(|chunk| chunk.iter().fold(true, |are, byte| are & is_of_it(*byte)));
    are_all && memchr::memchr_iter(b'\\', text).all(|at| text.get(at + 1) == Some(&b'/'))
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
        let film = r#"{"type":"video_url","video_url":{"url":"https://a/b.mp4"}}"#;
        assert_eq!(kinds(film), [(Attached::Image, 0)]);
        assert_eq!(kinds(&film.replace("https://a/b.mp4", "data:video/mp4;base64,AAAA")), [(Attached::Image, 12)]);
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
    fn a_text_that_holds_a_data_url_is_text() {
        for text in [
            r#"{"content":"see ;base64,AAAA"}"#,
            r#"{"url":"see data:image/png;base64,AAAA"}"#,
            r#"{"url":"![logo](data:image/png;base64,AAAA)"}"#,
            r#"{"content":"<img src=\"data:image/png;base64,AAAA\">"}"#,
            r#"{"content":"\"url\":\"data:image/png;base64,AAAA\""}"#,
            r#"{"url":"data:image/png;base64,AAAA and more"}"#,
            r#"{"url":"data:image/png;base64,AAAA\nand"}"#,
            r#"{"url":"data:image/png;base64,AAAA\\"}"#,
            r#"{"url":"data:image/png;base64,;base64,AAAA"}"#,
            // A model reads this, whatever it looks like.
            r#"{"content":"data:text/plain;base64,AAAA"}"#,
            r#"{"text":"data:text/plain;base64,AAAA"}"#,
            r#"{"prompt":["data:text/plain;base64,AAAA"]}"#,
            r#"{"my url":"data:text/plain;base64,AAAA"}"#,
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn a_data_url_is_found_however_it_is_written() {
        let spaced = r#"{"image_url" : {"detail":"low", "url" : "DATA:image/png;charset=x;base64,AA\/+="}}"#;
        assert_eq!(kinds(spaced), [(Attached::Image, 14)]);
        assert_eq!(kinds(r#"{"url":"data:;base64,"}"#), [(Attached::File, 8)]);
        let long = format!(r#"{{"image_url":"data:image/png;base64,{}"}}"#, "Ab0/".repeat(1_000));
        assert_eq!(kinds(&long), [(Attached::Image, 4_008)]);
    }

    #[test]
    fn however_many_there_are_each_is_found_once_in_one_pass() {
        for text in [";base64,", "data:;base64,!", r#"\"data:;base64,"#, r#"\"url\":\"data:;base64,A\","#] {
            let body = format!(r#"{{"a":"{}",{}}}"#, text.repeat(20_000), r#""image_url":{},"#.repeat(20_000));
            let found = all(body.as_bytes());
            assert_eq!(found.len(), 20_000);
            assert!(found.is_sorted_by_key(|(_, bytes)| bytes.start));
        }
    }

    #[test]
    fn what_ends_in_the_middle_of_it_does_no_harm() {
        for body in [r#""input_audio":{"data":"AA"#, r#""input_audio":{"data""#, r#""image_url":"#] {
            assert_eq!(kinds(body).len(), 1, "{body}");
        }
        assert_eq!(kinds(r#"{"url":"data:;base64,AAA"#), []);
    }
}
