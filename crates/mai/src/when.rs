//! Times: as people write them on the command line, and as tables tell them.

use std::time::Duration;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

/// The present.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// How long ago or ahead an instant of an answer is, in words; what is no instant stands as it is.
pub fn told(instant: &str, now: Timestamp) -> String {
    let Ok(at) = instant.parse::<Timestamp>() else { return instant.to_owned() };
    let apart = now.duration_since(at);
    let length = rough(apart.unsigned_abs());
    if apart.is_negative() { format!("in {length}") } else { format!("{length} ago") }
}

/// A length of time in its largest unit.
pub fn rough(length: Duration) -> String {
    let seconds = length.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "min"),
        3_600..172_800 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit}")
}

/// A length of time as the configuration writes it: `90s`, `10m`, `2h`, `7d`.
///
/// # Errors
/// How to write it.
pub fn length(text: &str) -> Result<Duration, String> {
    let wrong = || "write a length of time such as 30s, 10m, 2h or 7d".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match text.strip_prefix(digits) {
        Some("s") => Some(count),
        Some("m") => count.checked_mul(60),
        Some("h") => count.checked_mul(3_600),
        Some("d") => count.checked_mul(86_400),
        _ => None,
    };
    // A hundred years are enough for everybody, and keep what is reckoned from it within the calendar.
    seconds.filter(|seconds| (1..=3_155_760_000).contains(seconds)).map(Duration::from_secs).ok_or_else(wrong)
}

/// An instant ahead: a day (to its end in UTC), an instant, or a length of time from now on.
///
/// # Errors
/// How to write it, or that it is over.
pub fn ahead(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at = match length(text) {
        Ok(length) => now.checked_add(length).map_err(|error| error.to_string())?,
        Err(_) => instant(text)
            .ok_or("write a day (2027-01-01), an instant (2027-01-01T12:00:00Z) or a length of time (90d)")?,
    };
    if at <= now { Err("that time is over".to_owned()) } else { Ok(at) }
}

/// An instant of the past for a query: a length of time ago as its instant; a day, an instant or seconds since 1970 as
/// they stand, which the gateway reads.
///
/// # Errors
/// How to write it.
pub fn back(text: &str, now: Timestamp) -> Result<String, String> {
    let ago = length(text).ok().and_then(|length| SignedDuration::try_from(length).ok());
    if let Some(instant) = ago.and_then(|ago| now.checked_sub(ago).ok()) {
        return Ok(rfc3339(instant));
    }
    let is_seconds = text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_seconds || instant(text).is_some() {
        return Ok(text.to_owned());
    }
    Err("write how long ago (2h, 7d), a day (2026-11-30) or an instant (2026-11-30T12:00:00Z)".to_owned())
}

/// As the admin API reads and writes it.
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

fn instant(text: &str) -> Option<Timestamp> {
    let day = || Some(text.parse::<Date>().ok()?.tomorrow().ok()?.in_tz("UTC").ok()?.timestamp());
    text.parse::<Timestamp>().ok().or_else(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn times_are_told_by_their_distance() {
        for (at, words) in [
            ("2026-11-30T11:59:58.250Z", "1 s ago"),
            ("2026-11-30T11:57:00.000Z", "3 min ago"),
            ("2026-11-29T11:57:00Z", "24 h ago"),
            ("2026-11-01T12:00:00Z", "29 days ago"),
            ("2026-11-30T13:30:00Z", "in 1 h"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(told(at, noon()), words, "{at}");
        }
    }

    #[test]
    fn an_end_is_written_as_a_day_an_instant_or_a_length_of_time() {
        let read = |text: &str| ahead(text, noon()).map(rfc3339);
        assert_eq!(read("90d").unwrap(), "2027-02-28T12:00:00.000Z");
        assert_eq!(read("2027-01-01").unwrap(), "2027-01-02T00:00:00.000Z", "that day is in it");
        assert_eq!(read("2026-11-30").unwrap(), "2026-12-01T00:00:00.000Z", "today is not over");
        assert_eq!(read("2027-01-01T08:00:00+08:00").unwrap(), "2027-01-01T00:00:00.000Z");
        assert_eq!(read("2026-11-29").unwrap_err(), "that time is over");
        for wrong in ["soon", "", "90", "0d", "-3d", "1e9d", "99999999999d", "2027-13-01"] {
            assert!(read(wrong).unwrap_err().contains("write"), "{wrong}");
        }
    }

    #[test]
    fn a_beginning_may_be_so_long_ago() {
        assert_eq!(back("2h", noon()).unwrap(), "2026-11-30T10:00:00.000Z");
        for said in ["2026-11-29", "2026-11-29T08:00:00+08:00", "1796000000"] {
            assert_eq!(back(said, noon()).unwrap(), said);
        }
        for wrong in ["7 days", "yesterday", "", "12", "2026-13-01"] {
            assert!(back(wrong, noon()).unwrap_err().contains("7d"), "{wrong}");
        }
    }
}
