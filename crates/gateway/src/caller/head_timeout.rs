//! How long a caller's connection may stay without the head of a request: one clock for a connection.
//!
//! hyper sets a timer for every head that it waits for, and drops it once the head is there: on a busy
//! connection one for each request, none of which ever rings. Here such a timer only writes down until
//! when it waits, and the connection's one clock looks at that when it rings.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base::Clock;

/// What hyper's timer and the connection's clock tell each other.
#[derive(Debug, Default)]
struct Note {
    /// Until when a head is waited for; none while a request runs.
    until: Mutex<Option<Instant>>,
    /// That moment has passed.
    is_over: AtomicBool,
}

impl Note {
    fn write(&self, until: Option<Instant>) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn read(&self) -> Option<Instant> {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's patience.
#[derive(Debug)]
pub struct HeadTimeout {
    clock: Clock,
    long: Duration,
    note: Arc<Note>,
    /// None until the first look.
    bell: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl HeadTimeout {
    /// For heads that may take so long.
    #[must_use]
    pub fn of(clock: Clock, long: Duration) -> Self {
        Self { clock, long, note: Arc::default(), bell: None }
    }

    /// The timer for hyper's `header_read_timeout`.
    #[must_use]
    pub fn timer(&self) -> HeadTimer {
        HeadTimer { clock: self.clock, note: self.note.clone() }
    }

    /// Whether it has run out, so that the connection is to be polled once more: hyper then finds its
    /// timer run down. Else the task is woken when there is something to look at again.
    pub fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(bell) = &self.bell
            && !bell.is_elapsed()
        {
            // It has this task's waker since it was last set.
            return false;
        }
        let long = self.long;
        let bell = self.bell.get_or_insert_with(|| Box::pin(tokio::time::sleep(long)));
        while bell.as_mut().poll(cx).is_ready() {
            let now = self.clock.now();
            let until = self.note.read();
            if until.is_some_and(|until| until <= now) {
                self.note.is_over.store(true, Ordering::Relaxed);
                return true;
            }
            bell.as_mut().reset(until.unwrap_or(now + long).into());
        }
        false
    }
}

/// hyper's timer for heads, which only takes a note.
#[derive(Clone, Debug)]
pub struct HeadTimer {
    clock: Clock,
    note: Arc<Note>,
}

impl hyper::rt::Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep_until(self.clock.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.note.write(Some(deadline));
        Box::pin(HeadSleep(self.note.clone()))
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn reset(&self, _: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        self.note.write(Some(deadline));
    }
}

/// The wait for one head. It wakes nobody: the connection's clock does.
struct HeadSleep(Arc<Note>);

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.is_over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl hyper::rt::Sleep for HeadSleep {}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        // The head is there.
        self.0.write(None);
    }
}

#[cfg(test)]
mod tests {
    use hyper::rt::Timer as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(90);

    async fn over(mut patience: HeadTimeout) -> Duration {
        let began = Clock.now();
        std::future::poll_fn(|cx| if patience.is_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        Clock.now().duration_since(began)
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_out_where_no_head_comes() {
        let patience = HeadTimeout::of(Clock, LONG);
        let mut head = patience.timer().sleep_until(Clock.now() + LONG);
        assert_eq!(over(patience).await.as_secs(), 90);
        head.as_mut().await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_has_all_of_it_and_a_running_request_has_no_end() {
        let patience = HeadTimeout::of(Clock, LONG);
        let timer = patience.timer();
        let mut head = Some(timer.sleep_until(Clock.now() + LONG));
        let story = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            head = None;
            tokio::time::sleep(Duration::from_secs(1000)).await;
            head = Some(timer.sleep_until(Clock.now() + LONG));
        };
        let (took, ()) = tokio::join!(over(patience), story);
        assert!(head.is_some());
        assert_eq!(took.as_secs(), 60 + 1000 + 90);
    }
}
