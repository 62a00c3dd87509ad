//! Durations and sizes as they are written.

use std::time::Duration;

/// No clock of the gateway runs longer; keeps every sum of instants in range.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

const TIMES: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// `250ms`, `3s`, `1.5m`, `2h`, `7d`, or a bare whole number of milliseconds; at most ten years,
/// to the millisecond.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let millis = Duration::from_millis(quantity(text, &TIMES)?);
    (millis <= LONGEST).then_some(millis)
}

/// Whether a duration is longer than any may be.
#[must_use]
pub fn is_too_long(text: &str) -> bool {
    quantity(text, &TIMES).is_some_and(|millis| Duration::from_millis(millis) > LONGEST)
}

/// `512KiB`, `10MiB`, `1.5GiB`, decimal `10MB`, or a bare whole number of bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    quantity(text, &SIZES)
}

/// A decimal number and one of the units; without a unit, a whole number of the smallest.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    if unit.is_empty() {
        return whole(number);
    }
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim_start_matches(' '))?;
    let (left, right) = number.split_once('.').unwrap_or((number, "0"));
    // Nine digits behind the point: more is a slip, and fewer always fit the sum below.
    if right.len() > 9 {
        return None;
    }
    let parts = 10_u128.checked_pow(u32::try_from(right.len()).ok()?)?;
    let scale = u128::from(*scale);
    let total = u128::from(whole(left)?).checked_mul(scale)? + u128::from(whole(right)?) * scale / parts;
    u64::try_from(total).ok()
}

/// Digits only: no sign, no blanks, not empty.
fn whole(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit_or_bare_milliseconds() {
        for (text, millis) in [
            ("250ms", 250),
            ("3s", 3_000),
            ("5m", 300_000),
            ("7d", 604_800_000),
            ("1.5s", 1_500),
            ("3000", 3_000),
            ("0", 0),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "1.5",
            "-1s",
            "+1s",
            "1e3",
            "3 sec",
            "3S",
            "1h30m",
            "99999999999999999999s",
            "4000d",
            ".5s",
            "5.s",
            "1..5s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_or_decimal_or_bare_bytes() {
        for (text, bytes) in [
            ("10MiB", 10 << 20),
            ("1GiB", 1 << 30),
            ("2KB", 2_000),
            ("512", 512),
            ("1.5KiB", 1_536),
            ("10 MiB", 10 << 20),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "10M", "10mib", "MiB", "-1", "99999999TiB", "1.5"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
