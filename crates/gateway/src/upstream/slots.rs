//! Places at upstreams: how many calls a provider has side by side, over all routes and workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::Clock;
use rules::knee::Knee;
use rules::queue::{Full, Load, QUEUE_BYTES};
use rules::shares::Priority;
use rules::slots::{Slots, Terms};
use tokio::sync::Notify;

/// The slots of one provider (its `concurrency`), and the calls that wait for one. Survives reloads.
#[derive(Debug)]
pub struct ProviderSlots {
    state: Mutex<State>,
}

/// The line of each priority is bounded by the queue's depth and by what the calls hold that wait in it.
#[derive(Debug)]
struct State {
    slots: Slots<Arc<str>, Arc<Waiter>>,
    /// What waits.
    waiting: Waiting,
    /// Of a provider whose number of places is found out.
    knee: Option<Knee>,
    /// How often that was begun anew.
    moves: u32,
    terms: Terms,
    /// Of the last call that joined the line.
    number: u64,
}

/// The calls in line at one provider.
#[derive(Debug, Default)]
struct Waiting {
    online: Load,
    batch: Load,
}

#[derive(Debug)]
struct Waiter {
    route: Arc<str>,
    /// The upstream's label.
    model: Arc<str>,
    /// Of its body, which waits with it.
    bytes: usize,
    /// A place was taken for it.
    is_granted: AtomicBool,
    news: Notify,
}

/// A place at a provider. Dropped, it is free again.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<ProviderSlots>,
    priority: Priority,
    /// The upstream's label.
    model: Arc<str>,
    began: Instant,
    /// No further call could have begun beside it.
    was_full: bool,
    is_answered: bool,
    /// Of the slots, when it was taken, or when the configuration was bound that the call has.
    moves: u32,
}

/// A call that is to wait in the line.
#[derive(Clone, Copy, Debug)]
pub struct Comer<'a> {
    /// In which of the lines it waits.
    pub priority: Priority,
    /// Whose call it is.
    pub client: &'a Arc<str>,
    /// The route that it is made on.
    pub route: &'a Arc<str>,
    /// The label of the upstream that it waits for.
    pub model: &'a Arc<str>,
    /// Bytes of its body, which waits with it.
    pub bytes: usize,
}

/// A place in the line. Dropped, it is free again, and so is the slot that was granted meanwhile.
#[derive(Debug)]
pub struct InLine {
    slots: Arc<ProviderSlots>,
    waiter: Arc<Waiter>,
    priority: Priority,
    client: Arc<str>,
    number: u64,
    is_over: bool,
}

impl State {
    fn settle(&mut self, is_shared: bool) {
        let limit = self.knee.as_ref().map_or(self.terms.max, Knee::limit);
        self.slots.resize(limit, is_shared);
    }

    /// Gives every place that is free to whoever has the next turn.
    fn give(&mut self, now: Instant) {
        if let Some(knee) = &self.knee {
            self.slots.resize(knee.limit(), self.slots.is_shared());
        }
        while let Some((priority, waiter)) = self.slots.give(now) {
            self.load(priority).leave(waiter.bytes);
            waiter.is_granted.store(true, SeqCst);
            waiter.news.notify_one();
        }
    }

    const fn load(&mut self, priority: Priority) -> &mut Load {
        match priority {
            Priority::Online => &mut self.waiting.online,
            Priority::Batch => &mut self.waiting.batch,
        }
    }
}

