//! Header names and values: what is taken from callers, what is told them.

mod answer;
mod keys;

use std::time::Duration;

use base::{Dice, Refusal};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

pub use answer::{AnswerHead, Blanks, Groups};

/// `x-request-id`
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// `x-mai-route`
pub const ROUTE: HeaderName = HeaderName::from_static("x-mai-route");
/// `x-mai-upstream`
pub const UPSTREAM: HeaderName = HeaderName::from_static("x-mai-upstream");
/// `x-mai-attempts`
pub const ATTEMPTS: HeaderName = HeaderName::from_static("x-mai-attempts");
/// `x-mai-overhead-ms`
pub const OVERHEAD: HeaderName = HeaderName::from_static("x-mai-overhead-ms");
/// `x-mai-truncated`
pub const TRUNCATED: HeaderName = HeaderName::from_static("x-mai-truncated");
/// `x-mai-degraded`
pub const DEGRADED: HeaderName = HeaderName::from_static("x-mai-degraded");
/// `x-mai-cache`
pub const CACHE: HeaderName = HeaderName::from_static("x-mai-cache");
/// `x-mai-cache-id`
pub const CACHE_ID: HeaderName = HeaderName::from_static("x-mai-cache-id");
/// `x-mai-cache-similarity`
pub const SIMILARITY: HeaderName = HeaderName::from_static("x-mai-cache-similarity");
/// `x-mai-query`
pub const QUERY: HeaderName = HeaderName::from_static("x-mai-query");
/// What `x-mai-query` says of an answer to a call whose question does not stand in its last user message.
pub const QUERY_ELSEWHERE: HeaderValue = HeaderValue::from_static("not_in_user_message");
/// `x-mai-kb-version`
pub const KB_VERSION: HeaderName = HeaderName::from_static("x-mai-kb-version");
/// `idempotency-key`
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `x-mai-queue-ms`
pub const QUEUE: HeaderName = HeaderName::from_static("x-mai-queue-ms");
/// `x-should-retry`, which OpenAI's SDKs obey (openai-python, `_base_client.py`, `_should_retry`)
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// `x-accel-buffering`, which tells nginx not to gather a stream
pub const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// `traceparent` (W3C Trace Context)
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// `tracestate` (W3C Trace Context)
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `x-mai-timeout-ms`
pub const TIMEOUT: HeaderName = HeaderName::from_static("x-mai-timeout-ms");
/// `x-mai-side-effects`
pub const SIDE_EFFECTS: HeaderName = HeaderName::from_static("x-mai-side-effects");

/// `x-ratelimit-limit-requests`, `-remaining-`, `-reset-`
pub const REQUESTS_LEFT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
/// `x-ratelimit-limit-tokens`, `-remaining-`, `-reset-`
pub const TOKENS_LEFT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// A caller's id longer than this is replaced.
const LONGEST_ID: usize = 128;

/// The caller's request id where it is one that may travel in headers and logs, else a new one. It stands in the open
/// there: what holds a key that the caller has `shown`, or looks like one, is replaced.
#[must_use]
pub fn request_id<'a>(headers: &HeaderMap, shown: impl Iterator<Item = &'a [u8]>, dice: &Dice) -> Box<str> {
    let written = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).map(str::trim);
    match written {
        Some(id) if !id.is_empty() && id.len() <= LONGEST_ID && !keys::are_told(id, shown) => id.into(),
        _ => made_id([dice.bits(), dice.bits()]),
    }
}

/// `mai-` and 32 hexadecimal digits, written by hand: every call without an id gets one.
fn made_id(bits: [u64; 2]) -> Box<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = String::with_capacity(36);
    id.push_str(keys::OURS);
    for byte in bits.iter().flat_map(|word| word.to_be_bytes()) {
        for half in [byte >> 4, byte & 15] {
            id.push(DIGITS.get(usize::from(half)).copied().unwrap_or(b'0').into());
        }
    }
    id.into()
}

