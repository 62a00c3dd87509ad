//! Storms: seeded chance over hours of virtual time. A failing seed is named, and replays.

use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use base::Dice;
use mock::{At, How, Latency, Reply};

/// Runs a story to its end on a clock that jumps over every wait.
///
/// # Panics
/// Where the story does.
pub fn story<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread").block_on(story)
}

/// Runs one story for each seed, and names the seed that fails.
///
/// # Panics
/// Where a story does.
#[expect(clippy::print_stderr, reason = "the seed must be seen to be replayed")]
pub fn storms<F: Future<Output = ()>>(seeds: Range<u64>, tell: impl Fn(Storm) -> F) {
    for seed in seeds {
        let told = catch_unwind(AssertUnwindSafe(|| story(tell(Storm::seed(seed)))));
        if let Err(panic) = told {
            eprintln!("the storm of seed {seed} failed; replay it with storms({seed}..{})", seed + 1);
            resume_unwind(panic);
        }
    }
}

/// Chance of one seed.
#[derive(Debug)]
pub struct Storm {
    seed: u64,
    dice: Dice,
}

impl Storm {
    /// The storm of that seed.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self { seed, dice: Dice::loaded(seed) }
    }

    /// Dice of the same seed, for the gateway itself.
    #[must_use]
    pub fn dice(&self) -> Dice {
        Dice::loaded(self.seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// True with that probability.
    #[must_use]
    pub fn chance(&self, probability: f64) -> bool {
        self.dice.unit() < probability
    }

    /// A number in `range`; its start where it is empty.
    #[must_use]
    pub fn number(&self, range: Range<usize>) -> usize {
        range.start + self.dice.below(range.len())
    }

    /// A duration of so many milliseconds.
    #[must_use]
    pub fn ms(&self, range: Range<usize>) -> Duration {
        Duration::from_millis(self.number(range) as u64)
    }

    /// One of the items.
    ///
    /// # Panics
    /// Where there are none.
    pub fn one_of<'a, T>(&self, items: &'a [T]) -> &'a T {
        items.get(self.dice.below(items.len())).expect("something to choose from")
    }

    /// A reply as upstreams give them on a bad day: sound with probability `sound`, else any fault.
    #[must_use]
    pub fn reply(&self, sound: f64) -> Reply {
        let latency = Latency::Fixed(self.ms(0..400));
        let reply = if self.chance(sound) { Reply::default() } else { self.fault() };
        Reply { latency, every: Some(self.ms(1..50)), ..reply }
    }

    /// Any fault.
    #[must_use]
    pub fn fault(&self) -> Reply {
        let how = *self.one_of(&[How::Rst, How::Fin, How::Hang]);
        match self.number(0..10) {
            0 => Reply::status(500),
            1 => Reply::status(503).header("retry-after", "1"),
            2 => Reply::status(429).header("retry-after", "2"),
            3 => Reply::status(401),
            4 => Reply::status(400),
            5 => Reply::default().cut(At::Request, how),
            6 => Reply::default().cut(At::Head, how),
            7 => Reply::default().cut(At::Events(self.number(0..6)), how),
            8 => Reply::default().cut(At::Bytes(self.number(0..200)), how),
            _ => Reply::raw([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"no\": 1}".as_slice()]),
        }
    }
}
