//! Answers as they are stored: ready to be sent, and behind them what is told with them.
//!
//! The body stands first and is sent as it is, a slice of what the store holds. What follows is read by
//! this module alone; what it cannot read counts as not stored.

use std::time::Duration;

use base::Usage;
use bytes::{BufMut, Bytes};
use config::{OnFailure, Route, Snapshot};
use state::answers::{Key, Stored};

/// How what follows the body is written. Raised with every change.
const VERSION: u8 = 1;
/// The last byte of what only says where an answer stands.
const REFERENCE: u8 = 2;
/// Behind everything: the length of what follows the body, and the version.
const TAIL: usize = 5;

/// What has expired is kept so long beyond its time, where somebody takes it when the upstreams fail.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long something of a route is kept that expires then.
#[must_use]
pub fn until(snapshot: &Snapshot, route: &Route, expires: Duration) -> Duration {
    let is_stale = |wish: Option<OnFailure>| wish == Some(OnFailure::Stale);
    let serves_stale =
        is_stale(Some(route.on_failure)) || snapshot.clients.iter().any(|client| is_stale(client.on_failure));
    if serves_stale { expires + STALE } else { expires }
}

/// What is told with an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// 200, or that of an upstream's refusal that is kept for its idempotency key.
    pub status: u16,
    /// Of the body.
    pub content_type: &'a str,
    /// It is a stream of events.
    pub is_stream: bool,
    /// What it used.
    pub usage: Option<Usage>,
    /// What that cost, in billionths, and in which currency.
    pub cost: Option<(u64, &'a str)>,
    /// From the request's arrival to the end of the answer.
    pub took: Duration,
    /// `provider/model` of the upstream that gave it.
    pub upstream: &'a str,
    /// The error object's code, of a refusal.
    pub code: Option<&'a str>,
    /// Of the request's body, for an idempotency key.
    pub fingerprint: Option<[u8; 32]>,
    /// Under which key other callers find the answer, of one that is kept for an idempotency key.
    pub id: Option<Key>,
}

const IS_STREAM: u8 = 1;
const HAS_USAGE: u8 = 2;
const IS_ESTIMATED: u8 = 4;
const HAS_COST: u8 = 8;
const HAS_CODE: u8 = 16;
const HAS_FINGERPRINT: u8 = 32;
const HAS_ID: u8 = 64;

/// An answer in one piece of memory of its own.
#[must_use]
pub fn write(body: &[u8], facts: &Facts<'_>) -> Box<[u8]> {
    let mut out = Vec::with_capacity(body.len() + 256);
    out.extend_from_slice(body);
    let usage = facts.usage.unwrap_or_default();
    let flags = [
        (IS_STREAM, facts.is_stream),
        (HAS_USAGE, facts.usage.is_some()),
        (IS_ESTIMATED, usage.estimated),
        (HAS_COST, facts.cost.is_some()),
        (HAS_CODE, facts.code.is_some()),
        (HAS_FINGERPRINT, facts.fingerprint.is_some()),
        (HAS_ID, facts.id.is_some()),
    ];
    out.push(flags.into_iter().filter(|(_, holds)| *holds).fold(0, |all, (flag, _)| all | flag));
    out.put_u16_le(facts.status);
    for count in [usage.prompt, usage.completion, usage.cached, usage.units] {
        out.put_u64_le(count);
    }
    let (nanos, currency) = facts.cost.unwrap_or_default();
    out.put_u64_le(nanos);
    out.put_u64_le(u64::try_from(facts.took.as_micros()).unwrap_or(u64::MAX));
    for text in [currency, facts.content_type, facts.upstream, facts.code.unwrap_or_default()] {
        // Names from a configuration and content types: far shorter. One that is not is left out.
        let text = if u16::try_from(text.len()).is_ok() { text } else { "" };
        out.put_u16_le(u16::try_from(text.len()).unwrap_or_default());
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&facts.fingerprint.unwrap_or_default());
    facts.id.iter().for_each(|id| out.extend_from_slice(&id.0));
    let length = u32::try_from(out.len() - body.len()).unwrap_or_default();
    out.put_u32_le(length);
    out.push(VERSION);
    out.into()
}

