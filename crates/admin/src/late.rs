//! Rows of the audit log that their store has not taken yet.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Clock;
use gateway::live::Live;
use state::Objects;
use state::objects::Deed;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A store that did not take a row is asked again so soon at first, and so soon at last.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// A row that it has not taken for so long is given up.
const GIVE_UP: Duration = Duration::from_secs(600);
/// Rows that wait at most.
const MOST: usize = 256;

/// Those rows, each in a task that ends with it.
#[derive(Clone, Debug, Default)]
pub struct LateRows(Arc<Mutex<JoinSet<()>>>);

impl LateRows {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows().len()
    }

    /// Waits until there is none, at most so long.
    pub async fn written(&self, patience: Duration) {
        let written = async {
            while self.count() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(patience, written).await;
    }

    /// Those that are not written.
    fn rows(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while rows.try_join_next().is_some() {}
        rows
    }

    /// Writes a row, as soon as the store takes it, and tells when that is done or it is given up; `None` where too many
    /// wait already.
    pub(crate) fn write(
        &self,
        live: Arc<Live>,
        objects: Arc<dyn Objects>,
        deed: Deed,
    ) -> Option<oneshot::Receiver<()>> {
        let mut rows = self.rows();
        if rows.len() >= MOST {
            return None;
        }
        let (done, written) = oneshot::channel();
        rows.spawn(async move {
            write_down(&live, &*objects, deed).await;
            // Whoever pulled the lever may have been answered.
            let _ = done.send(());
        });
        Some(written)
    }
}

async fn write_down(live: &Live, objects: &dyn Objects, deed: Deed) {
    let (began, mut wait) = (Clock.now(), AGAIN.0);
    loop {
        let left = GIVE_UP.saturating_sub(Clock.now().saturating_duration_since(began));
        let writing = tokio::time::timeout(left, objects.change(Vec::new(), vec![deed.clone()]).into_future());
        let error = match writing.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.0,
            Err(_) => "the database does not answer".to_owned(),
        };
        if Clock.now().saturating_duration_since(began) + wait > GIVE_UP {
            live.metrics.audit_rows_lost.inc();
            let (by, action, object, after) = (&*deed.who, &*deed.action, &*deed.object, deed.after.as_deref());
            return tracing::warn!(by, action, object, after, "this is missing in the audit log: {error}");
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}
