//! What a body holds that is no text: images, files and sounds, found by the names of the parts that hold them.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What stands between the type and the bytes of a `data:` URL (RFC 2397).
const DATA: &[u8] = b";base64,";

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

/// The members whose value is one (OpenAI's reference of chat and responses).
const PARTS: [(&[u8], Attached); 4] = [
    (b"image_url\"", Attached::Image),
    (b"input_audio\"", Attached::Sound),
    (b"file_id\"", Attached::File),
    (b"file_url\"", Attached::File),
];

/// What finds the beginning of any of them; made once, for making it costs as much as finding nothing in a usual prompt.
static FIND_DATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(DATA));
static FIND_PARTS: LazyLock<[(Finder<'static>, Attached); 4]> =
    LazyLock::new(|| PARTS.map(|(name, what)| (Finder::new(name), what)));

/// All of them in the order of the body, each with the bytes that are no text: none for a URL.
pub fn all(body: &[u8]) -> Vec<(Attached, Range<usize>)> {
    let mut found: Vec<(Attached, Range<usize>)> = Vec::new();
    for (finder, what) in &*FIND_PARTS {
        found.extend(finder.find_iter(body).filter_map(|at| {
            let behind = at + finder.needle().len();
            // A name of a member, and neither a type (`"type":"image_url"`) nor a text, in which its quotes are escaped.
            let is_name = at.checked_sub(1).and_then(|before| body.get(before)) == Some(&b'"')
                && body.get(behind..)?.trim_ascii_start().starts_with(b":");
            let bytes = if *what == Attached::Sound { sound(body, behind) } else { behind..behind };
            is_name.then_some((*what, bytes))
        }));
    }
    found.sort_unstable_by_key(|(_, bytes)| bytes.start);
    for at in FIND_DATA.find_iter(body) {
        let end = memchr::memchr(b'"', body.get(at..).unwrap_or_default()).map_or(body.len(), |length| at + length);
        let next = found.partition_point(|(_, bytes)| bytes.start <= at);
        match next.checked_sub(1).and_then(|before| found.get_mut(before)) {
            // The bytes of the image that has just been named.
            Some((_, bytes)) if bytes.start == bytes.end && at - bytes.start <= NEAR => *bytes = at..end,
            Some((_, bytes)) if at < bytes.end => {}
            _ => found.insert(next, (Attached::File, at..end)),
        }
    }
    found
}

/// The bytes of a sound, whose part begins there: `{"data":"…","format":"wav"}`.
fn sound(body: &[u8], from: usize) -> Range<usize> {
    const NAME: &[u8] = b"\"data\"";
    let near = body.get(from..(from + NEAR).min(body.len())).unwrap_or_default();
    let Some(name) = memchr::memmem::find(near, NAME).map(|at| from + at + NAME.len()) else { return from..from };
    let rest = body.get(name..).unwrap_or_default();
    let Some(open) = memchr::memchr(b'"', rest).map(|at| name + at + 1) else { return from..from };
    let length = memchr::memchr(b'"', body.get(open..).unwrap_or_default());
    length.map_or(from..from, |length| open..open + length)
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
    fn what_ends_in_the_middle_of_it_is_taken_to_its_end() {
        for body in
            [r#"{"a":";base64,AAA"#, r#""input_audio":{"data":"AA"#, r#""input_audio":{"data""#, r#""image_url":"#]
        {
            assert_eq!(kinds(body).len(), 1, "{body}");
        }
    }
}