/// The length of the body, and what is told with it; `None` for what this version cannot read.
#[must_use]
pub fn read(stored: &[u8]) -> Option<(usize, Facts<'_>)> {
    let (rest, tail) = stored.split_at_checked(stored.len().checked_sub(TAIL)?)?;
    let mut tail = Reader(tail);
    let length = usize::try_from(tail.number::<4>()?).ok()?;
    if tail.number::<1>()? != u64::from(VERSION) {
        return None;
    }
    let at = rest.len().checked_sub(length)?;
    let mut facts = Reader(rest.get(at..)?);
    let flags = u8::try_from(facts.number::<1>()?).ok()?;
    let has = |flag| flags & flag != 0;
    let status = u16::try_from(facts.number::<2>()?).ok()?;
    let usage = Usage {
        prompt: facts.number::<8>()?,
        completion: facts.number::<8>()?,
        cached: facts.number::<8>()?,
        units: facts.number::<8>()?,
        estimated: has(IS_ESTIMATED),
    };
    let (nanos, micros) = (facts.number::<8>()?, facts.number::<8>()?);
    let (currency, content_type) = (facts.text()?, facts.text()?);
    let (upstream, code) = (facts.text()?, facts.text()?);
    let fingerprint: [u8; 32] = facts.take(32)?.try_into().ok()?;
    let id = if has(HAS_ID) { Some(Key(facts.take(32)?.try_into().ok()?)) } else { None };
    let read = Facts {
        status,
        content_type,
        is_stream: has(IS_STREAM),
        usage: has(HAS_USAGE).then_some(usage),
        cost: has(HAS_COST).then_some((nanos, currency)),
        took: Duration::from_micros(micros),
        upstream,
        code: has(HAS_CODE).then_some(code),
        fingerprint: has(HAS_FINGERPRINT).then_some(fingerprint),
        id,
    };
    facts.0.is_empty().then_some((at, read))
}

/// Says under which key an answer stands, and what the body is known by that it answers.
#[must_use]
pub fn write_reference(to: &Key, fingerprint: &[u8; 32]) -> Box<[u8]> {
    [&to.0[..], fingerprint, &[REFERENCE]].concat().into()
}

/// What [`write_reference`] has said; `None` for everything else.
#[must_use]
pub fn reference(stored: &[u8]) -> Option<(Key, [u8; 32])> {
    let (to, rest) = stored.split_first_chunk::<32>()?;
    let (fingerprint, rest) = rest.split_first_chunk::<32>()?;
    (rest == [REFERENCE]).then_some((Key(*to), *fingerprint))
}

/// The body of what is stored, without a copy.
#[must_use]
pub fn body(stored: &std::sync::Arc<Stored>, length: usize) -> Bytes {
    let bytes = stored.bytes();
    let length = length.min(bytes.len());
    bytes.slice(..length)
}

/// Reads from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..N)?.copy_from_slice(self.take(N)?);
        Some(u64::from_le_bytes(word))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number::<2>()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts() -> Facts<'static> {
        Facts {
            status: 200,
            content_type: "application/json",
            is_stream: false,
            usage: Some(Usage { prompt: 3, completion: 4, cached: 1, units: 0, estimated: true }),
            cost: Some((150, "USD")),
            took: Duration::from_millis(1234),
            upstream: "云/gpt",
            code: None,
            fingerprint: Some([7; 32]),
            id: Some(Key([8; 32])),
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_the_body_stands_first() {
        let written = write(b"{}", &facts());
        assert!(written.starts_with(b"{}"));
        assert_eq!(read(&written), Some((2, facts())));
        let bare = Facts { status: 404, code: Some("no"), ..Facts::default() };
        assert_eq!(read(&write(b"", &bare)), Some((0, bare)));
    }

    #[test]
    fn what_another_version_has_written_counts_as_not_stored() {
        let mut written = write(b"{}", &facts());
        *written.last_mut().unwrap() += 1;
        assert_eq!(read(&written), None);
    }

    #[test]
    fn an_answer_and_what_says_where_one_stands_are_not_taken_for_each_other() {
        let written = write_reference(&Key([3; 32]), &[7; 32]);
        assert_eq!(reference(&written), Some((Key([3; 32]), [7; 32])));
        assert_eq!(read(&written), None);
        assert_eq!(reference(&write(b"{}", &facts())), None);
        assert_eq!(reference(&written[1..]), None);
    }

    proptest! {
        #[test]
        fn no_damage_is_read_as_something_out_of_bounds(bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let _ = read(&bytes);
            let mut written = write(&bytes, &facts());
            let at = at.index(written.len());
            written[at] = with;
            if let Some((length, _)) = read(&written) {
                prop_assert!(length <= written.len());
            }
        }
    }
}
