//! How long an upstream asks to be left alone.

use std::time::Duration;

use http::HeaderMap;

/// Reads, in this order: `retry-after-ms` (Azure, OpenAI), `retry-after` (RFC 9110, section
/// 10.2.3: seconds or a date; fractions are tolerated), and `x-ratelimit-reset*` (OpenAI, Groq,
/// Together). `wall` is the time since the Unix epoch. Nonsense (negative, no number, a date
/// gone by) is `None`; there is no upper bound.
#[must_use]
pub fn retry_after(headers: &HeaderMap, wall: Duration) -> Option<Duration> {
    if let Some(wait) = text(headers, "retry-after-ms").and_then(number) {
        return seconds(wait / 1000.0);
    }
    if let Some(value) = text(headers, "retry-after") {
        return match number(value) {
            Some(wait) => seconds(wait),
            None => date(value).and_then(|then| then.checked_sub(wall)),
        };
    }
    reset(headers, wall)
}

/// The resets of exhausted limits, the longest; where none is known to be exhausted, the shortest
/// reset of all: a rest that is too short costs one call, one that is too long many.
fn reset(headers: &HeaderMap, wall: Duration) -> Option<Duration> {
    let known = [
        ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
        ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
        ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ];
    let resets = || {
        known.iter().filter_map(|(reset, remaining)| {
            let wait = text(headers, reset).and_then(|value| reset_value(value, wall))?;
            Some((wait, text(headers, remaining) == Some("0")))
        })
    };
    let exhausted = resets().filter(|(_, is_exhausted)| *is_exhausted).map(|(wait, _)| wait).max();
    exhausted.or_else(|| resets().map(|(wait, _)| wait).min())
}

fn reset_value(value: &str, wall: Duration) -> Option<Duration> {
    match number(value) {
        // Points in time: OpenRouter writes milliseconds, others seconds since the epoch.
        Some(at) if at > 1e11 => seconds(at / 1000.0)?.checked_sub(wall),
        Some(at) if at > 1e9 => seconds(at)?.checked_sub(wall),
        Some(wait) => seconds(wait),
        None => duration(value),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// `12ms`, `1s`, `6m0s`, `1h2m3.5s`
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, behind) = rest.split_at_checked(digits)?;
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(letters)?;
        let unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total = total.checked_add(seconds(number(amount)? * unit)?)?;
        rest = behind;
    }
    (!text.is_empty()).then_some(total)
}

/// A date in any of the three forms of RFC 9110, section 5.6.7, as time since the epoch.
fn date(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let month = |text: &str| MONTHS.iter().position(|known| text.eq_ignore_ascii_case(known)).map(|at| at as u64 + 1);
    let parts: Vec<&str> = text.split([' ', '-', ',']).filter(|part| !part.is_empty()).take(8).collect();
    let (day, month, year, clock) = match parts.as_slice() {
        [_, day, name, year, clock, "GMT"] => (day, month(name)?, year, clock),
        [_, name, day, clock, year] => (day, month(name)?, year, clock),
        _ => return None,
    };
    let (day, year) = (day.parse::<u64>().ok()?, year.parse::<u64>().ok()?);
    // Two digits only in the obsolete form of RFC 850.
    let year = if year < 70 {
        year + 2000
    } else if year < 100 {
        year + 1900
    } else {
        year
    };
    let mut clock = clock.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1..=31).contains(&day) || !(1970..10_000).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(Duration::from_secs(((days(year, month, day)? * 24 + hour) * 60 + minute) * 60 + second))
}

/// Days since the epoch, by the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)
}
