//! What asks for a reload: a signal, and the change of a watched file.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::signal::unix::Signal;

use crate::configuration::Configuration;

/// Files are looked at this often: polling sees what inotify does not (network and overlay file
/// systems, the symlink swaps of Kubernetes) and costs a few system calls a second.
const LOOK: Duration = Duration::from_millis(100);
/// A change is read once it has been still for so long.
const STILL: Duration = Duration::from_millis(300);

impl Configuration {
    /// Reloads on SIGHUP and on changes of the watched files, for ever.
    pub async fn watch(&self, mut hangup: Signal) {
        let look = || {
            let this = self.clone();
            tokio::task::spawn_blocking(move || {
                let looks = this.watched().look();
                (this.watched().are(&looks), looks)
            })
        };
        let look = || async move { look().await.ok() };
        watch(|task| hangup.poll_recv(task), look, || async move { drop(self.reload().await) }).await;
    }
}

/// Reloads whenever somebody asks for it, and where looks have found for some time that something is not as it was read:
/// a look says whether it is, and what it saw. One that hangs, as on a disk that does not answer, keeps nobody from
/// asking.
async fn watch<L: PartialEq, Looking: Future<Output = Option<(bool, L)>>, Reloading: Future<Output = ()>>(
    mut asked: impl FnMut(&mut Context<'_>) -> Poll<Option<()>>,
    look: impl Fn() -> Looking,
    reload: impl Fn() -> Reloading,
) {
    let next_look = || async {
        tokio::time::sleep(LOOK).await;
        look().await
    };
    let mut looking = pin!(next_look());
    let (mut last, mut still_since) = (None, base::Clock.now());
    loop {
        tokio::select! {
            _ = poll_fn(&mut asked) => reload().await,
            seen = &mut looking => {
                looking.set(next_look());
                let Some((is_as_read, looks)) = seen else { continue };
                let now = base::Clock.now();
                if last.as_ref() != Some(&looks) {
                    last = Some(looks);
                    still_since = now;
                } else if now.duration_since(still_since) >= STILL && !is_as_read {
                    reload().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_read_once_it_has_been_still_however_many_have_come_before_it() {
        let (written, read) = (Cell::new(0), RefCell::new(vec![0]));
        let look = || std::future::ready(Some((read.borrow().last() == Some(&written.get()), written.get())));
        let reload = || {
            read.borrow_mut().push(written.get());
            std::future::ready(())
        };
        let writing = async {
            // Half of a file, and a moment later all of it.
            written.set(1);
            tokio::time::sleep(Duration::from_millis(250)).await;
            written.set(2);
            tokio::time::sleep(Duration::from_secs(1)).await;
            // A hundred changes in a second are one.
            for change in 3..=102 {
                written.set(change);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            () = watch(|_| Poll::Pending, look, reload) => {}
            () = writing => {}
        }
        assert_eq!(*read.borrow(), [0, 2, 102]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_keeps_nobody_from_asking_for_a_reload() {
        let (hangs_up, mut hangup) = mpsc::channel(1);
        let reloads = AtomicU32::new(0);
        let reload = || {
            reloads.fetch_add(1, Relaxed);
            std::future::ready(())
        };
        let watching = watch(|task| hangup.poll_recv(task), std::future::pending::<Option<(bool, ())>>, reload);
        let asking = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            hangs_up.send(()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            () = watching => {}
            () = asking => {}
        }
        assert_eq!(reloads.load(Relaxed), 1);
    }
}
