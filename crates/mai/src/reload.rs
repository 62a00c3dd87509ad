//! What asks for a reload: a signal, and the change of a watched file.

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
        let watched = self.watched();
        let mut last = watched.look();
        // A disk that does not answer holds up the look at it, and nothing else.
        let look = || {
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.watched().look())
        };
        let mut still_since = base::Clock.now();
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = hangup.recv() => drop(self.reload().await),
                _ = tick.tick() => {
                    let Ok(looks) = look().await else { continue };
                    let now = base::Clock.now();
                    if looks != last {
                        last = looks;
                        still_since = now;
                    } else if now.duration_since(still_since) >= STILL && !watched.are(&looks) {
                        drop(self.reload().await);
                    }
                }
            }
        }
    }
}
