//! Keys of clients that were issued through the admin API: beside those of the configuration, for clients of files and
//! of the admin API alike.

mod new_key;
mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{KeyHasher, KeyId, ObjectKind};
use config::{Client, Snapshot};
use state::objects::{Change, Deed, Deeds, IssuedKey, Kept};
use state::{Answer, Objects, Trouble, Unreadable};
use tokio::task::JoinSet;

pub use new_key::{NewKey, NoChance};
pub use table::Shown;

use table::{HOUR, Table};

/// Keys at most: some 30 MB.
pub const MOST_KEYS: usize = 100_000;
/// When keys were used last is written down so often.
const WRITE_DOWN: Duration = Duration::from_secs(5 * 60);
/// How often it is found out how the store does.
const LOOK: Duration = Duration::from_secs(15);
/// A store that does not answer is given up after so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The issued keys in force. It stands before the store that keeps them, as one itself: whoever changes something there
/// has it in force when the answer comes.
#[derive(Clone, Debug)]
pub struct IssuedKeys(Arc<Keys>);

#[derive(Debug)]
struct Keys {
    store: Arc<dyn Objects>,
    hasher: KeyHasher,
    table: ArcSwap<Table>,
    /// What is being changed, one at a time, so that the table changes as the store does. Held by whoever asks.
    changing: tokio::sync::Mutex<JoinSet<Result<(), Unreadable>>>,
}

/// Why a key opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// It was never issued, or is revoked, or its client is gone.
    Unknown,
    /// Its time is over.
    Expired,
}

impl IssuedKeys {
    /// Those in a store, which were read from there already: whoever cannot read them does not start.
    pub(crate) fn new(store: Arc<dyn Objects>, read: Vec<IssuedKey>, hasher: KeyHasher) -> Self {
        let table = ArcSwap::from_pointee(Table::of(read, &hasher));
        Self(Arc::new(Keys { store, hasher, table, changing: tokio::sync::Mutex::default() }))
    }

    /// The client that a key belongs to, which is used now: `now` from the Unix epoch.
    ///
    /// # Errors
    /// Why it opens nothing.
    pub fn client<'a>(&self, snapshot: &'a Snapshot, key: &KeyId, now: Duration) -> Result<&'a Arc<Client>, Shut> {
        let table = self.0.table.load();
        let entry = table.get(key).ok_or(Shut::Unknown)?;
        let client = snapshot.client_named(&entry.client).ok_or(Shut::Unknown)?;
        if entry.expires.is_some_and(|expires| now >= expires) {
            return Err(Shut::Expired);
        }
        entry.is_used(now);
        Ok(client)
    }

    /// A client's keys, the oldest first. It looks at all keys: not for workers.
    #[must_use]
    pub fn of(&self, client: &str) -> Vec<Shown> {
        self.0.table.load().of_client(client)
    }

    /// How many each client has that has some.
    #[must_use]
    pub fn counts(&self) -> HashMap<Arc<str>, usize> {
        self.0.table.load().counts()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.table.load().len()
    }

    /// Writes down when keys were used last, where that is not written down yet.
    ///
    /// # Errors
    /// What keeps the store from it; it is tried again the next time.
    pub async fn write_down(&self) -> Result<(), Unreadable> {
        let unwritten = self.0.table.load().unwritten();
        if unwritten.is_empty() {
            return Ok(());
        }
        let used = unwritten.iter().map(|(entry, hour)| (entry.id.clone(), HOUR * *hour)).collect();
        self.0.store.used(used).await?;
        for (entry, hour) in unwritten {
            entry.written.fetch_max(hour, Relaxed);
        }
        Ok(())
    }

    /// Finds out every few seconds how the store does, for ever.
    pub async fn keep_looking(&self) {
        loop {
            // One that does not answer has not answered whoever asked something of it either.
            let _ = tokio::time::timeout(PATIENCE, self.0.store.look()).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Writes it down every few minutes, for ever.
    pub async fn keep_writing_down(&self) {
        let mut is_told = false;
        loop {
            tokio::time::sleep(WRITE_DOWN).await;
            match self.write_down().await {
                Ok(()) => is_told = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            "when keys were used last cannot be written down, which is tried again: {error}"
                        );
                    }
                }
            }
        }
    }

    /// What is kept has been changed.
    fn changed(&self, changes: &[Change]) {
        let is_of_keys = |change: &Change| match change {
            Change::Put(_) => false,
            Change::Remove(kind, _) => *kind == ObjectKind::Client,
            Change::Issue(_) | Change::Revoke(_) => true,
        };
        if changes.iter().any(is_of_keys) {
            let mut changed = Table::clone(&self.0.table.load());
            changes.iter().for_each(|change| changed.change(change, &self.0.hasher));
            self.0.table.store(Arc::new(changed));
        }
    }

    /// Whether there is room for the keys that these changes issue.
    fn room_for(&self, changes: &[Change]) -> Result<(), Unreadable> {
        let new = changes.iter().filter(|change| matches!(change, Change::Issue(_))).count();
        room(self.count(), new)
    }
}

