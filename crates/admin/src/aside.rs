//! Work that takes long: on the whole configuration, over all series, or as long as a request's text is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::Error;

/// So much of it goes on at a time: the other blocking threads are for reloads and changes.
const MOST: usize = 2;
/// Who has waited so long for a place is told to ask again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does such work beside the runtime that holds the port, so that it delays nobody else there.
#[derive(Clone, Debug)]
pub struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Aside {
    /// # Errors
    /// Where others' work has every place for long, and where the work panics.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let place = tokio::time::timeout(PATIENCE, self.0.clone().acquire_owned()).await;
        // It is never closed.
        let Ok(Ok(place)) = place else { return Err(Error::Busy) };
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            // Not before: whoever asked may have left.
            drop(place);
            done
        });
        working.await.map_err(|_| Error::Internal("this is a fault of the gateway; please report it".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn so_much_goes_on_at_a_time_also_where_who_asked_has_left() {
        let aside = Aside::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let (end, ends): (Vec<_>, Vec<_>) = (0..=MOST).map(|_| mpsc::sync_channel::<()>(1)).unzip();
        let mut asked = Vec::new();
        for ends in ends {
            let (aside, begun) = (aside.clone(), begun.clone());
            let work = move || {
                begun.fetch_add(1, SeqCst);
                let _ = ends.recv();
            };
            asked.push(tokio::spawn(async move { aside.run(work).await }));
            tokio::task::yield_now().await;
        }
        asked.iter().take(MOST).for_each(tokio::task::JoinHandle::abort);
        tokio::task::yield_now().await;
        assert_eq!(aside.0.available_permits(), 0, "they go on");
        drop(end);
        asked.pop().unwrap().await.unwrap().unwrap();
        assert_eq!(begun.load(SeqCst), MOST + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_is_told_to_ask_again() {
        let aside = Aside::default();
        let _taken = aside.0.clone().acquire_many_owned(u32::try_from(MOST).unwrap()).await.unwrap();
        assert_eq!(aside.run(|| ()).await, Err(Error::Busy));
    }
}