/// A `traceparent` of the form that may be sent on: `00-<32 hex>-<16 hex>-<2 hex>`.
#[must_use]
pub fn traceparent(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(TRACEPARENT)?;
    let parts: smallvec::SmallVec<[&str; 5]> = value.to_str().ok()?.split('-').collect();
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    match parts.as_slice() {
        [version, trace, span, flags] if hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2) => {
            Some(value)
        }
        _ => None,
    }
}

/// Bytes and members of a `tracestate` that go on (Trace Context, section 3.3.1.5: at least so many bytes should).
const LONGEST_STATE: usize = 512;
const MOST_MEMBERS: usize = 32;

/// The `tracestate` that belongs to a sound `traceparent`: its members from the first on, as many as may go on.
/// One that is not of the form `key=value,…` is dropped whole.
#[must_use]
pub fn tracestate(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut written = headers.get_all(TRACESTATE).iter().peekable();
    written.peek()?;
    let mut kept = Vec::new();
    let mut members = 0;
    for member in written.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue;
        }
        if !is_member(member) {
            return None;
        }
        members += 1;
        if members > MOST_MEMBERS || kept.len() + member.len() + 1 > LONGEST_STATE {
            break;
        }
        if !kept.is_empty() {
            kept.push(b',');
        }
        kept.extend_from_slice(member);
    }
    if kept.is_empty() { None } else { HeaderValue::from_bytes(&kept).ok() }
}

/// Whether it is `key=value` (Trace Context, section 3.3.1.3).
fn is_member(member: &[u8]) -> bool {
    let mut parts = member.splitn(2, |byte| *byte == b'=');
    let (Some(key), Some(value)) = (parts.next(), parts.next()) else { return false };
    let is_key = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&key.len())
        && key.iter().all(is_key)
        && (1..=256).contains(&value.len())
        && value.iter().all(is_value)
}

/// `x-mai-timeout-ms`: a shorter deadline.
///
/// # Errors
/// `invalid_request` naming the header when it is no positive number of milliseconds.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(millis) if millis > 0 => Ok(Some(Duration::from_millis(millis))),
        _ => Err(Refusal::field("x-mai-timeout-ms", "x-mai-timeout-ms takes a positive whole number of milliseconds")),
    }
}

/// What the caller wishes of caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// `no-cache`: nothing stored is to be served.
    pub no_cache: bool,
    /// `no-store`: nothing stored is to be served, and nothing to be stored.
    pub no_store: bool,
}

/// `cache-control`, of which these two directives are read (RFC 9111, section 5.2.1).
#[must_use]
pub fn cache_control(headers: &HeaderMap) -> CacheControl {
    let mut wish = CacheControl::default();
    for value in headers.get_all(header::CACHE_CONTROL) {
        for directive in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            wish.no_cache |= directive.eq_ignore_ascii_case(b"no-cache");
            wish.no_store |= directive.eq_ignore_ascii_case(b"no-store");
        }
    }
    wish
}

/// A longer key is refused.
const LONGEST_KEY: usize = 255;

/// `idempotency-key`; an empty one counts as none.
///
/// # Errors
/// `invalid_request` naming the header when it is too long.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let key = headers.get(IDEMPOTENCY_KEY).map(|value| value.as_bytes().trim_ascii());
    match key.filter(|key| !key.is_empty()) {
        Some(key) if key.len() > LONGEST_KEY => {
            let message = format!("idempotency-key takes at most {LONGEST_KEY} bytes");
            Err(Refusal::field("idempotency-key", message))
        }
        key => Ok(key),
    }
}

/// `x-mai-kb-version`.
///
/// # Errors
/// `invalid_request` naming the header when it is no text, or none that [`base::kb_version`] takes.
pub fn kb_version(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(KB_VERSION) else { return Ok(None) };
    let refused = |why: &str| Refusal::field("x-mai-kb-version", format!("x-mai-kb-version {why}"));
    let version = std::str::from_utf8(value.as_bytes()).map_err(|_| refused("must be UTF-8"))?.trim();
    base::kb_version(version).map(|()| Some(version)).map_err(|why| refused(&why))
}

