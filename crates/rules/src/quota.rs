//! Budgets of tokens and money: their periods, their warnings, what a call puts aside.

use std::sync::Arc;
use std::time::Duration;

use base::Period;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

#[cfg(test)]
mod tests;

/// `quota` of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Tokens in each period, read and written.
    pub tokens: Option<u64>,
    /// Money in each period, in billionths of the currency's unit.
    pub cost: Option<u64>,
    /// Of `cost`; what is paid in another one does not count.
    pub currency: Arc<str>,
    /// How long a period is.
    pub per: Per,
    /// Where periods begin at midnight.
    pub zone: Zone,
    /// Shares at which a warning is given, rising, above 0 and at most 1.
    pub warn: Vec<f64>,
}

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// From midnight to midnight.
    Day,
    /// From the midnight that begins a month's first day to the next one's.
    Month,
}

impl Per {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// A time zone of the IANA database, as this system has it, else as it was when the gateway was built.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    /// By its name, such as `Asia/Shanghai`; `None` where there is none of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// An instant, given in seconds since the Unix epoch, as people there write it, such as
    /// `2026-12-01T00:00:00+08:00`.
    #[must_use]
    pub fn shown(&self, at: u64) -> String {
        let at = timestamp(at).to_zoned_datetime(self.0.clone());
        at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }
}

/// The latest instant that has a date: the end of the year 9999, less a day for every time zone.
const LATEST: u64 = 253_402_200_000;

fn timestamp(seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds.min(LATEST)).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Terms {
    /// The period that an instant, given from the Unix epoch, is in. It begins at midnight of the zone's
    /// wall clock: where summer time skips midnight, at the first instant of the day; where the clock shows
    /// it twice, at the first of the two.
    #[must_use]
    pub fn period(&self, at: Duration) -> Period {
        let today = timestamp(at.as_secs()).to_zoned_datetime(self.zone.0.clone()).date();
        let (first, length): (Date, Span) = match self.per {
            Per::Day => (today, 1.day()),
            Per::Month => (today.first_of_month(), 1.month()),
        };
        let end = first.checked_add(length).map_or(u64::MAX, |next| self.begins(next));
        Period { start: self.begins(first), end }
    }

    /// When a day begins; nothing is before the Unix epoch.
    fn begins(&self, day: Date) -> u64 {
        let begins = day.to_zoned_datetime(self.zone.0.clone()).and_then(|midnight| midnight.start_of_day());
        begins.map_or(u64::MAX, |begins| u64::try_from(begins.timestamp().as_second()).unwrap_or_default())
    }
}

/// The warning shares that a sum has come to, and that are above the highest that was `told`. One call may come to several.
pub fn passed(shares: &[f64], limit: u64, sum: u64, told: f64) -> impl Iterator<Item = f64> {
    let used = share(sum, limit);
    shares.iter().copied().filter(move |share| *share > told && *share <= used)
}

/// Which share of a limit a sum is; 0 of no limit.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a share is a float")]
pub fn share(sum: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { sum as f64 / limit as f64 }
}

/// Tokens that an answer is guessed to have where the caller has not bounded it: a long one. Most answers
/// of chat models are of a few hundred.
pub const ANSWER_GUESS: u64 = 1_000;

/// Tokens of an answer that a call puts aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// It must be there, or the call is refused.
    pub least: u64,
    /// It is put aside where it is there.
    pub most: u64,
}

impl Answer {
    /// A caller's own bound must be there whole. A mere guess must not: it would refuse calls which may well
    /// fit, so that of a small budget nothing could be used at all.
    #[must_use]
    pub fn of(bound: Option<u64>) -> Self {
        match bound {
            Some(bound) => Self { least: bound, most: bound },
            None => Self { least: 0, most: ANSWER_GUESS },
        }
    }
}
