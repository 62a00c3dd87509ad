//! One clock for all processes of a run, so that a time written by the upstream can be compared by the reader of a chunk.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock; the same in every process.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
