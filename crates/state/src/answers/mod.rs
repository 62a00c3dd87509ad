//! Cached answers: what is asked of their store, and a single process's own.

mod key;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use key::{Key, NoKey};
pub use memory::InProcessAnswers;

use crate::{Answer, Trouble, Unreadable};

/// What kind of thing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An answer of chat or completions.
    Answer,
    /// An answer of rerank.
    Ranking,
    /// One text's vector.
    Vector,
    /// An answer kept for its `Idempotency-Key`.
    Replay,
    /// A question, for matching by meaning: for whoever reads it back after a restart, and nobody before. So it is kept
    /// where it survives one, and nowhere else.
    Question,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Answer, Self::Ranking, Self::Vector, Self::Replay, Self::Question];

    /// Its name, for operators.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Ranking => "ranking",
            Self::Vector => "vector",
            Self::Replay => "replay",
            Self::Question => "question",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its number, for stores: never changed once released.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Answer => 1,
            Self::Ranking => 2,
            Self::Vector => 3,
            Self::Replay => 4,
            Self::Question => 5,
        }
    }

    /// The kind of this number.
    #[must_use]
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// What one clock may be ahead of another, or of itself before it was set.
const AHEAD: Duration = Duration::from_secs(60);

/// One thing that is kept. Times are from the Unix epoch.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// What it is.
    pub kind: Kind,
    /// The configured name of the route that it came through.
    pub route: Arc<str>,
    /// The configured name of the client that it is kept for; `None` where the route's callers share it.
    pub client: Option<Arc<str>>,
    /// The version of the knowledge base that it was made with.
    pub kb_version: Option<Arc<str>>,
    /// When it was stored.
    pub stored: Duration,
    /// It is fresh until then. The asker judges that, not the store.
    pub expires: Duration,
    /// It may be of use until then, as a stale answer; never before `expires`. Past it the store drops it.
    pub keep_until: Duration,
    /// The thing itself, of which the store knows nothing. In memory of its own: a piece of a larger
    /// buffer would keep all of that.
    pub body: Box<[u8]>,
}

impl Stored {
    /// The body, without a copy.
    #[must_use]
    pub fn bytes(self: &Arc<Self>) -> Bytes {
        struct Body(Arc<Stored>);
        impl AsRef<[u8]> for Body {
            fn as_ref(&self) -> &[u8] {
                &self.0.body
            }
        }
        Bytes::from_owner(Body(self.clone()))
    }

    /// Whether it may be served as it is. What was stored in the future, by a clock that was ahead, may not: nobody
    /// knows how old it is, and by its own account it would be fresh for as long as the clock was ahead.
    #[must_use]
    pub fn is_fresh(&self, now: Duration) -> bool {
        now < self.expires && self.stored <= now.saturating_add(AHEAD)
    }

    /// The same for who serves nothing older than `ttl`, which may have become shorter since this was stored.
    #[must_use]
    pub fn is_fresh_within(&self, ttl: Duration, now: Duration) -> bool {
        self.is_fresh(now) && self.age(now) < ttl
    }

    /// How old it is; what was stored in the future, by a clock that was set back, is new.
    #[must_use]
    pub const fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.stored)
    }
}

impl fmt::Debug for Stored {
    /// Without the body, which is a caller's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({} of {}, {} bytes)", self.kind.as_str(), self.route, self.body.len())
    }
}

/// Which of the things that are kept. By default all of them; each name that is given narrows it down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Those of this route.
    pub route: Option<Arc<str>>,
    /// Those kept for this client; what a route's callers share is kept for nobody.
    pub client: Option<Arc<str>>,
    /// Those of this kind.
    pub kind: Option<Kind>,
}

impl Which {
    /// Whether something is one of them.
    #[must_use]
    pub fn has(&self, stored: &Stored) -> bool {
        self.covers(stored.kind, (&stored.route, stored.client.as_deref()))
    }

    /// Whether all of this kind are of them that this route has for this client, or with `None` for all of its callers.
    #[must_use]
    pub fn covers(&self, kind: Kind, (route, client): (&str, Option<&str>)) -> bool {
        self.route.as_ref().is_none_or(|wanted| **wanted == *route)
            && self.client.as_ref().is_none_or(|wanted| Some(&**wanted) == client)
            && self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// Some of what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In an order of the store's own.
    pub found: Vec<(Key, Arc<Stored>)>,
    /// Where the next page begins; `None` where this was the last.
    pub next: Option<u64>,
}

/// How much may be kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// In memory, with everything that the keeping itself takes.
    pub memory: u64,
    /// On disk; 0 keeps nothing there.
    pub disk: u64,
}

