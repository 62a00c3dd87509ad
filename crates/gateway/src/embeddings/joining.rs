//! Small calls that arrive together, and go upstream as one.
//!
//! The first of a joint call leads it: it waits a moment for others, asks for all of them, and tells each what has come
//! of it. Who may be of one joint call differs in nothing but the inputs.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Attempt, Refusal, Usage};
use config::Upstream;
use dialect::embeddings::{self, Encoding};
use dialect::{Answer, Ask, View};
use foldhash::HashMap;
use http::HeaderValue;
use state::answers::Key;
use tokio::sync::{Notify, oneshot};

use crate::cache::flights::Passenger;
use crate::cache::shared_call::{SharedCall, WaitGuard};
use crate::embeddings::Carrier;

/// The body of a call that is small.
pub const SMALL: usize = 256 << 10;
/// The bodies of one joint call.
const MOST_BYTES: usize = 1 << 20;

/// Joint calls that others may still join, by what their calls have in common: no more than calls that wait.
#[derive(Debug, Default)]
pub struct JointCalls(Mutex<HashMap<Key, Arc<JointCall>>>);

/// Small calls that go upstream as one, while others may still join.
#[derive(Debug)]
struct JointCall {
    leader: Passenger,
    shared_call: Arc<SharedCall>,
    members: Mutex<Members>,
    full: Notify,
}

#[derive(Debug)]
struct Members {
    is_open: bool,
    inputs: usize,
    bytes: usize,
    each: Vec<Member>,
}

/// One who has joined.
#[derive(Debug)]
pub struct Member {
    /// What it asks.
    pub ask: Ask,
    /// Told what has come of it. Dropped, it goes by itself.
    pub word: oneshot::Sender<Word>,
}

/// What the members of a joint call are told.
#[derive(Clone, Debug)]
pub enum Word {
    /// The answer, and which piece of it is the member's.
    Answered(Arc<Joined>, usize),
    /// No upstream has answered.
    Refused(Arc<Refusal>, Arc<[Attempt]>),
    /// An upstream has refused what was asked, which may be another's fault: each goes by itself.
    Apart(Arc<[Attempt]>),
}

/// The answer to a joint call, and whose is what of it.
#[derive(Debug)]
pub struct Joined {
    /// The call and its answer.
    pub merged: Merged,
    /// Of the inputs and of the tokens, by member; the leader first.
    shares: Vec<(Range<usize>, Usage)>,
}

/// A joint call as it went upstream, and what came of it.
#[derive(Debug)]
pub struct Merged {
    /// What was asked.
    pub ask: Ask,
    /// The answer.
    pub answer: Answer,
    /// The upstream that gave it.
    pub upstream: Arc<Upstream>,
    /// That upstream's label, as a header shows it.
    pub shown: HeaderValue,
    /// The tries that it took.
    pub attempts: Arc<[Attempt]>,
}

impl Joined {
    /// An answer to calls that went as one; what it used is shared out by the size of their inputs.
    #[must_use]
    pub fn new(asks: &[&Ask], merged: Merged) -> Self {
        let used = merged.ask.used(&merged.answer, &merged.upstream.sent);
        let tokens = embeddings::shares(asks, used.prompt);
        let mut first = 0;
        let share = |(ask, prompt): (&&Ask, u64)| {
            let range = first..first + inputs(ask);
            first = range.end;
            (range, Usage { prompt, completion: 0, cached: 0, units: 0, estimated: used.estimated })
        };
        let shares = asks.iter().zip(tokens).map(share).collect();
        Self { merged, shares }
    }

    /// What one member has used of it.
    #[must_use]
    pub fn used(&self, member: usize) -> Option<Usage> {
        self.shares.get(member).map(|(_, usage)| *usage)
    }

    /// What is one member's, in the encoding that it asked for.
    #[must_use]
    pub fn piece(&self, member: usize, ask: &Ask) -> Option<Answer> {
        let View::Embeddings(view) = &ask.view else { return None };
        let encoding = if view.encoding == Encoding::Base64 { Encoding::Base64 } else { Encoding::Float };
        let (range, usage) = self.shares.get(member)?.clone();
        let piece = embeddings::piece(&self.merged.ask, &self.merged.answer, range, encoding, Some(usage))?;
        Some(Answer { usage: Some(usage), ..piece })
    }
}

fn inputs(ask: &Ask) -> usize {
    match &ask.view {
        View::Embeddings(view) => view.inputs,
        _ => 0,
    }
}

/// What joining comes to.
#[derive(Debug)]
pub enum Place<'a> {
    /// Nobody is there: the call leads.
    Leads(Lead<'a>),
    /// Somebody is.
    Follows(Follower),
}

/// The lead of a joint call. Dropped before its members have been told anything, they go by themselves.
#[derive(Debug)]
pub struct Lead<'a> {
    joint_calls: &'a JointCalls,
    key: Key,
    joint_call: Arc<JointCall>,
}

/// One who waits for its joint call.
#[derive(Debug)]
pub struct Follower {
    /// What has come of it; an error where the leader is gone.
    pub word: oneshot::Receiver<Word>,
    /// Held while somebody waits.
    pub seat: Option<WaitGuard>,
    /// The caller who leads it.
    pub leader: Passenger,
}

impl JointCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<JointCall>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the joint call of this key, or begins one, of at most so many inputs.
    pub fn join(&self, key: Key, ask: &Ask, most: usize, carrier: Carrier<'_>) -> Place<'_> {
        let (count, bytes) = (inputs(ask), ask.body.len());
        let mut open = self.lock();
        if let Some(joint_call) = open.get(&key).cloned() {
            let mut members = joint_call.lock();
            if members.is_open && members.inputs + count <= most && members.bytes + bytes <= MOST_BYTES {
                members.inputs += count;
                members.bytes += bytes;
                let (word, told) = oneshot::channel();
                members.each.push(Member { ask: ask.clone(), word });
                if members.inputs == most {
                    open.remove(&key);
                    joint_call.full.notify_one();
                }
                let seat = Some(WaitGuard::take(&joint_call.shared_call));
                return Place::Follows(Follower { word: told, seat, leader: joint_call.leader.clone() });
            }
            // There is no room for this one: those who have come so far go now.
            joint_call.full.notify_one();
        }
        let members = Members { is_open: true, inputs: count, bytes, each: Vec::new() };
        let joint_call = Arc::new(JointCall {
            leader: carrier.passenger.clone(),
            shared_call: carrier.shared_call.clone(),
            members: Mutex::new(members),
            full: Notify::new(),
        });
        open.insert(key, joint_call.clone());
        Place::Leads(Lead { joint_calls: self, key, joint_call })
    }

    /// Joint calls that wait for others.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }
}

impl JointCall {
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead<'_> {
    /// Ends when no more can join.
    pub async fn full(&self) {
        self.joint_call.full.notified().await;
    }

    /// Nobody joins any more; these have.
    #[must_use]
    pub fn close(self) -> Vec<Member> {
        self.shut()
    }

    fn shut(&self) -> Vec<Member> {
        let mut open = self.joint_calls.lock();
        if open.get(&self.key).is_some_and(|there| Arc::ptr_eq(there, &self.joint_call)) {
            open.remove(&self.key);
        }
        let mut members = self.joint_call.lock();
        members.is_open = false;
        std::mem::take(&mut members.each)
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.shut();
    }
}
