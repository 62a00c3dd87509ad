//! Questions that are asked seldom, each answered by a thread of its own that ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use state::{Answer, Unreadable};
use tokio::sync::oneshot;

/// Who asks one database.
#[derive(Debug)]
pub(crate) struct Asking {
    /// What its threads are called.
    name: &'static str,
    /// Questions at a time: each takes a thread.
    most: usize,
    under_way: Arc<AtomicUsize>,
}

impl Asking {
    pub fn named(name: &'static str, most: usize) -> Self {
        Self { name, most, under_way: Arc::default() }
    }

    /// Does something on a thread of its own, to its end, also where whoever asked has left.
    pub fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, Unreadable> + Send + 'static,
    ) -> Answer<Result<T, Unreadable>> {
        let place = Place(self.under_way.clone());
        if place.0.fetch_add(1, Ordering::Relaxed) >= self.most {
            return Answer::Ready(Err(Unreadable("too many such questions wait for the database already".to_owned())));
        }
        let (reply, answer) = oneshot::channel();
        let work = move || {
            let done = act();
            drop(place);
            // Whoever asked may have left.
            let _ = reply.send(done);
        };
        if let Err(error) = std::thread::Builder::new().name(self.name.to_owned()).spawn(work) {
            return Answer::Ready(Err(Unreadable(format!("no thread for the database: {error}"))));
        }
        Answer::Later(Box::pin(async move {
            let gone = || Unreadable("the thread for the database has ended; please report this".to_owned());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }))
    }
}

/// One of the questions that are under way.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