/// How one tier of a store does. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// Things that are kept.
    pub entries: u64,
    /// What they take.
    pub bytes: u64,
    /// What they may take.
    pub most: u64,
    /// Look-ups that found what they were for.
    pub hits: u64,
    /// Things that had to go for others.
    pub evicted: u64,
    /// Things that could not be taken: too large, or more at a time than could be written.
    pub refused: u64,
    /// Things that were found damaged, and dropped.
    pub damaged: u64,
    /// Things on their way into it.
    pub waiting: u64,
    /// What keeps it from its work, while something does.
    pub trouble: Option<Trouble>,
}

/// How a store does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Memory.
    pub memory: Tier,
    /// Disk, where there is one.
    pub disk: Option<Tier>,
}

/// How much is kept of one kind and route. What lies both in memory and on disk counts in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Of this kind.
    pub kind: Kind,
    /// Of this route.
    pub route: Arc<str>,
    /// Things in memory, and their bytes.
    pub memory: (u64, u64),
    /// Things on disk, and their bytes.
    pub disk: (u64, u64),
}

/// The store of cached answers.
///
/// It may forget anything at any time, and never gives back anything but what was put under that very
/// key. While what lies under it is out or slow it answers as if nothing were there. Nothing here ever makes
/// a call wait longer than it wants to.
pub trait Answers: fmt::Debug + Send + Sync {
    /// What was put under a key last, up to its `keep_until`; where that could not be taken, what was put before
    /// it. What is in memory, and what is known to be
    /// nowhere, is ready at once; give an answer that comes later a deadline.
    fn get(&self, key: &Key) -> Answer<Option<Arc<Stored>>>;

    /// The same, for whom a miss costs more than waiting: asked also of a store that does not answer soon. Give it
    /// a deadline all the more.
    fn get_patiently(&self, key: &Key) -> Answer<Option<Arc<Stored>>> {
        self.get(key)
    }

    /// What is at hand of what [`Answers::get`] would find: for whom that is not worth a question to a disk. It counts
    /// as no look-up.
    fn peek(&self, key: &Key) -> Option<Arc<Stored>>;

    /// What [`Answers::get`] finds under several keys, in their order.
    fn get_many(&self, keys: &[Key]) -> Answer<Vec<Option<Arc<Stored>>>>;

    /// Keeps something, in the place of what was under its key. Never waits: what cannot be taken is counted
    /// in [`Tier::refused`].
    fn put(&self, key: Key, stored: Arc<Stored>);

    /// Drops one thing; false where there was none. It is not given back any more as soon as this is called,
    /// and also not after a restart once the answer is here: that comes when the disk is back. An error says that
    /// too much waits for that already, and that it may be given back after all.
    fn remove(&self, key: &Key) -> Answer<Result<bool, Unreadable>>;

    /// Drops what was put before this was called, and says how much that was: each thing once. As with
    /// [`Answers::remove`].
    fn purge(&self, which: &Which) -> Answer<Result<u64, Unreadable>>;

    /// How much [`Answers::purge`] would drop: each thing once. Looks at everything; give an answer that comes later a
    /// deadline.
    fn count(&self, which: &Which) -> Answer<Result<u64, Unreadable>>;

    /// A page of what is kept on disk of a kind: the first, or the one that begins at [`Page::next`]. For those who build
    /// up at the start what they know of it. `None` while the disk is out, or has too much to do.
    fn scan(&self, kind: Kind, from: Option<u64>) -> Answer<Option<Page>>;

    /// How it does: cheap.
    fn stats(&self) -> Stats;

    /// What is kept, by kind and route: looks at everything, so not for every scrape.
    fn holdings(&self) -> Vec<Holding>;

    /// Other bounds hold from now on.
    fn bound(&self, bounds: Bounds);

    /// Writes what waits to be written, and returns when that is done or `patience` is over. Blocks: not for
    /// workers. True when nothing waits any more.
    fn flush(&self, patience: Duration) -> bool;

    /// The same, and lets go of everything it holds, such as files, which are whole then: what comes afterwards is lost. True
    /// when that is done within `patience`.
    fn close(&self, patience: Duration) -> bool {
        self.flush(patience)
    }
}
