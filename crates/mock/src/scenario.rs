//! The scenario: rules, of which the first that matches answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Glob;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answer::{Settings, Strict};
use crate::reply::{How, Reply};
use crate::request::Request;
use crate::units::{de_duration, de_some_duration};
use crate::{MAX_DIMENSIONS, written, yaml};

/// What a mock does. The default answers everything soundly.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) settings: Settings,
    pub(crate) seed: Option<u64>,
    pub(crate) inspect: bool,
    pub(crate) keep: (usize, usize),
    pub(crate) connections: Connections,
    pub(crate) slots: Option<usize>,
    pub(crate) improvised: Option<Improvised>,
    pub(crate) rules: Vec<Rule>,
}

/// A reply made for each call by code.
#[derive(Clone)]
pub(crate) struct Improvised(pub(crate) Arc<dyn Fn(&Request) -> Reply + Send + Sync>);

impl fmt::Debug for Improvised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Improvised")
    }
}

/// How connections are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// Closes a connection that has been idle so long.
    pub(crate) idle: Option<Duration>,
    /// How it is closed, and how calls on a reused connection are met where they are not served.
    pub(crate) how: How,
    /// Serves a second call on a connection.
    pub(crate) reuse: bool,
    /// Resets so many connections as soon as they come.
    pub(crate) reset_first: u64,
    /// Refuses connections meanwhile, as where no process listens; those that are open break off.
    pub(crate) refuse: Option<Window>,
}

/// A time, counted from when the scenario began to play. The default is always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from: Duration,
    /// Its end, not within it; none: it never ends.
    pub until: Option<Duration>,
}

impl Window {
    /// Whether `elapsed` lies within it.
    #[must_use]
    pub fn holds(&self, elapsed: Duration) -> bool {
        self.from <= elapsed && self.until.is_none_or(|until| elapsed < until)
    }

    /// How long after `elapsed` it begins or ends next.
    #[must_use]
    pub fn turns_in(&self, elapsed: Duration) -> Option<Duration> {
        let ends = [Some(self.from), self.until];
        ends.into_iter().flatten().filter_map(|end| end.checked_sub(elapsed)).find(|wait| !wait.is_zero())
    }

    fn written(from: Option<Duration>, until: Option<Duration>) -> Result<Self, String> {
        let from = from.unwrap_or_default();
        match until {
            Some(until) if until <= from => Err("`until` is later than `from`".to_owned()),
            until => Ok(Self { from, until }),
        }
    }
}

/// One rule.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Which calls it is for.
    pub when: When,
    /// Serves only what goes beyond this.
    pub limit: Option<Limit>,
    /// What they get.
    pub reply: Reply,
}

/// Which calls a rule is for; all that is said must hold. `nth`, `first`, `after` and `every` count
/// the calls for which all else holds and that no earlier rule took.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// The method.
    pub method: Option<String>,
    /// The path, `*` for any run.
    pub path: Option<Glob>,
    /// The body's `model`, `*` for any run.
    pub model: Option<Glob>,
    /// Header fields, `*` for any run; none where the field must be absent.
    pub headers: Vec<(String, Option<Glob>)>,
    /// Whether the body asks for a stream.
    pub stream: Option<bool>,
    /// A text that the body holds.
    pub body: Option<String>,
    /// Only at this time.
    pub during: Window,
    /// Only these calls, counted from 1.
    pub nth: Vec<u64>,
    /// Only the first so many.
    pub first: Option<u64>,
    /// Only those after the first so many.
    pub after: Option<u64>,
    /// Only every so manieth.
    pub every: Option<u64>,
    /// Only this share, drawn for each call; 0 to 1.
    pub chance: Option<f64>,
}

/// A limit on how fast, or how many at once, calls are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// So many calls …
    pub calls: u64,
    /// … in this time, refilled evenly. None: so many at once.
    pub per: Option<Duration>,
}

