//! A network inside the process: hosts by name, each a scripted mock.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mock::{Call, End, Log, Mock, Reply, Request, Rule, Scenario};
use tokio::task::JoinSet;

use crate::pipe::{Stream, pair};

/// A network. Clones are the same network; with the last one every connection breaks off.
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    hosts: HashMap<String, Host>,
    served: JoinSet<()>,
    /// Every connection asked for, by name.
    dialed: Vec<String>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wire").field(&self.lock().hosts.keys()).finish()
    }
}

/// How a host meets a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// Accepts at once.
    #[default]
    Open,
    /// Refuses.
    Refuse,
    /// Does not answer.
    Hang,
    /// Accepts after a while.
    After(Duration),
    /// Is not reached: the caller's own system says so, with that number of an error.
    Lacking(i32),
}

/// One host: what reached it, and levers.
#[derive(Clone)]
pub struct Host {
    mock: Mock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    door: Door,
    open: Vec<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("calls", &self.mock.log().total()).finish_non_exhaustive()
    }
}

impl Wire {
    /// An empty network: every name is unknown.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a host on the network under `name`, usually `host:port`; it replaces one of that name.
    pub fn host(&self, name: &str, script: impl Into<Scenario>) -> Host {
        let host = Host { mock: Mock::new(script.into()), state: Arc::default() };
        self.lock().hosts.insert(name.to_owned(), host.clone());
        host
    }

    /// Connects to the host of that name. The host's side runs as a task on the current runtime.
    ///
    /// # Errors
    /// `NotFound` for an unknown name, `ConnectionRefused` where the host refuses.
    pub async fn connect(&self, name: &str) -> io::Result<Stream> {
        let host = {
            let mut inner = self.lock();
            inner.dialed.push(name.to_owned());
            inner.hosts.get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?
        };
        match host.door() {
            Door::Open => {}
            Door::Refuse => return Err(io::ErrorKind::ConnectionRefused.into()),
            Door::Hang => std::future::pending().await,
            Door::Lacking(error) => return Err(io::Error::from_raw_os_error(error)),
            Door::After(wait) => tokio::time::sleep(wait).await,
        }
        let (near, far) = pair();
        host.lock().open.push(Box::new(far.scissors()));
        let mut inner = self.lock();
        while inner.served.try_join_next().is_some() {}
        let mock = host.mock.clone();
        inner.served.spawn(async move { mock.serve(far).await });
        Ok(near)
    }

    /// Every connection asked for so far, by name, whatever became of it.
    #[must_use]
    pub fn dialed(&self) -> Vec<String> {
        self.lock().dialed.clone()
    }
}

impl Host {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn door(&self) -> Door {
        self.lock().door
    }

    /// How it meets connections from now on.
    pub fn set_door(&self, door: Door) {
        self.lock().door = door;
    }

    /// Dies: every connection is reset, further ones are refused.
    pub fn die(&self) {
        let mut state = self.lock();
        state.door = Door::Refuse;
        for cut in state.open.drain(..) {
            cut();
        }
    }

    /// Comes back with another script.
    pub fn play(&self, script: impl Into<Scenario>) {
        self.mock.play(script.into());
        self.set_door(Door::Open);
    }

    /// The calls that reached it.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.mock.log().calls()
    }

    /// Its log, to wait on.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.mock.log()
    }

    /// How many calls ran at once at most.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.mock.log().in_flight().1
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.mock.log().connections().0
    }

    /// Waits until `count` calls have come.
    pub async fn has_calls(&self, count: usize) {
        self.log().until(|calls| calls.len() >= count).await;
    }

    /// Waits until the `n`th call, counted from 1, has ended, and says how.
    pub async fn ending_of(&self, n: usize) -> End {
        let mut end = End::Running;
        self.log()
            .until(|calls| {
                end = calls.get(n.saturating_sub(1)).map_or(End::Running, |call| call.end);
                end != End::Running
            })
            .await;
        end
    }
}

/// What a host does, call by call: the scripted calls get their replies, the others the last
/// [`Script::then`], else the mock's own sound answer.
#[derive(Clone, Debug, Default)]
pub struct Script {
    calls: Vec<(u64, Reply)>,
    rest: Option<Reply>,
    base: Option<Scenario>,
}

impl Script {
    /// A host that answers everything soundly.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These replies in their order, the last one for all further calls.
    #[must_use]
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: Vec<Reply> = replies.into_iter().collect();
        let rest = replies.pop();
        Self { calls: (1..).zip(replies).collect(), rest, base: None }
    }

    /// Every call gets this.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self::new().then(reply)
    }

    /// A reply for each call, made by `improvise`.
    #[must_use]
    pub fn by(improvise: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self { base: Some(Scenario::of([]).improvise(improvise)), ..Self::default() }
    }

    /// Begins with a scenario's settings; its rules come behind this script's calls.
    #[must_use]
    pub fn from(scenario: Scenario) -> Self {
        Self { base: Some(scenario), ..Self::default() }
    }

    /// The `n`th call's reply, counted from 1.
    #[must_use]
    pub fn on_call(mut self, n: u64, reply: Reply) -> Self {
        self.calls.push((n, reply));
        self
    }

    /// The reply of all other calls.
    #[must_use]
    pub fn then(mut self, reply: Reply) -> Self {
        self.rest = Some(reply);
        self
    }
}

impl From<Script> for Scenario {
    fn from(script: Script) -> Self {
        let mut calls = script.calls;
        calls.sort_by_key(|(n, _)| *n);
        // A rule counts the calls that reach it, which those of the rules before it do not.
        let calls = (0..).zip(calls).map(|(before, (n, reply))| Rule::nth(n.saturating_sub(before), reply));
        let rules = calls.chain(script.rest.map(Rule::always));
        match script.base {
            None => Self::of(rules),
            Some(base) => base.with_first(rules),
        }
    }
}

impl From<Reply> for Script {
    fn from(reply: Reply) -> Self {
        Self::always(reply)
    }
}
