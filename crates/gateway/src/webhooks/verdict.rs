//! What the answer to a delivery means.

use std::time::Duration;

/// Tries of one message at most.
pub const TRIES: u32 = 8;

/// After the first try, and 2.5 times as long after each further one: 34 minutes altogether.
const FIRST_WAIT: Duration = Duration::from_secs(5);
const GROWTH: f64 = 2.5;

/// Nothing is tried later after its first try, whatever the receiver asks for.
const LONGEST: Duration = Duration::from_secs(3600);

/// A receiver that asks for more time is given so much, about our own longest wait: one that asks for hours loses no
/// event by that.
pub const LONGEST_ASKED: Duration = Duration::from_secs(1200);

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has it.
    Delivered,
    /// It is tried again after this wait.
    Again(Duration),
    /// The receiver does not want it: another try would be told the same.
    Refused,
    /// It was tried often or long enough.
    Expired,
}

impl Verdict {
    /// As the label `result` of metrics says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Again(_) => "retried",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

/// One try's end: the status, or none where there was no answer, and what `retry-after` asked for.
pub type Ended = (Option<u16>, Option<Duration>);

/// Judges the `tries`th try (from 1) of a message that was first tried `age` ago. `chance` is from 0 to 1.
pub fn verdict((status, asked): Ended, tries: u32, age: Duration, chance: f64) -> Verdict {
    match status {
        Some(200..300) => return Verdict::Delivered,
        // Another try may do better.
        None | Some(408 | 429 | 500..) => {}
        Some(_) => return Verdict::Refused,
    }
    let exponent = i32::try_from(tries).unwrap_or(i32::MAX).saturating_sub(1);
    // A fifth more or less, so that the messages of many gateways do not come together.
    let wait = FIRST_WAIT.as_secs_f64() * GROWTH.powi(exponent) * (0.8 + 0.4 * chance);
    let asked = asked.unwrap_or_default().min(LONGEST_ASKED).min(LONGEST.saturating_sub(age));
    let wait = Duration::try_from_secs_f64(wait).unwrap_or(LONGEST).max(asked);
    if tries >= TRIES || age.saturating_add(wait) > LONGEST { Verdict::Expired } else { Verdict::Again(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(status: Option<u16>) -> Verdict {
        verdict((status, None), 1, Duration::ZERO, 0.5)
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_is_refused_is_not() {
        for status in [200, 201, 202, 204] {
            assert_eq!(after(Some(status)), Verdict::Delivered);
        }
        for status in [None, Some(408), Some(429), Some(500), Some(502), Some(503), Some(599)] {
            assert_eq!(after(status), Verdict::Again(Duration::from_secs(5)), "{status:?}");
        }
        for status in [301, 302, 307, 308, 400, 401, 404, 410, 422] {
            assert_eq!(after(Some(status)), Verdict::Refused, "{status}");
        }
    }

    #[test]
    fn the_waits_grow_and_come_to_an_end() {
        let mut age = Duration::ZERO;
        let mut waits = Vec::new();
        for tries in 1.. {
            match verdict((None, None), tries, age, 0.5) {
                Verdict::Again(wait) => {
                    age += wait;
                    waits.push(wait.as_secs());
                }
                ended => {
                    assert_eq!((ended, tries), (Verdict::Expired, TRIES));
                    break;
                }
            }
        }
        assert_eq!(waits, [5, 12, 31, 78, 195, 488, 1220]);
        assert_eq!(age.as_secs() / 60, 33);
        let of = |chance| verdict((None, None), 1, Duration::ZERO, chance);
        assert_eq!(
            (of(0.0), of(1.0)),
            (Verdict::Again(Duration::from_secs(4)), Verdict::Again(Duration::from_secs(6)))
        );
    }

    #[test]
    fn a_receiver_may_ask_for_more_time_but_not_for_ever() {
        let asks = |seconds| verdict((Some(429), Some(Duration::from_secs(seconds))), 1, Duration::from_secs(60), 0.5);
        assert_eq!(asks(1), Verdict::Again(Duration::from_secs(5)));
        assert_eq!(asks(600), Verdict::Again(Duration::from_secs(600)));
        for hours in [3600, 86_400, u64::MAX] {
            assert_eq!(asks(hours), Verdict::Again(LONGEST_ASKED), "it is tried again within its life");
        }
        let late = |age, tries| verdict((Some(503), Some(Duration::MAX)), tries, Duration::from_secs(age), 0.5);
        assert_eq!(late(3000, 4), Verdict::Again(Duration::from_secs(600)), "at its end");
        assert_eq!((late(3600, 4), late(60, TRIES)), (Verdict::Expired, Verdict::Expired));
    }
}
