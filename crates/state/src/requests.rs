//! Which request went where, and why: records of single requests, searched by operators.
//!
//! Records come many thousands a second and are read rarely, so nothing is made of them but [`block`]s: records one
//! behind the other, with what is needed to pass a block over unread.

pub mod block;
mod memory;
pub mod reading;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use base::{Record, TraceId, Truncated};

use crate::{Answer, Damage, Trouble, Unreadable};

pub use memory::InProcessRequests;
pub use writing::Writing;

/// A request as it is kept. Words are those of log and metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// When it arrived, from the Unix epoch.
    pub time: Duration,
    /// The caller's `x-request-id`, or ours; callers may give the same to several.
    pub request_id: Box<str>,
    /// The client's configured name.
    pub client: Option<Arc<str>>,
    /// The route's configured name.
    pub route: Option<Arc<str>>,
    /// The endpoint, as its path ends: `chat/completions`.
    pub endpoint: Option<Arc<str>>,
    /// The upstream that gave the answer.
    pub upstream: Option<Arc<str>>,
    /// The model's name there.
    pub model: Option<Arc<str>>,
    /// The HTTP status that the caller saw.
    pub status: u16,
    /// How it ended.
    pub outcome: Arc<str>,
    /// The error object's code.
    pub code: Option<Box<str>>,
    /// What its cache came to.
    pub cache: Option<Arc<str>>,
    /// Tokens read and written, where any were.
    pub tokens: Option<(u64, u64)>,
    /// What they cost, in billionths.
    pub cost: Option<u64>,
    /// Of this currency.
    pub currency: Option<Arc<str>>,
    /// From arrival to the last byte.
    pub took: Duration,
    /// The part of it not spent waiting for an upstream.
    pub overhead: Duration,
    /// Time spent in a queue.
    pub queued: Duration,
    /// From arrival to the first content of a stream.
    pub first_content: Option<Duration>,
    /// What the token budget left out of the prompt.
    pub truncated: Option<Truncated>,
    /// Why the answer was degraded.
    pub degraded: Option<Box<str>>,
    /// A stored answer to the same question in other words, and how near.
    pub matched: Option<(Box<str>, f32)>,
    /// The trace that it is part of.
    pub trace: Option<TraceId>,
    /// Every try, in order.
    pub attempts: Vec<Tried>,
    /// Every decision, in order.
    pub decisions: Vec<Step>,
}

/// One try.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    /// `provider/model` as configured.
    pub upstream: Arc<str>,
    /// How it ended.
    pub outcome: Arc<str>,
    /// The upstream's HTTP status.
    pub status: Option<u16>,
    /// When it began, from the request's arrival; of another request's try from that one's.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// It was made by another request, for this one too.
    pub is_anothers: bool,
    /// A drill has harmed it.
    pub is_drill: bool,
}

/// One decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// From the request's arrival.
    pub at: Duration,
    /// What was decided.
    pub what: Arc<str>,
    /// What else there is to say, by name.
    pub facts: Vec<(Arc<str>, Value)>,
}

/// A fact of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word or a name.
    Text(Arc<str>),
    /// A count.
    Number(u64),
    /// A length of time.
    Time(Duration),
    /// A ratio.
    Ratio(f32),
    /// Yes.
    Yes,
}

/// The text of a request and of its answer, without secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Whose: the request's id.
    pub request_id: Box<str>,
    /// When it arrived, from the Unix epoch.
    pub time: Duration,
    /// What the caller wrote.
    pub prompt: Box<str>,
    /// What it was answered.
    pub answer: Box<str>,
    /// Not all of it is here.
    pub is_cut: bool,
    /// The stored answer that came nearest to it by meaning, where one was looked for and found.
    pub near: Option<Box<Near>>,
}

