//! How much work was done, counted where it is done: by this a test tells what grows faster than what it is given.
//!
//! Builds with debug assertions count; in others it costs nothing.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts one step of this thread: something looked at, compared or looked up.
#[inline]
pub fn count() {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + 1);
    }
}

/// The steps that this thread takes for some work.
pub fn of(work: impl FnOnce()) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
