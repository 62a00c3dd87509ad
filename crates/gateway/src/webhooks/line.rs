//! The messages that wait for one webhook.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use config::Webhook;
use tokio::sync::Notify;

use super::event::Message;
use super::verdict::{LONGEST_ASKED, Verdict};

/// Messages that wait for one webhook at most; the oldest go first.
const BOUND: usize = 1000;

/// A receiver that failed is left alone so long, whichever message is due.
const REST: Duration = Duration::from_secs(1);

/// One webhook as it is kept through reloads: what waits for it, and how it does.
#[derive(Debug)]
pub struct Line {
    /// As configured now.
    pub hook: ArcSwap<Webhook>,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    rests_until: Option<Instant>,
    trouble: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    message: Arc<Message>,
    due: Instant,
    tries: u32,
    /// When it was tried first.
    since: Option<Instant>,
}

/// What is to be done for a webhook.
#[derive(Debug)]
pub enum Next {
    /// This one is to be tried.
    Try(Arc<Message>),
    /// One will be, then.
    At(Instant),
    /// Nothing waits.
    Nothing,
}

/// How a webhook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its name.
    pub name: Arc<str>,
    /// Messages that wait.
    pub waiting: usize,
    /// Why the last try failed, where it did.
    pub trouble: Option<String>,
}

impl Line {
    /// One for which nothing waits.
    pub fn new(hook: Arc<Webhook>) -> Self {
        Self { hook: ArcSwap::new(hook), state: Mutex::default(), news: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message; gives back the oldest where it had to go for it.
    pub fn put(&self, message: Arc<Message>, now: Instant) -> Option<Arc<Message>> {
        let mut state = self.state();
        let dropped = if state.waiting.len() < BOUND { None } else { state.waiting.pop_front() };
        state.waiting.push_back(Waiting { message, due: now, tries: 0, since: None });
        drop(state);
        self.news.notify_one();
        dropped.map(|dropped| dropped.message)
    }

    /// Waits for something new.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// What is to be done now. Messages about one object keep their order: a breaker that is closed again
    /// must not be told to have opened afterwards.
    pub fn next(&self, now: Instant) -> Next {
        let state = self.state();
        let mut objects = HashSet::new();
        let first = state.waiting.iter().filter(|waiting| objects.insert(&waiting.message.object));
        let Some(next) = first.min_by_key(|waiting| waiting.due) else { return Next::Nothing };
        let due = state.rests_until.map_or(next.due, |until| until.max(next.due));
        if due <= now { Next::Try(next.message.clone()) } else { Next::At(due) }
    }

    /// A try of this message has ended: which one it was, and how long after the first. None where the message
    /// had to go for others meanwhile.
    pub fn tried(&self, message: &Arc<Message>, began: Instant, now: Instant) -> Option<(u32, Duration)> {
        let mut state = self.state();
        let waiting = state.waiting.iter_mut().find(|waiting| Arc::ptr_eq(&waiting.message, message))?;
        waiting.tries += 1;
        Some((waiting.tries, now.saturating_duration_since(*waiting.since.get_or_insert(began))))
    }

    /// Does what the verdict on a message says. True where the webhook is in trouble that it was not in before.
    pub fn settle(&self, message: &Arc<Message>, verdict: Verdict, why: &str, now: Instant) -> bool {
        let mut state = self.state();
        match verdict {
            Verdict::Again(wait) => {
                let found = state.waiting.iter_mut().find(|waiting| Arc::ptr_eq(&waiting.message, message));
                if let Some(waiting) = found {
                    waiting.due = now + wait;
                }
                // It may have asked for a longer rest just now.
                state.rests_until = state.rests_until.max(Some(now + REST));
            }
            _ => state.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.message, message)),
        }
        let was_in_trouble = state.trouble.is_some();
        state.trouble = (verdict != Verdict::Delivered).then(|| why.to_owned());
        !was_in_trouble && state.trouble.is_some()
    }

    /// The receiver asks to be left alone so long: [`LONGEST_ASKED`] at most is kept to.
    pub fn rest(&self, wait: Duration, now: Instant) {
        let mut state = self.state();
        state.rests_until = state.rests_until.max(Some(now + wait.min(LONGEST_ASKED)));
    }

    /// Nothing waits any more: what did.
    pub fn clear(&self) -> Vec<Arc<Message>> {
        self.state().waiting.drain(..).map(|waiting| waiting.message).collect()
    }

    /// How it does.
    pub fn shown(&self) -> Shown {
        let state = self.state();
        Shown { name: self.hook.load().name.clone(), waiting: state.waiting.len(), trouble: state.trouble.clone() }
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;
    use config::Source;

    use super::*;

    fn line() -> Line {
        let text = "webhooks: [{ url: 'http://hook/x', secret: s }]".to_owned();
        let source = Source::Text { name: "line.yaml".to_owned(), text };
        let loaded = config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap();
        Line::new(loaded.snapshot.webhooks[0].clone())
    }

    fn message(id: usize, object: usize) -> Arc<Message> {
        let object = object.to_string().into();
        Arc::new(Message { id: id.to_string(), kind: "breaker.opened", object, body: bytes::Bytes::new() })
    }

    fn next(line: &Line, now: Instant) -> String {
        match line.next(now) {
            Next::Try(message) => message.id.clone(),
            Next::At(due) => format!("in {} s", (due - now).as_secs()),
            Next::Nothing => "nothing".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_goes_where_there_is_no_room() {
        let (line, now) = (line(), Clock.now());
        let dropped: Vec<_> = (0..BOUND + 3).filter_map(|id| line.put(message(id, id), now)).collect();
        assert_eq!(dropped.iter().map(|message| &*message.id).collect::<Vec<_>>(), ["0", "1", "2"]);
        assert_eq!((line.shown().waiting, &*next(&line, now)), (BOUND, "3"));
        assert!(line.tried(&dropped[0], now, now).is_none(), "what becomes of it is nobody's concern");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_waits_holds_up_those_about_the_same_object_alone() {
        let (line, now) = (line(), Clock.now());
        let after = |seconds| now + Duration::from_secs(seconds);
        let first = message(1, 7);
        for one in [first.clone(), message(2, 7), message(3, 8)] {
            assert!(line.put(one, now).is_none());
        }
        assert_eq!(next(&line, now), "1");
        assert_eq!(line.tried(&first, now, now), Some((1, Duration::ZERO)));
        assert!(line.settle(&first, Verdict::Again(Duration::from_secs(5)), "status 500", now));
        assert!(!line.settle(&first, Verdict::Again(Duration::from_secs(5)), "status 500", now), "that is known");
        assert_eq!(next(&line, now), "in 1 s", "a receiver that fails is left alone for a moment");
        assert_eq!(next(&line, after(1)), "3");
        line.rest(Duration::from_secs(60), now);
        assert_eq!((&*next(&line, after(1)), &*next(&line, after(60))), ("in 59 s", "3"));
        line.settle(&first, Verdict::Delivered, "", after(60));
        assert_eq!((line.shown().trouble, &*next(&line, after(60))), (None, "2"));
        assert_eq!((line.clear().len(), &*next(&line, now)), (2, "nothing"));
    }
}
