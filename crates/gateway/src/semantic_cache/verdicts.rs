//! Verdicts in flight: whether two questions are the same, while another model is asked that. One call, for everybody who
//! waits for its word.
//!
//! A call is on its way while anybody waits for it; whoever leaves last ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Refusal;
use foldhash::HashMap;
use state::answers::Key;
use tokio::sync::watch;

use crate::cache::shared_call::{Awaited, SharedCall, WaitGuard};

/// What a call has come to.
#[derive(Clone, Debug)]
pub enum Word {
    /// Whether they are the same.
    Said(bool),
    /// Nothing was said.
    Refused {
        /// What its caller would be told.
        refusal: Arc<Refusal>,
        /// When the call would have been over at the latest.
        ends: Instant,
    },
    /// Its bearer went away.
    PassedOn,
}

#[derive(Debug)]
struct VerdictCall {
    shared_call: Arc<SharedCall>,
    /// When it is over at the latest.
    ends: Instant,
    word: watch::Sender<Option<Word>>,
    awaited: Awaited,
}

/// Every verdict in flight, by all that decides it: as many as calls under way wait for, at most.
#[derive(Debug, Default)]
pub struct Verdicts(Mutex<HashMap<Key, Arc<VerdictCall>>>);

impl Verdicts {
    fn under_way(&self) -> MutexGuard<'_, HashMap<Key, Arc<VerdictCall>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among those who wait for a verdict; and the call, where it is this one's to be made. `ends` is when that
    /// would be over, `allotted` how long a caller waits. `is_fresh` waits for nobody else's.
    pub fn attend(
        self: &Arc<Self>,
        key: Key,
        ends: Instant,
        allotted: Duration,
        is_fresh: bool,
    ) -> (Rider, Option<Bearer>) {
        let mut under_way = self.under_way();
        if let Some(there) = under_way.get(&key).filter(|there| !is_fresh && there.lasts(ends, allotted)) {
            return (Rider::new(there), None);
        }
        let (word, _) = watch::channel(None);
        let call = Arc::new(VerdictCall { shared_call: Arc::default(), ends, word, awaited: Awaited::default() });
        under_way.insert(key, call.clone());
        (Rider::new(&call), Some(Bearer { verdicts: self.clone(), key, call }))
    }

    /// Verdicts in flight.
    #[must_use]
    pub fn count(&self) -> usize {
        self.under_way().len()
    }
}

impl VerdictCall {
    /// Whether it goes on long enough for one whose own call would be over at `ends`. Who waits for a call that is over
    /// sooner may fail too soon: it gives up half of the time that it is `allotted` for that, and no more.
    fn lasts(&self, ends: Instant, allotted: Duration) -> bool {
        self.word.borrow().is_none() && self.ends + allotted / 2 >= ends
    }
}

/// Who brings a verdict. Dropped before that, it passes on whoever waits.
#[derive(Debug)]
pub struct Bearer {
    verdicts: Arc<Verdicts>,
    key: Key,
    call: Arc<VerdictCall>,
}

impl Bearer {
    /// Whom the call goes on for.
    #[must_use]
    pub fn shared_call(&self) -> Arc<SharedCall> {
        self.call.shared_call.clone()
    }

    /// Brings it.
    pub fn bring(self, said: Result<bool, Refusal>) {
        let ends = self.call.ends;
        self.end(said.map_or_else(|refusal| Word::Refused { refusal: Arc::new(refusal), ends }, Word::Said));
    }

    /// Only the first word counts.
    fn end(&self, word: Word) {
        self.call.word.send_if_modified(|there| {
            let is_first = there.is_none();
            there.get_or_insert(word);
            is_first
        });
    }
}

impl Drop for Bearer {
    fn drop(&mut self) {
        let mut under_way = self.verdicts.under_way();
        if under_way.get(&self.key).is_some_and(|there| Arc::ptr_eq(there, &self.call)) {
            under_way.remove(&self.key);
        }
        drop(under_way);
        self.end(Word::PassedOn);
    }
}

/// One who waits for a verdict.
#[derive(Debug)]
pub struct Rider {
    word: watch::Receiver<Option<Word>>,
    awaited: Awaited,
    _seat: WaitGuard,
}

impl Rider {
    fn new(call: &VerdictCall) -> Self {
        let (word, awaited) = (call.word.subscribe(), call.awaited.clone());
        Self { word, awaited, _seat: WaitGuard::take(&call.shared_call) }
    }

    /// What is waited for, also for when that is over.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        self.awaited.clone()
    }

    /// Waits for it.
    pub async fn word(&mut self) -> Word {
        let word = self.word.wait_for(Option::is_some).await.map(|word| word.clone());
        word.ok().flatten().unwrap_or(Word::PassedOn)
    }
}