/// Whether there is room for so many new keys beside those that are known.
fn room(known: usize, new: usize) -> Result<(), Unreadable> {
    if new > 0 && known + new > MOST_KEYS {
        let what = format!("there are {known} issued keys, and may be {MOST_KEYS} at most: revoke some first");
        return Err(Unreadable(what));
    }
    Ok(())
}

impl Objects for IssuedKeys {
    /// With everything that has begun before: what is being kept yet would be missing.
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        let this = self.clone();
        Answer::Later(Box::pin(async move {
            let mut changing = this.0.changing.lock().await;
            while changing.join_next().await.is_some() {}
            this.0.store.all().await
        }))
    }

    /// What has begun is brought to its end, also where whoever asked goes away.
    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        let this = self.clone();
        Answer::Later(Box::pin(async move {
            let mut changing = this.0.changing.lock().await;
            // What somebody began who has left.
            while changing.join_next().await.is_some() {}
            this.room_for(&changes)?;
            let keys = this.clone();
            changing.spawn(async move {
                keys.0.store.change(changes.clone(), deeds).await?;
                keys.changed(&changes);
                Ok(())
            });
            let lost = || Err(Unreadable("the change was lost; please report this".to_owned()));
            changing.join_next().await.and_then(Result::ok).unwrap_or_else(lost)
        }))
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        self.0.store.used(keys)
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        self.0.store.deeds(which)
    }

    fn health(&self) -> Option<Trouble> {
        self.0.store.health()
    }

    fn look(&self) -> Answer<()> {
        self.0.store.look()
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture as _;

    use state::InProcessObjects;
    use tokio::sync::watch;

    use super::*;

    /// A store whose changes take until they are let through.
    #[derive(Debug, Default)]
    struct Slow {
        objects: Arc<InProcessObjects>,
        is_through: watch::Sender<bool>,
    }

    impl Objects for Slow {
        fn all(&self) -> Answer<Result<Kept, Unreadable>> {
            self.objects.all()
        }

        fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
            let (objects, mut through) = (self.objects.clone(), self.is_through.subscribe());
            Answer::Later(Box::pin(async move {
                drop(through.wait_for(|is_through| *is_through).await);
                objects.change(changes, deeds).await
            }))
        }

        fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
            self.objects.used(keys)
        }

        fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
            self.objects.deeds(which)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_told_with_what_is_being_kept_yet() {
        let store = Arc::<Slow>::default();
        let keys = IssuedKeys::new(store.clone(), Vec::new(), KeyHasher::new(&[7; 64]));
        let object = base::Object {
            kind: ObjectKind::Client,
            name: "app".into(),
            written: base::Secret::new("{}"),
            revision: 1,
            changed: Duration::ZERO,
        };
        let second = Duration::from_secs(1);
        let change = keys.change(vec![Change::Put(object)], Vec::new()).into_future();
        assert!(tokio::time::timeout(second, change).await.is_err(), "whoever asked has left");
        assert!(tokio::time::timeout(second, keys.all().into_future()).await.is_err(), "it is not kept yet");
        store.is_through.send_replace(true);
        assert_eq!(keys.all().await.unwrap().objects.len(), 1);
    }

    #[test]
    fn there_are_so_many_keys_and_no_more() {
        assert_eq!(room(MOST_KEYS - 1, 1), Ok(()));
        assert!(room(MOST_KEYS, 1).is_err() && room(MOST_KEYS - 1, 2).is_err());
        assert_eq!(room(MOST_KEYS + 7, 0), Ok(()), "what takes keys back is always done");
    }
}
