//! Where a call stands in a distributed trace (W3C Trace Context, <https://www.w3.org/TR/trace-context/>).

use std::num::NonZeroU64;

use crate::Dice;

/// `trace-id`: names one trace; never all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// A new one.
    #[must_use]
    pub fn new(dice: &Dice) -> Self {
        let (high, low) = (dice.bits().to_be_bytes(), SpanId::new(dice).bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low);
        Self(bytes)
    }

    /// The one of these bytes.
    #[must_use]
    pub const fn of(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Big-endian, as it is written.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl std::fmt::Display for TraceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `parent-id`: names one span of a trace; never all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// A new one.
    #[must_use]
    pub fn new(dice: &Dice) -> Self {
        Self(NonZeroU64::new(dice.bits()).unwrap_or(NonZeroU64::MIN))
    }

    /// Big-endian, as it is written.
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

/// One span of one trace, and whether its trace is recorded: what a `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// `trace-flags`, those that are known.
    flags: u8,
}

/// The span of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSpan {
    /// Which it is.
    pub context: SpanContext,
    /// The model that has answered, as the answer names it.
    pub model: Option<Box<str>>,
}

/// Whoever began the trace records it.
const SAMPLED: u8 = 1;
/// The trace id is random (Trace Context, level 2).
const RANDOM: u8 = 2;

impl SpanContext {
    /// The first span of a new trace, which is recorded where `is_sampled`.
    #[must_use]
    pub fn root(dice: &Dice, is_sampled: bool) -> Self {
        let flags = if is_sampled { RANDOM | SAMPLED } else { RANDOM };
        Self { trace: TraceId::new(dice), span: SpanId::new(dice), flags }
    }

    /// A new span of the same trace.
    #[must_use]
    pub fn child(self, dice: &Dice) -> Self {
        Self { span: SpanId::new(dice), ..self }
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// `trace-flags`, those that are known.
    #[must_use]
    pub const fn flags(self) -> u8 {
        self.flags
    }

    /// Reads a `traceparent`. Of a version that is not known yet as much is read as version 00 has
    /// (section 4.3 of the recommendation).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let dashes = [2, 35, 52].iter().all(|at| head.get(*at) == Some(&b'-'));
        let [version] = hex(head.get(..2)?)?;
        let is_known = version == 0 && rest.is_empty();
        let is_later = version != 0 && version != 0xff && rest.first().is_none_or(|sign| *sign == b'-');
        if !dashes || !(is_known || is_later) {
            return None;
        }
        let trace: [u8; 16] = hex(head.get(3..35)?)?;
        let span = NonZeroU64::new(u64::from_be_bytes(hex(head.get(36..52)?)?))?;
        let [flags] = hex(head.get(53..55)?)?;
        let flags = flags & (SAMPLED | RANDOM);
        (trace != [0; 16]).then_some(Self { trace: TraceId(trace), span: SpanId(span), flags })
    }

    /// Writes a `traceparent` of version 00.
    #[must_use]
    pub fn traceparent(self) -> [u8; LENGTH] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write(&mut out, 3, &self.trace.bytes());
        write(&mut out, 36, &self.span.bytes());
        write(&mut out, 53, &[self.flags]);
        out
    }
}

/// Bytes of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// Lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: &u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(high)? << 4 | value(low)?;
    }
    Some(bytes)
}

fn write(out: &mut [u8], at: usize, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (place, half) in out.iter_mut().skip(at).zip(halves) {
        *place = DIGITS.get(usize::from(half)).copied().unwrap_or(b'0');
    }
}

/// A request as its span tells it, beside what its record holds.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The request's own span.
    pub own: SpanContext,
    /// The caller's span, where it sent one.
    pub parent: Option<SpanId>,
    /// The caller's `tracestate`.
    pub state: Option<Box<str>>,
    /// The method where it is one of HTTP's, else `_OTHER` (OpenTelemetry's conventions for HTTP).
    pub method: &'static str,
    /// The path as this gateway names it, where it has it.
    pub path: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_sound_context_is_read_and_written_as_it_was() {
        let context = SpanContext::parse(SOUND.as_bytes()).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.traceparent(), SOUND.as_bytes());
    }

    #[test]
    fn a_child_is_of_the_same_trace_and_has_an_id_of_its_own() {
        let dice = Dice::loaded(1);
        let context = SpanContext::parse(SOUND.replace("-01", "-00").as_bytes()).unwrap();
        let child = context.child(&dice);
        assert_eq!((child.trace, child.is_sampled()), (context.trace, false));
        assert_ne!(child.span, context.span);
        assert!(SpanContext::root(&dice, true).is_sampled() && !SpanContext::root(&dice, false).is_sampled());
    }

    #[test]
    fn what_is_no_context_is_none() {
        for text in [
            "",
            "00",
            &SOUND.replace("00-", "ff-"),
            &SOUND.replace("0af7", "0AF7"),
            &SOUND.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &SOUND.replace("b7ad6b7169203331", "0000000000000000"),
            &SOUND.replace("-01", "_01"),
            &format!("{SOUND}-more"),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-\u{e9}",
        ] {
            assert_eq!(SpanContext::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_goes_on_as_ours() {
        for text in [SOUND.replace("00-", "01-"), format!("{}-more", SOUND.replace("00-", "cc-"))] {
            let context = SpanContext::parse(text.as_bytes()).unwrap();
            assert_eq!(context.traceparent(), SOUND.as_bytes());
        }
        assert_eq!(SpanContext::parse(format!("{}more", SOUND.replace("00-", "01-")).as_bytes()), None);
    }

    #[test]
    fn flags_that_nobody_knows_go_no_further() {
        let context = SpanContext::parse(SOUND.replace("-01", "-fb").as_bytes()).unwrap();
        assert!(context.traceparent().ends_with(b"-03"));
    }
}