impl Rule {
    /// A rule for every call.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self { reply, ..Self::default() }
    }

    /// A rule for the `n`th call that reaches it, counted from 1.
    #[must_use]
    pub fn nth(n: u64, reply: Reply) -> Self {
        Self { when: When { nth: vec![n], ..When::default() }, ..Self::always(reply) }
    }
}

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenScenario {
    seed: Option<u64>,
    inspect: bool,
    log: WrittenLog,
    strict: Option<String>,
    key: Option<String>,
    models: Option<Vec<String>>,
    dimensions: Option<usize>,
    #[serde(deserialize_with = "de_some_duration")]
    word_delay: Option<Duration>,
    slots: Option<usize>,
    connections: WrittenConnections,
    rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenLog {
    calls: usize,
    body: usize,
}

impl Default for WrittenLog {
    fn default() -> Self {
        Self { calls: 1000, body: 1024 * 1024 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenConnections {
    #[serde(deserialize_with = "de_some_duration")]
    idle: Option<Duration>,
    how: String,
    reuse: bool,
    reset_first: u64,
    refuse: Option<WrittenWindow>,
}

impl Default for WrittenConnections {
    fn default() -> Self {
        Self { idle: None, how: "fin".to_owned(), reuse: true, reset_first: 0, refuse: None }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenWindow {
    #[serde(deserialize_with = "de_some_duration")]
    from: Option<Duration>,
    #[serde(deserialize_with = "de_some_duration")]
    until: Option<Duration>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenRule {
    when: WrittenWhen,
    limit: Option<WrittenLimit>,
    reply: Value,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenWhen {
    method: Option<String>,
    path: Option<String>,
    model: Option<String>,
    headers: Map<String, Value>,
    stream: Option<bool>,
    body: Option<String>,
    #[serde(deserialize_with = "de_some_duration")]
    from: Option<Duration>,
    #[serde(deserialize_with = "de_some_duration")]
    until: Option<Duration>,
    nth: Value,
    first: Option<u64>,
    after: Option<u64>,
    every: Option<u64>,
    chance: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimit {
    calls: Option<u64>,
    #[serde(default = "second", deserialize_with = "de_duration")]
    per: Duration,
    concurrent: Option<u64>,
}

fn second() -> Duration {
    Duration::from_secs(1)
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            settings: Settings {
                strict: None,
                key: None,
                models: ["mock", "mock-embedding", "mock-rerank"].map(str::to_owned).to_vec(),
                dimensions: 384,
                word_delay: Duration::from_millis(20),
            },
            seed: None,
            inspect: false,
            keep: (1000, 1024 * 1024),
            connections: Connections { idle: None, how: How::Fin, reuse: true, reset_first: 0, refuse: None },
            slots: None,
            improvised: None,
            rules: Vec::new(),
        }
    }
}

impl Scenario {
    /// Reads a scenario from YAML or JSON.
    ///
    /// # Errors
    /// Says what is wrong, and at which line or in which rule.
    pub fn read(text: &str) -> Result<Self, ScenarioError> {
        let value = yaml::read(text).map_err(|error| ScenarioError(error.to_string()))?;
        if value.is_null() {
            return Ok(Self::default());
        }
        let written = WrittenScenario::deserialize(value).map_err(|error| ScenarioError(error.to_string()))?;
        meant(written).map_err(ScenarioError)
    }

    /// A scenario that is these rules, built in Rust; nothing delays its built-in answers.
    #[must_use]
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut scenario = Self { rules: rules.into_iter().collect(), ..Self::default() };
        scenario.settings.word_delay = Duration::ZERO;
        scenario
    }

    /// Takes a provider's paths and fields literally.
    #[must_use]
    pub fn strict(mut self, strict: Strict) -> Self {
        self.settings.strict = Some(strict);
        self
    }

    /// Serves only callers that bring this key.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.settings.key = Some(key.to_owned());
        self
    }

    /// Lets `GET /__mock/calls` and its neighbours answer.
    #[must_use]
    pub fn inspect(mut self) -> Self {
        self.inspect = true;
        self
    }

    /// Adds a rule behind the others.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds rules before the others.
    #[must_use]
    pub fn with_first(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.splice(0..0, rules);
        self
    }

    /// Answers every call that no rule takes with what `improvise` makes of it.
    #[must_use]
    pub fn improvise(mut self, improvise: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        self.improvised = Some(Improvised(Arc::new(improvise)));
        self
    }

    /// Closes connections that have been idle so long.
    #[must_use]
    pub fn idle(mut self, after: Duration, how: How) -> Self {
        (self.connections.idle, self.connections.how) = (Some(after), how);
        self
    }

    /// Meets a second call on a connection with a break instead of an answer.
    #[must_use]
    pub fn no_reuse(mut self, how: How) -> Self {
        (self.connections.reuse, self.connections.how) = (false, how);
        self
    }
}

/// The same reply for every call.
impl From<Reply> for Scenario {
    fn from(reply: Reply) -> Self {
        Self::of([Rule::always(reply)])
    }
}

fn meant(written: WrittenScenario) -> Result<Scenario, String> {
    let default = Scenario::default();
    let strict = written.strict.as_deref().map(strict).transpose()?;
    let dimensions = written.dimensions.unwrap_or(default.settings.dimensions);
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(format!("`dimensions` is 1 to {MAX_DIMENSIONS}"));
    }
    if written.slots == Some(0) {
        return Err("`slots` is at least 1".to_owned());
    }
    let how = match written.connections.how.as_str() {
        "fin" => How::Fin,
        "rst" => How::Rst,
        other => return Err(format!("`connections.how: {other}` is not known: fin or rst")),
    };
    let refuse = written.connections.refuse.map(|refuse| Window::written(refuse.from, refuse.until)).transpose();
    let rules = written
        .rules
        .into_iter()
        .enumerate()
        .map(|(at, value)| rule(value).map_err(|what| format!("rule {}: {what}", at + 1)));
    Ok(Scenario {
        settings: Settings {
            strict,
            key: written.key,
            models: written.models.unwrap_or(default.settings.models),
            dimensions,
            word_delay: written.word_delay.unwrap_or(default.settings.word_delay),
        },
        seed: written.seed,
        inspect: written.inspect,
        keep: (written.log.calls, written.log.body),
        connections: Connections {
            idle: written.connections.idle,
            how,
            reuse: written.connections.reuse,
            reset_first: written.connections.reset_first,
            refuse: refuse.map_err(|what| format!("`connections.refuse`: {what}"))?,
        },
        slots: written.slots,
        improvised: None,
        rules: rules.collect::<Result<_, _>>()?,
    })
}

fn strict(name: &str) -> Result<Strict, String> {
    let found = Strict::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, strict)| strict).ok_or_else(|| {
        let names: Vec<&str> = Strict::ALL.iter().map(|(name, _)| *name).collect();
        format!("`strict: {name}` is not known: {}", names.join(", "))
    })
}

fn rule(value: Value) -> Result<Rule, String> {
    let written = WrittenRule::deserialize(value).map_err(|error| error.to_string())?;
    let when = when(written.when)?;
    let limit = written.limit.map(limit).transpose()?;
    let mut reply = written::reply(&written.reply)?;
    if limit.is_some() && written.reply.is_null() {
        reply = Reply::status(429);
    }
    Ok(Rule { when, limit, reply })
}

fn limit(written: WrittenLimit) -> Result<Limit, String> {
    match (written.calls, written.concurrent) {
        (Some(calls), None) if calls > 0 && !written.per.is_zero() => Ok(Limit { calls, per: Some(written.per) }),
        (None, Some(calls)) => Ok(Limit { calls, per: None }),
        _ => Err("`limit` is {calls: N, per: DURATION} or {concurrent: N}".to_owned()),
    }
}

fn when(written: WrittenWhen) -> Result<When, String> {
    let nth = match &written.nth {
        Value::Null => Some(Vec::new()),
        Value::Number(number) => number.as_u64().map(|number| vec![number]),
        Value::Array(list) => list.iter().map(Value::as_u64).collect(),
        _ => None,
    };
    let headers = written.headers.into_iter().map(|(name, value)| match value {
        Value::Null => Ok((name, None)),
        Value::String(pattern) => Ok((name, Some(Glob::new(&pattern)))),
        Value::Number(_) | Value::Bool(_) => Ok((name, Some(Glob::new(&value.to_string())))),
        _ => Err(format!("`when.headers.{name}` is a pattern, or null for a header that must be absent")),
    });
    if written.every == Some(0) || written.chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
        return Err("`when.every` is at least 1, `when.chance` is 0 to 1".to_owned());
    }
    Ok(When {
        method: written.method,
        path: written.path.as_deref().map(Glob::new),
        model: written.model.as_deref().map(Glob::new),
        headers: headers.collect::<Result<_, _>>()?,
        stream: written.stream,
        body: written.body,
        during: Window::written(written.from, written.until)?,
        nth: nth.ok_or("`when.nth` is a number or a list of numbers")?,
        first: written.first,
        after: written.after,
        every: written.every,
        chance: written.chance,
    })
}