impl ProviderSlots {
    /// All places free.
    #[must_use]
    pub fn new(terms: Terms, is_shared: bool, now: Instant) -> Self {
        let knee = terms.adaptive.then(|| Knee::new(terms, now));
        let mut state = State {
            slots: Slots::new(terms.max, is_shared),
            waiting: Waiting::default(),
            knee,
            moves: 0,
            terms,
            number: 0,
        };
        state.settle(is_shared);
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reload has brought other terms. What was found out stays, and so do the places that are taken.
    pub(crate) fn comes_under(&self, terms: Terms, is_shared: bool, now: Instant) {
        let mut state = self.state();
        state.knee = match state.knee.take() {
            Some(mut knee) if terms.adaptive => {
                knee.comes_under(terms);
                Some(knee)
            }
            _ => terms.adaptive.then(|| Knee::new(terms, now)),
        };
        state.terms = terms;
        state.settle(is_shared);
        state.give(now);
    }

    /// The provider is reached elsewhere, or otherwise, from now on: how much it takes is to be found out anew.
    pub(crate) fn is_anothers(&self, now: Instant) {
        let mut state = self.state();
        state.knee = state.terms.adaptive.then(|| Knee::new(state.terms, now));
        state.moves = state.moves.wrapping_add(1);
        state.give(now);
    }

    /// How often what was found out has been begun anew.
    pub(crate) fn moves(&self) -> u32 {
        self.state().moves
    }

    /// A place for a call of the upstream with this label, if one is free and nobody waits for it.
    #[must_use]
    pub fn take(self: &Arc<Self>, priority: Priority, model: &Arc<str>, now: Instant) -> Option<Slot> {
        let mut state = self.state();
        state.slots.take(priority, model, now).then(|| self.slot(&state, priority, model, now))
    }

    fn slot(self: &Arc<Self>, state: &State, priority: Priority, model: &Arc<str>, now: Instant) -> Slot {
        let was_full = state.slots.is_full(model, now);
        let (slots, model, moves) = (self.clone(), model.clone(), state.moves);
        Slot { slots, priority, model, began: now, was_full, is_answered: false, moves }
    }

    /// A place for what is no caller's own, where half of the places are free even so.
    #[must_use]
    pub fn spare(self: &Arc<Self>, model: &Arc<str>, now: Instant) -> Option<Slot> {
        let (limit, in_use) = self.shown();
        if in_use.saturating_add(1).saturating_mul(2) > limit { None } else { self.take(Priority::Batch, model, now) }
    }

    /// Places that there are, and those that are taken.
    #[must_use]
    pub fn shown(&self) -> (u32, u32) {
        let state = self.state();
        (state.slots.limit(), state.slots.in_use())
    }

    /// Adds the calls that wait, by route and priority.
    pub fn add_depths(&self, depths: &mut BTreeMap<(Arc<str>, &'static str), usize>) {
        let state = self.state();
        for priority in Priority::ALL {
            for waiter in state.slots.in_line(priority) {
                *depths.entry((waiter.route.clone(), priority.as_str())).or_default() += 1;
            }
        }
    }

    /// A place in the line, if fewer than `depth` of the priority wait.
    ///
    /// # Errors
    /// [`Full`].
    pub fn join(self: &Arc<Self>, comer: Comer<'_>, depth: usize) -> Result<InLine, Full> {
        let Comer { priority, client, route, model, bytes } = comer;
        let mut state = self.state();
        state.load(priority).has_room(bytes, depth, QUEUE_BYTES)?;
        state.load(priority).join(bytes);
        state.number += 1;
        let number = state.number;
        let (route, is_granted) = (route.clone(), AtomicBool::new(false));
        let waiter = Arc::new(Waiter { route, model: model.clone(), bytes, is_granted, news: Notify::new() });
        state.slots.join(priority, (client, model), number, waiter.clone());
        // A place may have become free since it was asked for.
        state.give(Clock.now());
        drop(state);
        Ok(InLine { slots: self.clone(), waiter, priority, client: client.clone(), number, is_over: false })
    }
}

impl Slot {
    /// The call has ended well: how long it took says something about the upstream.
    pub fn succeeded(self, now: Instant) {
        self.tells(|knee| knee.ended(self.began, self.was_full, now));
    }

    /// The upstream has too much to do: it throttles, or does not answer in time.
    pub fn overloaded(&self, now: Instant) {
        self.tells(|knee| knee.overloaded(self.began, now));
    }

    /// What became of a call at another address says nothing of this one.
    fn tells(&self, what: impl FnOnce(&mut Knee)) {
        let mut state = self.slots.state();
        if state.moves == self.moves
            && let Some(knee) = &mut state.knee
        {
            what(knee);
        }
    }

    /// The upstream has begun to answer: the call goes on, and hangs no more.
    pub fn answered(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_answered, true) {
            let mut state = self.slots.state();
            state.slots.answered(&self.model);
            state.give(now);
        }
    }

    /// The same place, for one more try that begins now, of the upstream with this label.
    #[must_use]
    pub fn anew(mut self, model: &Arc<str>, now: Instant) -> Self {
        self.began = now;
        if self.model != *model {
            self.slots.state().slots.moves(&self.model, model, now);
            self.model = model.clone();
        }
        self
    }

    /// The same place, for a call whose configuration was bound after so many moves.
    #[must_use]
    pub(crate) const fn after(mut self, moves: u32) -> Self {
        self.moves = moves;
        self
    }

    /// Whether it is one of these places.
    #[must_use]
    pub fn is_at(&self, slots: &Arc<ProviderSlots>) -> bool {
        Arc::ptr_eq(&self.slots, slots)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.slots.ended(self.priority, &self.model, self.is_answered);
        state.give(Clock.now());
    }
}

impl InLine {
    /// Waits for a place, until `until` at the latest.
    pub async fn turn(mut self, until: Instant) -> Option<Slot> {
        let granted = async {
            while !self.waiter.is_granted.load(SeqCst) {
                self.waiter.news.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = granted => {}
            () = tokio::time::sleep_until(until.into()) => return None,
        }
        self.is_over = true;
        let state = self.slots.state();
        Some(self.slots.slot(&state, self.priority, &self.waiter.model, Clock.now()))
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.slots.state();
        match state.slots.leave(self.priority, &self.client, self.number) {
            Some(waiter) => state.load(self.priority).leave(waiter.bytes),
            // It had its turn just when it left.
            None => state.slots.ended(self.priority, &self.waiter.model, false),
        }
        // Those behind it may be of a priority that has room.
        state.give(Clock.now());
    }
}
