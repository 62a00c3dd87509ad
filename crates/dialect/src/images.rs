//! What images cost, by OpenAI's rules (<https://platform.openai.com/docs/guides/images-vision>,
//! "Calculating costs").

use std::borrow::Cow;

use base64::Engine as _;

use crate::json::Value;

/// Tokens of an image at most, by what most providers count: OpenAI's high detail takes 85 and 170 for each
/// of up to 8 tiles, Anthropic's largest images some 1,600. So much counts a file, too.
pub const ATTACHMENT: u64 = 1_600;

/// An image of a prompt, as far as its price depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// `detail` is `low`.
    is_low: bool,
    /// Width and height in pixels, where the image itself stands in the body.
    size: Option<(u32, u32)>,
}

/// How a family of models counts.
enum Rule {
    /// For an image as such, and for each tile of 512 pixels.
    Tiles { base: u64, tile: u64 },
    /// Patches of 32 pixels, at most 1,536, times this many hundredths.
    Patches { hundredths: u64 },
}

/// The size that is taken where none is known: a square of 1,024 pixels.
const USUAL: (u32, u32) = (1024, 1024);

pub(crate) fn read(value: Value<'_>) -> Image {
    let detail = value.get("detail").and_then(Value::as_escaped);
    let url = value.get("url").unwrap_or(value).as_str();
    Image { is_low: detail == Some("low"), size: url.and_then(|url| size(&url)) }
}

impl Image {
    /// Its tokens for a model; what is not OpenAI's counts like GPT-4o's.
    #[must_use]
    pub fn tokens(self, model: &str) -> u64 {
        let model = model.rsplit_once('/').map_or(model, |(_, bare)| bare);
        let (width, height) = self.size.unwrap_or(USUAL);
        match rule(model) {
            Rule::Patches { hundredths } => (patches(width, height) * hundredths).div_ceil(100),
            Rule::Tiles { base, .. } if self.is_low => base,
            Rule::Tiles { base, tile } => base + tile * tiles(width, height),
        }
    }
}

/// Tokens that an image of which nothing is known may be worth at most to any of these models, as far as their rules
/// are known: of a usual size, and no less than [`ATTACHMENT`].
#[must_use]
pub fn worth<'m>(models: impl Iterator<Item = &'m str>) -> u64 {
    models.map(|model| Image::default().tokens(model)).fold(ATTACHMENT, u64::max)
}

fn rule(model: &str) -> Rule {
    let of = |names: &[&str]| names.iter().any(|name| model.starts_with(name));
    match () {
        () if of(&["gpt-4.1-mini", "gpt-5-mini"]) => Rule::Patches { hundredths: 162 },
        () if of(&["gpt-4.1-nano", "gpt-5-nano"]) => Rule::Patches { hundredths: 246 },
        () if of(&["o4-mini"]) => Rule::Patches { hundredths: 172 },
        () if of(&["gpt-4o-mini"]) => Rule::Tiles { base: 2833, tile: 5667 },
        () if of(&["gpt-5"]) => Rule::Tiles { base: 70, tile: 140 },
        () if of(&["o1", "o3"]) => Rule::Tiles { base: 75, tile: 150 },
        () => Rule::Tiles { base: 85, tile: 170 },
    }
}

/// Made to fit a square of 2,048 pixels, then so that its shorter side has 768 at most.
fn tiles(width: u32, height: u32) -> u64 {
    let (mut width, mut height) = (f64::from(width.max(1)), f64::from(height.max(1)));
    for shrink in [(2048.0 / width.max(height)).min(1.0), 1.0] {
        (width, height) = (width * shrink, height * shrink);
    }
    let shrink = (768.0 / width.min(height)).min(1.0);
    let along = |side: f64| (side * shrink / 512.0).ceil().max(1.0) as u64;
    along(width) * along(height)
}

fn patches(width: u32, height: u32) -> u64 {
    let along = |side: u32| u64::from(side.max(1)).div_ceil(32);
    (along(width) * along(height)).min(1536)
}

