//! A waker that can be told to keep still.
//!
//! hyper passes bodies through a channel whose taking side wakes its giving side. Here both sides are
//! polled by one task, the taking side first and the giving side right after it, so that this wake
//! would only have the whole connection polled once more for nothing: a tenth of a short call's cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Passes wakes on to the task that polled last, but not while it is held still.
#[derive(Debug, Default)]
struct Inner {
    task: Mutex<Option<Waker>>,
    still: AtomicBool,
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.still.load(Ordering::Relaxed) {
            return;
        }
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            task.wake_by_ref();
        }
    }
}

/// A waker whose wakes can be held back for a moment.
#[derive(Clone, Debug)]
pub struct QuietWaker {
    inner: Arc<Inner>,
    waker: Waker,
}

impl Default for QuietWaker {
    fn default() -> Self {
        let inner = Arc::<Inner>::default();
        Self { waker: Waker::from(inner.clone()), inner }
    }
}

impl QuietWaker {
    /// Polls something whose wakes go through this waker to the task behind `cx`.
    pub fn through<R>(&self, cx: &Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let mut task = self.inner.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
        drop(task);
        poll(&mut Context::from_waker(&self.waker))
    }

    /// Does something during which wakes are not passed on: whoever does it looks for itself at what
    /// they would tell.
    pub fn held_still<R>(&self, act: impl FnOnce() -> R) -> R {
        self.inner.still.store(true, Ordering::Relaxed);
        let done = act();
        self.inner.still.store(false, Ordering::Relaxed);
        done
    }

    /// Wakes nobody, until something is polled through it again.
    pub fn forget(&self) {
        *self.inner.task.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Wakes the task.
    pub fn wake(&self) {
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_reach_the_task_that_polled_last_unless_held_still() {
        let (first, second) = (Arc::<Count>::default(), Arc::<Count>::default());
        let quiet_waker = QuietWaker::default();
        for task in [&first, &second] {
            let waker = Waker::from(task.clone());
            quiet_waker.through(&Context::from_waker(&waker), |_| {});
        }
        quiet_waker.held_still(|| quiet_waker.wake());
        assert_eq!(second.0.load(Ordering::Relaxed), 0);
        quiet_waker.wake();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
        quiet_waker.forget();
        quiet_waker.wake();
        assert_eq!(second.0.load(Ordering::Relaxed), 1);
    }
}
