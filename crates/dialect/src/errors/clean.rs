//! Upstreams' texts, made fit to be shown: no credentials, no addresses, no control characters.

/// The longest text of an upstream that is passed on, bytes.
pub const TOLD_MAX: usize = 2048;

/// How much of a secret may never be shown: a longer prefix of it counts as the secret.
const PREFIX_MAX: usize = 8;

/// A text's beginning: at most `max` bytes, whole characters.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// One line of visible text, at most [`TOLD_MAX`].
pub(super) fn visible(text: &str) -> String {
    let mut out = String::new();
    for character in text.trim().chars() {
        let character = if character.is_control() { ' ' } else { character };
        if out.len() + character.len_utf8() > TOLD_MAX {
            break;
        }
        out.push(character);
    }
    out
}

/// What of a message may be shown without knowing the secrets: whatever looks like a key is masked.
pub(super) fn for_caller(message: &str) -> String {
    let looks_like_a_key = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        bare.len() >= 12 && (bare.starts_with("sk-") || bare.starts_with("sk_"))
    };
    if !message.split(' ').any(looks_like_a_key) {
        return message.to_owned();
    }
    let words = message.split(' ').map(|word| if looks_like_a_key(word) { "[secret]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Takes secrets and hosts out of a text. Of a secret every occurrence of a prefix longer than 8
/// bytes is masked; of a host its name with scheme and port, whatever the case, where it stands as
/// a word of its own.
#[must_use]
pub fn scrub(text: &str, secrets: &[&str], hosts: &[&str]) -> String {
    let mut out = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        out = without_secret(&out, secret);
    }
    for host in hosts.iter().filter(|host| !host.is_empty()) {
        out = without_host(&out, host);
    }
    out
}

fn without_secret(text: &str, secret: &str) -> String {
    let needle = cut(secret, PREFIX_MAX + 1);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, found)) = split_at(rest, rest.find(needle)) {
        let same = found.bytes().zip(secret.bytes()).take_while(|(a, b)| a == b).count();
        out.push_str(before);
        out.push_str("[secret]");
        rest = found.get(found.floor_char_boundary(same)..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn without_host(text: &str, host: &str) -> String {
    // A bare word such as `a` or `vllm` is an address only beside a scheme or a port.
    let is_plain_word = !host.contains(['.', ':']);
    let (lower, host) = (text.to_ascii_lowercase(), host.to_ascii_lowercase());
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(start) = lower.get(at..).and_then(|rest| rest.find(&host)).map(|offset| at + offset) {
        let end = start + host.len();
        let before = text.get(..start).unwrap_or_default();
        let bare = before.strip_suffix("://").map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_alphanumeric()));
        let behind = text.get(end..).unwrap_or_default();
        let port = behind.strip_prefix(':').map_or(0, |rest| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 { digits + 1 } else { 0 }
        });
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_inside_a_word = before.ends_with(is_part) || before.ends_with('.') || behind.starts_with(is_part);
        let is_address = !is_inside_a_word && (!is_plain_word || bare.is_some() || port > 0);
        let shown_to = if is_address { bare.map_or(start, str::len).max(at) } else { end };
        out.push_str(text.get(at..shown_to).unwrap_or_default());
        at = end;
        if is_address {
            out.push_str("[upstream]");
            at += port;
        }
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

fn split_at(text: &str, at: Option<usize>) -> Option<(&str, &str)> {
    text.split_at_checked(at?)
}