/// Width and height of an image that stands in a `data:` URL.
fn size(url: &str) -> Option<(u32, u32)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    if !head.ends_with(";base64") {
        return None;
    }
    // The size stands near the beginning; of a JPEG behind a thumbnail at most.
    let data: Cow<'_, str> = data.get(..data.len().min(128 << 10) / 4 * 4)?.into();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(data.trim_end_matches('='))
        .ok()
        .or_else(|| base64::engine::general_purpose::STANDARD.decode(data.as_bytes()).ok())?;
    of_png(&bytes).or_else(|| of_gif(&bytes)).or_else(|| of_webp(&bytes)).or_else(|| of_jpeg(&bytes))
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four))
}

fn of_png(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n").then(|| big(bytes, 16).zip(big(bytes, 20))).flatten()
}

fn little(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<2>().map(|two| u32::from(u16::from_le_bytes(*two)))
}

fn of_gif(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.starts_with(b"GIF8").then(|| little(bytes, 6).zip(little(bytes, 8))).flatten()
}

fn of_webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let kind = bytes.starts_with(b"RIFF").then(|| bytes.get(8..16)).flatten()?;
    let three =
        |at: usize| bytes.get(at..)?.first_chunk::<3>().map(|[a, b, c]| u32::from_le_bytes([*a, *b, *c, 0]) + 1);
    match kind {
        b"WEBPVP8X" => three(24).zip(three(27)),
        b"WEBPVP8 " => little(bytes, 26).zip(little(bytes, 28)).map(|(w, h)| (w & 0x3fff, h & 0x3fff)),
        b"WEBPVP8L" => {
            let bits = bytes.get(21..)?.first_chunk::<4>().map(|four| u32::from_le_bytes(*four))?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        _ => None,
    }
}

fn of_jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let two = |at: usize| bytes.get(at..)?.first_chunk::<2>().map(|two| u32::from(u16::from_be_bytes(*two)));
    if !bytes.starts_with(b"\xff\xd8") {
        return None;
    }
    let mut at = 2;
    while *bytes.get(at)? == 0xff {
        let kind = *bytes.get(at + 1)?;
        // A start of frame, but for the tables among those markers.
        if matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc) {
            return two(at + 7).zip(two(at + 5));
        }
        at += 2 + two(at + 2)? as usize;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(vec![0; 5000]);
        format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    fn tokens(model: &str, url: &str, detail: &str) -> u64 {
        let body = serde_json::json!({"url": url, "detail": detail}).to_string();
        read(crate::json::parse(body.as_bytes()).expect("valid JSON")).tokens(model)
    }

    #[test]
    fn tiles_and_patches_are_those_of_openais_examples() {
        assert_eq!(tokens("gpt-4o", &png(1024, 1024), "high"), 765);
        assert_eq!(tokens("gpt-4o", &png(2048, 4096), "high"), 1105);
        assert_eq!(tokens("gpt-4o", &png(4096, 8192), "low"), 85);
        assert_eq!(tokens("openai/gpt-4.1-mini", &png(1024, 1024), "auto"), 1659);
        assert_eq!(tokens("qwen-vl", "https://a/b.png", "auto"), 765, "a usual size where none is known");
    }

    #[test]
    fn sizes_are_found_in_every_common_form() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\x02\x00\x03\x00";
        assert_eq!(of_jpeg(jpeg), Some((768, 512)));
        assert_eq!(of_gif(b"GIF89a\x10\x00\x20\x00"), Some((16, 32)));
        assert_eq!(of_webp(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x0f\0\0\x1f\0\0"), Some((16, 32)));
        for bytes in [&b""[..], b"\xff\xd8", b"\xff\xd8\xff\xe0", b"RIFF", b"\x89PNG\r\n\x1a\n"] {
            let found = of_png(bytes).or(of_gif(bytes)).or(of_webp(bytes)).or(of_jpeg(bytes));
            assert_eq!(found, None, "{bytes:?}");
        }
    }
}
