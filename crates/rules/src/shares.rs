//! Who passes whom where places are scarce: `online` goes before `batch`, and `batch` keeps a tenth.

use std::time::{Duration, Instant};

/// `priority` of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits for the answer: passes `batch` wherever a place is scarce.
    #[default]
    Online,
    /// May wait.
    Batch,
}

impl Priority {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Online, Self::Batch];

    /// As configuration, metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Batch => "batch",
        }
    }
}

/// Of so many places one is for batch calls that wait.
pub(crate) const BATCH_ONE_IN: u32 = 10;
/// The same as a share: batch's part of what flows into a bucket.
pub(crate) const BATCH_SHARE: f64 = 0.1;

/// Calls in flight, as places are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Of both priorities.
    pub all: u32,
    /// Of batch alone.
    pub batch: u32,
}

impl InFlight {
    /// None.
    pub const NONE: Self = Self { all: 0, batch: 0 };

    /// A call has begun.
    pub const fn begin(&mut self, priority: Priority) {
        self.all = self.all.saturating_add(1);
        if matches!(priority, Priority::Batch) {
            self.batch = self.batch.saturating_add(1);
        }
    }

    /// A call has ended.
    pub const fn end(&mut self, priority: Priority) {
        self.all = self.all.saturating_sub(1);
        if matches!(priority, Priority::Batch) {
            self.batch = self.batch.saturating_sub(1);
        }
    }
}

/// Places that batch calls leave free for online ones, where both come.
#[must_use]
pub const fn spared(most: u32) -> u32 {
    if most < 2 { 0 } else { most.div_ceil(BATCH_ONE_IN) }
}

/// Who has had the places of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Places given to online calls while a batch call waited, since the last one that batch was given.
    passed: u32,
}

impl Shares {
    /// Whether the next of `most` places is for a batch call that waits: batch calls hold less than a tenth of them,
    /// or nine others have passed it. Where they hold a tenth nothing more is due to them, however long they keep it.
    #[must_use]
    pub fn is_batch_due(&self, batch_holds: u32, most: u32) -> bool {
        batch_holds < most / BATCH_ONE_IN
            || (self.passed + 1 >= BATCH_ONE_IN && batch_holds < most.div_ceil(BATCH_ONE_IN))
    }

    /// A place was given.
    pub fn granted(&mut self, priority: Priority, batch_waits: bool) {
        self.passed = match priority {
            Priority::Online => self.passed.saturating_add(u32::from(batch_waits)),
            Priority::Batch => 0,
        };
    }
}

/// How hard online calls press on a limit that batch comes to as well: how many tenths of it batch leaves to them.
///
/// One without pressure. Each online call that is refused doubles them, up to all ten; then batch has only what is due
/// to it. While none is refused they grow fewer again. So batch uses what is spare, and learns how much that is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// When a call was refused last, and the tenths since then.
    refused: Option<(Instant, f64)>,
}

/// Half of the pressure is gone after so long.
const HALF: Duration = Duration::from_secs(2);

impl Pressure {
    /// An online call was refused.
    pub fn refused(&mut self, now: Instant) {
        let tenths = (self.tenths(now) * 2.0).min(f64::from(BATCH_ONE_IN));
        self.refused = Some((now, tenths));
    }

    /// What batch leaves to online: 1 to 10.
    #[must_use]
    pub fn tenths(&self, now: Instant) -> f64 {
        let Some((at, tenths)) = self.refused else { return 1.0 };
        let halves = now.saturating_duration_since(at).as_secs_f64() / HALF.as_secs_f64();
        (tenths * (-halves).exp2()).max(1.0)
    }

    /// How long it lasts if no other call is refused.
    #[must_use]
    pub fn lasts(&self, now: Instant) -> Duration {
        HALF.mul_f64(self.tenths(now).log2())
    }

    /// Of so many places those that batch leaves free. One it may always take that nobody else holds, but the only one.
    #[must_use]
    pub fn spares(&self, most: u32, now: Instant) -> u32 {
        let tenths = self.tenths(now);
        if tenths <= 1.0 {
            return spared(most);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no more than the places")]
        let spared = (f64::from(most) / f64::from(BATCH_ONE_IN) * tenths).ceil() as u32;
        spared.min(most.saturating_sub(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here depends on which")]
    fn pressure_doubles_with_each_refusal_up_to_all_ten_tenths_and_is_over_soon() {
        let now = Instant::now();
        let mut pressure = Pressure::default();
        assert_eq!((pressure.tenths(now), pressure.spares(20, now)), (1.0, 2));
        pressure.refused(now);
        assert_eq!((pressure.tenths(now), pressure.spares(20, now)), (2.0, 4));
        (0..5).for_each(|_| pressure.refused(now));
        assert_eq!((pressure.tenths(now), pressure.spares(20, now)), (10.0, 19));
        assert_eq!(pressure.tenths(now + HALF), 5.0);
        let over = now + pressure.lasts(now);
        assert!((6.0..7.0).contains(&(over - now).as_secs_f64()));
        assert_eq!((pressure.spares(20, over + HALF), pressure.lasts(over + HALF)), (2, Duration::ZERO));
    }
}
