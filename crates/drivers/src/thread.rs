//! A store's thread that writes, and whether it has ended.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A thread, as whoever closes its store knows it.
#[derive(Debug)]
pub(crate) struct Thread(Mutex<Receiver<Infallible>>);

impl Thread {
    /// Begins one.
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn begin(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, ended) = sync_channel(0);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Let go of also where the work panics.
            let _alive = alive;
            work();
        })?;
        Ok(Self(Mutex::new(ended)))
    }

    /// Waits until it has ended, and let go of what it held; true where that is so in time.
    pub fn has_ended(&self, patience: Duration) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_ended_once_its_work_is_done_and_not_before() {
        let (goes_on, waits) = sync_channel::<()>(0);
        let thread = Thread::begin("a-test", move || {
            let _ = waits.recv();
        })
        .unwrap();
        assert!(!thread.has_ended(Duration::ZERO));
        drop(goes_on);
        assert!(thread.has_ended(Duration::from_secs(10)));
        assert!(thread.has_ended(Duration::ZERO), "and stays so");
    }
}