/// A stored answer to a question like the one that was asked, whether it was served or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Near {
    /// What was asked, as questions are compared.
    pub question: Box<str>,
    /// The question that the stored answer was given to.
    pub known: Box<str>,
    /// That answer; empty where it was not at hand.
    pub answer: Box<str>,
    /// The cosine of both questions' vectors.
    pub similarity: f32,
    /// What has withheld the answer: a guard, `margin` or `verify`. `None` where it was served, or would have been.
    pub withheld: Option<Box<str>>,
}

/// Where in the order of requests one stands: a block, and a place in it. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The block.
    pub block: u64,
    /// Counted from 0.
    pub at: u32,
}

/// Which requests are asked for. They come in the order in which they ended, the last one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Of this id alone.
    pub request_id: Option<Box<str>>,
    /// Of this client alone.
    pub client: Option<Box<str>>,
    /// On this route alone.
    pub route: Option<Box<str>>,
    /// Answered or tried by this upstream.
    pub upstream: Option<Box<str>>,
    /// Ended so.
    pub outcome: Option<Box<str>>,
    /// Their cache came to this.
    pub cache: Option<Box<str>>,
    /// A stored answer to the same question was found, and by `shadow` not served.
    pub is_shadow: bool,
    /// Of these statuses, from the first to the last.
    pub status: Option<(u16, u16)>,
    /// Arrived at this time or later, from the Unix epoch.
    pub since: Option<Duration>,
    /// Arrived before this time, from the Unix epoch.
    pub until: Option<Duration>,
    /// So many at most.
    pub limit: usize,
    /// Those that ended before this one.
    pub after: Option<Place>,
}

/// Some of the requests that were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The last one first.
    pub requests: Vec<Request>,
    /// Where to go on; `None` where there are no more. A page may have few requests, or none, and yet not be the
    /// last: a search is cut where it takes long.
    pub next: Option<Place>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For how long.
    pub keep: Duration,
    /// Bytes on disk at most, of records, and as many again of contents.
    pub size: u64,
    /// Whether contents are kept; where not, those that were are dropped.
    pub contents: bool,
}

/// How the records do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What keeps them from being written, while something does.
    pub trouble: Option<Trouble>,
    /// Records that are in memory alone.
    pub waiting: u64,
    /// Contents that are in memory alone.
    pub contents_waiting: u64,
    /// Records that were lost since the start, because memory for them was full or the disk refused them.
    pub lost: u64,
    /// The same of contents.
    pub contents_lost: u64,
    /// What befell the file of records last, where something has.
    pub damage: Option<Damage>,
    /// The same of contents.
    pub contents_damage: Option<Damage>,
}

/// Where records are kept. While the store is out they wait in bounded memory; what no longer fits is lost, and
/// counted. Nothing here makes a call wait.
pub trait Requests: std::fmt::Debug + Send + Sync {
    /// Keeps records. Never waits for a store, and never fails: see [`Health`].
    fn note(&self, records: &[Record]);

    /// Keeps texts, under the ids of their requests. Never waits and never fails either.
    fn keep(&self, contents: Vec<Content>);

    /// The request of this id that ended last. Give an answer that comes later a deadline.
    fn find(&self, request_id: &str) -> Answer<Result<Option<Box<Request>>, Unreadable>>;

    /// The text of the request of this id that ended last, of those that have one.
    fn content(&self, request_id: &str) -> Answer<Result<Option<Content>, Unreadable>>;

    /// Requests, a page at a time; also those noted just now.
    fn search(&self, search: Search) -> Answer<Result<Page, Unreadable>>;

    /// Keeps so much from now on.
    fn bound(&self, bounds: Bounds);

    /// How they do.
    fn health(&self) -> Health;

    /// Writes everything noted so far, and returns when that is done or `patience` is over. Blocks: not for
    /// workers. True when nothing is left in memory alone.
    fn flush(&self, patience: Duration) -> bool;

    /// The same, and lets go of everything it holds, such as files, which are whole then: what comes afterwards is lost. True
    /// when that is done within `patience`.
    fn close(&self, patience: Duration) -> bool {
        self.flush(patience)
    }
}