/// `x-mai-query`: a question, percent-encoded UTF-8; an empty one counts as none.
///
/// # Errors
/// `invalid_request` naming the header when it is no text.
pub fn query(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(QUERY) else { return Ok(None) };
    match percent_decode(value.as_bytes()).decode_utf8() {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_) => Err(Refusal::field("x-mai-query", "x-mai-query takes percent-encoded UTF-8")),
    }
}

/// Whether what the caller says of side effects can be understood: to take it for nothing would run a call twice.
///
/// # Errors
/// `invalid_request`.
pub fn check_side_effects(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut said = headers.get_all(SIDE_EFFECTS).iter();
    let is_word = |value: &HeaderValue| {
        [b"true".as_slice(), b"false"].iter().any(|word| value.as_bytes().eq_ignore_ascii_case(word))
    };
    match (said.next(), said.next()) {
        (None, _) => Ok(()),
        (Some(value), None) if is_word(value) => Ok(()),
        _ => Err(Refusal::field("x-mai-side-effects", "x-mai-side-effects must be `true` or `false`, once")),
    }
}

/// Whether the caller marks the call as one that must not run twice.
#[must_use]
pub fn side_effects(headers: &HeaderMap) -> bool {
    headers.get(SIDE_EFFECTS).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// Everything but visible ASCII, and the escape's own sign, is percent-encoded (RFC 9110, section
/// 5.5 has field values be visible ASCII).
const IN_HEADER: &AsciiSet = &CONTROLS.add(b'%').add(b' ');

/// A configured name as a header value.
#[must_use]
pub fn named(name: &str) -> HeaderValue {
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%');
    let value = if plain {
        HeaderValue::from_str(name)
    } else {
        HeaderValue::from_str(&utf8_percent_encode(name, IN_HEADER).to_string())
    };
    value.unwrap_or(HeaderValue::from_static("unknown"))
}

/// Whole milliseconds, rounded up.
#[must_use]
pub fn whole_millis(duration: Duration) -> HeaderValue {
    let millis = duration.as_micros().div_ceil(1000);
    HeaderValue::from(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Milliseconds with two digits behind the point.
#[must_use]
pub fn millis(duration: Duration) -> HeaderValue {
    let hundredths = u64::try_from(duration.as_micros() / 10).unwrap_or(u64::MAX);
    // At most twenty digits and the point: on the stack.
    let mut text = smallvec::SmallVec::<[u8; 24]>::new();
    text.extend_from_slice(itoa::Buffer::new().format(hundredths / 100).as_bytes());
    text.push(b'.');
    let rest = hundredths % 100;
    if rest < 10 {
        text.push(b'0');
    }
    text.extend_from_slice(itoa::Buffer::new().format(rest).as_bytes());
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("0"))
}

/// A number, in one piece of memory of its own size: `HeaderValue::from` takes two.
#[must_use]
pub fn number(number: u64) -> HeaderValue {
    HeaderValue::from_bytes(itoa::Buffer::new().format(number).as_bytes()).unwrap_or(HeaderValue::from_static("0"))
}

/// A count; one without the trouble of making it is nearly always meant.
#[must_use]
pub fn count(count: usize) -> HeaderValue {
    const FEW: [&str; 5] = ["0", "1", "2", "3", "4"];
    FEW.get(count).map_or_else(|| HeaderValue::from(count), |few| HeaderValue::from_static(few))
}

/// A length of time in whole seconds, rounded up, as OpenAI's rate-limit headers write it: `1s`, `6m0s`.
#[must_use]
pub fn clock(time: Duration) -> HeaderValue {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let text = match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        // What a rate is told with nearly always: nothing is written for it.
        (0, 0, 0) => return HeaderValue::from_static("0s"),
        (0, 0, 1) => return HeaderValue::from_static("1s"),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0s"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chinese_name_becomes_visible_ascii() {
        assert_eq!(named("问答"), "%E9%97%AE%E7%AD%94");
        assert_eq!(named("BAAI/bge-m3"), "BAAI/bge-m3");
        assert_eq!(named("a b\n"), "a%20b%0A");
    }

    #[test]
    fn an_id_that_cannot_travel_is_replaced() {
        let dice = Dice::loaded(1);
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("abc-1"));
        assert_eq!(&*request_id(&headers, std::iter::empty(), &dice), "abc-1");
        headers.insert(REQUEST_ID, HeaderValue::from_bytes("é".as_bytes()).unwrap());
        assert!(request_id(&headers, std::iter::empty(), &dice).starts_with("mai-"));
        headers.insert(REQUEST_ID, HeaderValue::from_str(&"x".repeat(500)).unwrap());
        assert_eq!(request_id(&headers, std::iter::empty(), &dice).len(), 36);
    }

    #[test]
    fn only_a_true_traceparent_travels() {
        let mut headers = HeaderMap::new();
        headers
            .insert(TRACEPARENT, HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert!(traceparent(&headers).is_some());
        headers.insert(TRACEPARENT, HeaderValue::from_static("sk-secret"));
        assert!(traceparent(&headers).is_none());
    }

    #[test]
    fn a_trace_s_state_goes_on_in_whole_members_and_within_bounds() {
        let state = |written: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in written {
                headers.append(TRACESTATE, HeaderValue::from_str(value).unwrap());
            }
            tracestate(&headers).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(state(&[]), None);
        assert_eq!(state(&["rojo=00f067aa, congo=t61r"]).as_deref(), Some("rojo=00f067aa,congo=t61r"));
        assert_eq!(state(&["a=1", "t@v=2,"]).as_deref(), Some("a=1,t@v=2"));
        for unsound in ["a", "=1", "a=", "A=1", "a=1=2", "a=1,b"] {
            assert_eq!(state(&[unsound]), None, "{unsound}");
        }
        let two = format!("a={},b={}", "x".repeat(250), "y".repeat(250));
        assert_eq!(state(&[&format!("{two},c=12345")]), Some(two));
        let many: Vec<String> = (0..40).map(|at| format!("k{at}=v")).collect();
        assert_eq!(state(&[&many.join(",")]), Some(many[..32].join(",")));
    }

    proptest! {
        #[test]
        fn any_name_becomes_visible_ascii_and_back(name in ".{1,40}") {
            let value = named(&name);
            prop_assert!(value.as_bytes().iter().all(u8::is_ascii_graphic));
            let back = percent_encoding::percent_decode(value.as_bytes()).decode_utf8().unwrap();
            prop_assert_eq!(&*back, &*name);
        }

        #[test]
        fn whatever_a_caller_writes_into_a_header_only_sound_values_travel(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            for name in [REQUEST_ID, TRACEPARENT, TRACESTATE, TIMEOUT, SIDE_EFFECTS] {
                headers.insert(name, value.clone());
            }
            let id = request_id(&headers, std::iter::empty(), &Dice::loaded(1));
            prop_assert!(!id.is_empty() && id.len() <= LONGEST_ID && HeaderValue::from_str(&id).is_ok());
            if let Some(parent) = traceparent(&headers) {
                prop_assert!(parent.len() == 55 && parent.to_str().is_ok());
            }
            if let Some(state) = tracestate(&headers) {
                prop_assert!(state.len() <= LONGEST_STATE && state.to_str().is_ok_and(|text| text.contains('=')));
            }
            prop_assert!(timeout(&headers).map_or(true, |wait| wait > Some(Duration::ZERO)));
            let _ = side_effects(&headers);
        }
    }

    #[test]
    fn a_reset_is_told_in_whole_seconds() {
        for (millis, told) in [(0, "0s"), (1, "1s"), (1000, "1s"), (360_000, "6m0s"), (3_661_001, "1h1m2s")] {
            assert_eq!(clock(Duration::from_millis(millis)), told);
        }
    }

    #[test]
    fn overhead_is_told_in_hundredths_of_a_millisecond() {
        assert_eq!(millis(Duration::from_micros(1234)), "1.23");
        assert_eq!(millis(Duration::from_micros(7)), "0.00");
    }
}
