//! How long a call goes on whose caller may leave while others wait for what it brings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::watch;

/// One call that others may depend on: it goes on while its own caller waits, or anybody else for something of it.
#[derive(Debug)]
pub struct SharedCall {
    /// Its caller has left.
    pub departed: Arc<AtomicBool>,
    waiting: watch::Sender<Waiting>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    has_departed: bool,
    /// Others who wait for something that it brings.
    riders: usize,
    /// What it has to see to its end, whoever waits.
    pledges: usize,
}

impl Waiting {
    const fn is_unwanted(self) -> bool {
        self.has_departed && self.riders == 0
    }
}

impl Default for SharedCall {
    fn default() -> Self {
        Self { departed: Arc::default(), waiting: watch::channel(Waiting::default()).0 }
    }
}

impl SharedCall {
    /// Ends when nobody waits any more.
    pub async fn unwanted(&self) {
        self.wait_for(Waiting::is_unwanted).await;
    }

    /// Whether nobody waits any more.
    #[must_use]
    pub fn is_unwanted(&self) -> bool {
        self.waiting.borrow().is_unwanted()
    }

    /// Ends when nobody waits any more, and nothing is left to be seen to its end.
    pub async fn abandoned(&self) {
        self.wait_for(|waiting| waiting.is_unwanted() && waiting.pledges == 0).await;
    }

    async fn wait_for(&self, has_come: impl Fn(Waiting) -> bool) {
        // Only where the sender is gone, which is held here, would this end for another reason.
        let _ = self.waiting.subscribe().wait_for(|waiting| has_come(*waiting)).await;
    }
}

/// The caller of a shared call, who waits for as long as this is held.
#[derive(Debug)]
pub struct CallerGuard(pub Arc<SharedCall>);

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.0.departed.store(true, Relaxed);
        self.0.waiting.send_modify(|waiting| waiting.has_departed = true);
    }
}

/// Somebody else who waits for something of a shared call.
#[derive(Debug)]
pub struct WaitGuard(Arc<SharedCall>);

impl WaitGuard {
    /// Takes one.
    #[must_use]
    pub fn take(shared_call: &Arc<SharedCall>) -> Self {
        shared_call.waiting.send_modify(|waiting| waiting.riders += 1);
        Self(shared_call.clone())
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| waiting.riders -= 1);
    }
}

/// Something that a shared call sees to its end, whoever waits.
#[derive(Debug)]
pub struct Pledge(Arc<SharedCall>);

impl Pledge {
    /// Makes one.
    #[must_use]
    pub fn make(shared_call: &Arc<SharedCall>) -> Self {
        shared_call.waiting.send_modify(|waiting| waiting.pledges += 1);
        Self(shared_call.clone())
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| waiting.pledges -= 1);
    }
}

/// Something that was waited for, also when that is over; it goes on no longer for that.
#[derive(Clone, Debug, Default)]
pub struct Awaited(Arc<AtomicBool>);

impl Awaited {
    /// True for the first who says that it has failed: that is one failure, however many have waited.
    #[must_use]
    pub fn is_first_to_tell(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }
}
