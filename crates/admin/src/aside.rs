//! Work that takes long: on the whole configuration, over all series, or as long as a request's text is.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// So much goes on at a time of what viewers ask: the other blocking threads are for reloads and changes.
const LOOKS: usize = 2;
/// The same of what operators make. They have places of their own: whoever looks takes none of them.
const CHANGES: usize = 2;
/// Who has waited so long for a place is told to ask again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does such work beside the runtime that holds the port, so that it delays nobody else there.
#[derive(Clone, Debug)]
pub struct Aside {
    looks: Arc<Semaphore>,
    changes: Arc<Semaphore>,
    scrapes: Arc<Scrapes>,
}

/// Texts of all metrics, which are made one at a time.
#[derive(Debug)]
struct Scrapes {
    place: Arc<Semaphore>,
    /// How many were begun.
    begun: AtomicU64,
    /// The last one and its number, from 1.
    last: Mutex<(u64, Bytes)>,
}

impl Default for Aside {
    fn default() -> Self {
        Self::allowing(LOOKS)
    }
}

impl Aside {
    /// So much at a time of what viewers ask.
    #[must_use]
    pub fn allowing(looks: usize) -> Self {
        let places = |most| Arc::new(Semaphore::new(most));
        let scrapes = Scrapes { place: places(1), begun: AtomicU64::new(0), last: Mutex::default() };
        Self { looks: places(looks), changes: places(CHANGES), scrapes: Arc::new(scrapes) }
    }

    /// Work for whoever looks: also the writing of what it found, where that may be some megabytes.
    ///
    /// # Errors
    /// Where others' work has every place for long, and where the work panics.
    pub(crate) async fn look<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        run(&self.looks, work).await
    }

    /// The same for what a store is asked first: its answer, too, is held by so many at a time alone.
    ///
    /// # Errors
    /// As of [`Aside::look`], and what the store says.
    pub(crate) async fn look_into<A, T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
        &self,
        asked: impl Future<Output = Result<A, Error>>,
        work: impl FnOnce(A) -> W,
    ) -> Result<T, Error> {
        let place = place(&self.looks).await?;
        let work = work(asked.await?);
        beside(place, work).await
    }

    /// Work for whoever changes something.
    ///
    /// # Errors
    /// As of [`Aside::look`].
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        run(&self.changes, work).await
    }

    /// The text of all metrics. Everybody who waits meanwhile is told by the same next one, so that nobody
    /// waits for more than two of them, however many ask; and what is told is no older than the question.
    ///
    /// # Errors
    /// As of [`Aside::look`].
    pub(crate) async fn scrape(&self, work: impl FnOnce() -> Vec<u8> + Send + 'static) -> Result<Bytes, Error> {
        let scrapes = self.scrapes.clone();
        let before = scrapes.begun.load(SeqCst);
        let made = move || {
            let mut last = scrapes.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 <= before {
                // Counted before the work begins: what happens from here on may be missing in it.
                let number = scrapes.begun.fetch_add(1, SeqCst) + 1;
                *last = (number, work().into());
            }
            last.1.clone()
        };
        run(&self.scrapes.place, made).await
    }
}

async fn run<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    beside(place(places).await?, work).await
}

async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Error> {
    let place = tokio::time::timeout(PATIENCE, places.clone().acquire_owned()).await;
    // It is never closed.
    place.ok().and_then(Result::ok).ok_or(Error::Busy)
}

async fn beside<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        // Not before: whoever asked may have left.
        drop(place);
        done
    });
    working.await.map_err(|_| Error::Internal("this is a fault of the gateway; please report it".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn so_much_goes_on_at_a_time_also_where_who_asked_has_left() {
        let aside = Aside::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let (end, ends): (Vec<_>, Vec<_>) = (0..=LOOKS).map(|_| mpsc::sync_channel::<()>(1)).unzip();
        let mut asked = Vec::new();
        for ends in ends {
            let (aside, begun) = (aside.clone(), begun.clone());
            let work = move || {
                begun.fetch_add(1, SeqCst);
                let _ = ends.recv();
            };
            asked.push(tokio::spawn(async move { aside.look(work).await }));
            tokio::task::yield_now().await;
        }
        asked.iter().take(LOOKS).for_each(tokio::task::JoinHandle::abort);
        tokio::task::yield_now().await;
        assert_eq!(aside.looks.available_permits(), 0, "they go on");
        drop(end);
        asked.pop().unwrap().await.unwrap().unwrap();
        assert_eq!(begun.load(SeqCst), LOOKS + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_is_told_to_ask_again_and_takes_no_place_of_others() {
        let aside = Aside::default();
        let all = u32::try_from(LOOKS).unwrap();
        let _looks = aside.looks.clone().acquire_many_owned(all).await.unwrap();
        assert_eq!(aside.look(|| ()).await, Err(Error::Busy));
        let _scrape = aside.scrapes.place.clone().acquire_owned().await.unwrap();
        assert_eq!(aside.scrape(Vec::new).await, Err(Error::Busy));
        assert_eq!(aside.change(|| ()).await, Ok(()), "changes have places of their own");
    }

    #[tokio::test]
    async fn everybody_who_waits_for_a_scrape_is_told_by_the_same_next_one() {
        let aside = Aside::default();
        let made = Arc::new(AtomicUsize::new(0));
        let scrape = |end: Option<mpsc::Receiver<()>>| {
            let (aside, made) = (aside.clone(), made.clone());
            let work = move || {
                let number = made.fetch_add(1, SeqCst) + 1;
                end.map(|end| end.recv());
                vec![u8::try_from(number).unwrap()]
            };
            tokio::spawn(async move { aside.scrape(work).await.unwrap()[0] })
        };
        let (end, ends) = mpsc::sync_channel(1);
        let first = scrape(Some(ends));
        while made.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let later: Vec<_> = (0..50).map(|_| scrape(None)).collect();
        // Each of them has asked.
        tokio::task::yield_now().await;
        drop(end);
        assert_eq!(first.await.unwrap(), 1);
        for later in later {
            assert_eq!(later.await.unwrap(), 2, "of what is so since it asked");
        }
        assert_eq!(scrape(None).await.unwrap(), 3);
    }
}
