//! The token budget of a route and the windows of its upstreams: a prompt is counted, and cut as
//! `rules::context` says.

use std::sync::Arc;
use std::time::Instant;

use base::{Code, Endpoint, Refusal, Truncated};
use bytes::Bytes;
use config::{Counting, Route, Upstream};
use dialect::chat::prompt::{Message, Prompt, Retrieval};
use dialect::{Ask, Tokenizer};
use rules::context::{self, Cut, Role, Terms};
use rules::tokens::{Amounts, Worth};
use smallvec::SmallVec;

use crate::live::tokenizers::Tokenizers;
use crate::running::{OnRoute, RouteState};
use crate::trail::{Lesson, Pupils};

/// Bytes of a prompt that are counted where they are; more would hold up the worker's other calls.
const AT_ONCE: usize = 16 << 10;
/// Tokens around a message: three and its role, as OpenAI documents it (the cookbook's "How to count
/// tokens with tiktoken").
const AROUND: u64 = 4;
/// The same for models of others, whose templates are wordier.
const AROUND_OTHERS: u64 = 5;
/// Tokens that open the answer.
const OPENING: u64 = 3;
/// Tokens of a sound or a file, for want of a rule.
const ATTACHMENT: u64 = 1_000;
/// A count that is a guess errs high; an upstream is known to be too small only beyond this share of it.
const SURELY: f64 = 0.6;

/// Whether something bounds a prompt of this size.
#[must_use]
pub fn is_bounded(route: &Route, ask: &Ask) -> bool {
    terms(route).is_some() || route.upstreams.iter().any(|upstream| may_be_too_small(upstream, ask))
}

fn terms(route: &Route) -> Option<Terms> {
    route.context.as_ref()?.terms
}

/// No token of text is less than a byte of the body; an image by URL is many.
fn may_be_too_small(upstream: &Upstream, ask: &Ask) -> bool {
    upstream.context_window.is_some_and(|window| ask.body.len() as u64 > window || ask.has_attachments())
}

/// A prompt to be counted, with all that it takes.
#[derive(Debug)]
pub struct Job {
    ask: Ask,
    terms: Option<Terms>,
    retrieval: Option<Retrieval>,
    /// The route's first upstream, by which the budget counts.
    first: Gauge,
    /// Upstreams that may be too small.
    doubtful: SmallVec<[(usize, u64, Gauge); 2]>,
    upstreams: usize,
    pupils: Pupils,
}

/// How the tokens of one upstream are counted.
#[derive(Clone, Debug)]
struct Gauge {
    counting: Option<Counting>,
    worth: Worth,
    model: String,
}

impl Gauge {
    fn is_same(&self, other: &Self) -> bool {
        match (&self.counting, &other.counting) {
            (Some(Counting::Encoding(one)), Some(Counting::Encoding(other))) => one == other,
            (Some(Counting::File(one)), Some(Counting::File(other))) => Arc::ptr_eq(one, other),
            (None, None) => self.worth == other.worth,
            _ => false,
        }
    }
}

/// What became of it.
#[derive(Debug)]
pub struct Done {
    /// The call, with what is left of its prompt.
    pub ask: Ask,
    /// Indexes of the upstreams that are too small.
    pub too_small: SmallVec<[usize; 2]>,
    /// What was left out.
    pub truncated: Option<Truncated>,
    /// What the upstream's word on usage will teach.
    pub lesson: Option<Box<Lesson>>,
    /// Tokens of the prompt by the route's first upstream, before anything was left out; 0 where only
    /// windows were looked at.
    pub counted: u64,
}

impl Job {
    /// What has to be counted of a call.
    #[must_use]
    pub fn new(ask: Ask, route: &Route, state: &RouteState) -> Self {
        let worth = |at: usize| state.upstreams.get(at).map_or_else(Worth::default, |known| known.learned.worth());
        let mut job = Self::with(ask, route, &worth);
        let unknown = route.upstreams.iter().zip(&state.upstreams).filter(|(upstream, _)| upstream.tokenizer.is_none());
        job.pupils = unknown.map(|(upstream, known)| (upstream.label.clone(), known.learned.clone())).collect();
        job
    }

    /// The same where nothing has been learned yet.
    #[must_use]
    pub fn unlearned(ask: Ask, route: &Route) -> Self {
        Self::with(ask, route, &|_| Worth::default())
    }

    fn with(ask: Ask, route: &Route, worth: &dyn Fn(usize) -> Worth) -> Self {
        let gauge = |at: usize, upstream: &Upstream| Gauge {
            counting: upstream.tokenizer.clone(),
            worth: worth(at),
            model: upstream.model.clone().unwrap_or_else(|| ask.model.clone()),
        };
        let doubtful = route.upstreams.iter().enumerate().filter(|(_, upstream)| may_be_too_small(upstream, &ask));
        let doubtful =
            doubtful.map(|(at, upstream)| (at, upstream.context_window.unwrap_or(u64::MAX), gauge(at, upstream)));
        let nobody = || Gauge { counting: None, worth: Worth::default(), model: ask.model.clone() };
        Self {
            terms: terms(route),
            retrieval: route.context.as_ref().and_then(|context| context.retrieval.clone()),
            first: route.upstreams.first().map_or_else(nobody, |upstream| gauge(0, upstream)),
            doubtful: doubtful.collect(),
            upstreams: route.upstreams.len(),
            pupils: SmallVec::new(),
            ask,
        }
    }

    fn is_ready(&self, tokenizers: &Tokenizers) -> bool {
        let gauges = std::iter::once(&self.first).chain(self.doubtful.iter().map(|(_, _, gauge)| gauge));
        gauges.into_iter().all(|gauge| match gauge.counting {
            Some(Counting::Encoding(encoding)) => tokenizers.is_loaded(encoding),
            Some(Counting::File(_)) | None => true,
        })
    }
}

/// Bounds the prompt of a call: at once where that is soon done, else on a thread that no other call
/// waits for. As many prompts are counted side by side as there are cores; others wait for their turn, no
/// longer than until the call's deadline.
///
/// # Errors
/// `context_length_exceeded`, `deadline_exceeded`
pub async fn bound(ask: Ask, on: OnRoute<'_>, deadline: Instant, tokenizers: &Tokenizers) -> Result<Done, Refusal> {
    let job = Job::new(ask, on.route, on.state);
    if job.ask.body.len() <= AT_ONCE && job.is_ready(tokenizers) {
        return work(job, tokenizers);
    }
    let counted = async {
        let turn = tokenizers.turn().await;
        let tokenizers = tokenizers.clone();
        let work = move || {
            let _turn = turn;
            work(job, &tokenizers)
        };
        let lost = |_| Refusal::new(Code::InternalError, "counting the prompt failed; please report this");
        tokio::task::spawn_blocking(work).await.map_err(lost)?
    };
    let late = |_| Refusal::new(Code::DeadlineExceeded, "the call's time was over before its prompt was counted");
    tokio::time::timeout_at(deadline.into(), counted).await.map_err(late)?
}

/// Does a job.
///
/// # Errors
/// `context_length_exceeded`
pub fn work(job: Job, tokenizers: &Tokenizers) -> Result<Done, Refusal> {
    let Job { ask, terms, retrieval, first, doubtful, upstreams, pupils } = job;
    let mut done = Done { ask, too_small: SmallVec::new(), truncated: None, lesson: None, counted: 0 };
    let mut left = None;
    if let Some(terms) = terms {
        let scale = Scale::of(&first, tokenizers);
        let Some(kept) = keep(&done.ask, terms, retrieval.as_ref(), &scale, pupils)? else { return Ok(done) };
        left = Some(kept.left);
        (done.truncated, done.lesson, done.counted) = (kept.truncated, kept.lesson, kept.counted);
        if kept.body != done.ask.body {
            // Read again, so that what later steps know of the body is true of the bytes that go out.
            let shaped = Ask::read(done.ask.endpoint, None, kept.body)?;
            done.ask = Ask { tag: done.ask.tag, query: done.ask.query, ..shaped };
        }
    }
    let (mut largest, mut of_largest) = (0, None);
    for (at, window, gauge) in doubtful {
        let scale = Scale::of(&gauge, tokenizers);
        let tokens = left.filter(|_| gauge.is_same(&first)).unwrap_or_else(|| count(&done.ask, &scale));
        let surely = if scale.is_guess() { (tokens as f64 * SURELY) as u64 } else { tokens };
        if surely > window {
            done.too_small.push(at);
            if window >= largest {
                (largest, of_largest) = (window, Some(scale));
            }
        }
    }
    if done.too_small.len() == upstreams && upstreams > 0 {
        return Err(no_window(&done.ask, largest, of_largest.as_ref()));
    }
    Ok(done)
}

/// What a budget keeps of a prompt.
struct Kept {
    body: Bytes,
    truncated: Option<Truncated>,
    lesson: Option<Box<Lesson>>,
    /// Tokens before, and after.
    counted: u64,
    left: u64,
}

/// Cuts a prompt; none where the call has none.
fn keep(
    ask: &Ask,
    terms: Terms,
    retrieval: Option<&Retrieval>,
    scale: &Scale,
    pupils: Pupils,
) -> Result<Option<Kept>, Refusal> {
    let Some(prompt) = Prompt::read(ask, retrieval) else { return Ok(None) };
    let weighed = Weighed::new(&prompt, scale);
    let (cut, left) = weighed.fit(terms).map_err(|over| too_long(ask, (over.needed, terms), &prompt, scale))?;
    Ok(Some(Kept {
        body: prompt.without(&ask.body, &cut.messages, &cut.passages),
        truncated: truncated(&cut),
        lesson: weighed.lesson(&cut, pupils).filter(|_| scale.is_guess()),
        counted: weighed.total,
        left,
    }))
}

fn count(ask: &Ask, scale: &Scale) -> u64 {
    let prompt = Prompt::read(ask, None).unwrap_or_default();
    Weighed::new(&prompt, scale).total
}

fn truncated(cut: &Cut) -> Option<Truncated> {
    let is_cut = cut.history + cut.retrieval > 0;
    is_cut.then_some(Truncated { history: cut.history as u64, retrieval: cut.retrieval as u64, tokens: cut.tokens })
}

/// The field that holds the prompt.
fn field(ask: &Ask) -> &'static str {
    if ask.endpoint == Endpoint::Completions { "prompt" } else { "messages" }
}

/// The field that by itself is more than so many tokens, where it is not the prompt; with its own.
fn too_large(prompt: &Prompt<'_>, scale: &Scale, most: u64) -> Option<(&'static str, u64)> {
    let each = prompt.definitions.iter().map(|(name, json)| (*name, scale.weigh(json).tokens));
    each.into_iter().find(|(_, tokens)| *tokens > most)
}

fn too_long(ask: &Ask, (needed, terms): (u64, Terms), prompt: &Prompt<'_>, scale: &Scale) -> Refusal {
    let allowed = format!("more than the {} that are allowed here; shorten", terms.budget);
    let (field, message) = match too_large(prompt, scale, terms.budget) {
        Some((name, tokens)) => (name, format!("`{name}` alone has {tokens} tokens, {allowed} `{name}`")),
        None => {
            let without = "even without history and retrieved passages";
            (field(ask), format!("the prompt has {needed} tokens {without}, {allowed} it"))
        }
    };
    Refusal { param: Some(field.into()), ..Refusal::new(Code::ContextLengthExceeded, message) }
}

/// `scale` is that of the upstream with the largest window.
fn no_window(ask: &Ask, largest: u64, scale: Option<&Scale>) -> Refusal {
    let takes = format!("longer than the {largest} tokens that this model takes; shorten");
    let prompt = Prompt::read(ask, None).unwrap_or_default();
    let (field, message) = match scale.and_then(|scale| too_large(&prompt, scale, largest)) {
        Some((name, _)) => (name, format!("`{name}` alone is {takes} `{name}`")),
        None => (field(ask), format!("the prompt is {takes} it")),
    };
    Refusal { param: Some(field.into()), ..Refusal::new(Code::ContextLengthExceeded, message) }
}

/// What texts are weighed with.
enum Scale {
    Known { tokenizer: Arc<Tokenizer>, around: u64, model: String },
    Guess { worth: Worth, model: String },
}

impl Scale {
    fn of(gauge: &Gauge, tokenizers: &Tokenizers) -> Self {
        let model = gauge.model.clone();
        let known = match &gauge.counting {
            Some(Counting::Encoding(encoding)) => tokenizers.get(*encoding).map(|tokenizer| (tokenizer, AROUND)),
            Some(Counting::File(tokenizer)) => Some((tokenizer.clone(), AROUND_OTHERS)),
            None => None,
        };
        match known {
            Some((tokenizer, around)) => Self::Known { tokenizer, around, model },
            None => Self::Guess { worth: gauge.worth.clone(), model },
        }
    }

    const fn is_guess(&self) -> bool {
        matches!(self, Self::Guess { .. })
    }

    fn weigh(&self, text: &str) -> Weight {
        match self {
            Self::Known { tokenizer, .. } => Weight { tokens: tokenizer.count(text), amounts: Amounts::default() },
            Self::Guess { worth, .. } => {
                let amounts = Amounts::of(text);
                Weight { tokens: worth.tokens(amounts).ceil().max(0.0) as u64, amounts }
            }
        }
    }

    const fn around(&self) -> u64 {
        match self {
            Self::Known { around, .. } => *around,
            Self::Guess { .. } => AROUND_OTHERS,
        }
    }

    fn model(&self) -> &str {
        match self {
            Self::Known { model, .. } | Self::Guess { model, .. } => model,
        }
    }
}

/// Tokens, and what they were guessed by.
#[derive(Clone, Copy, Default)]
struct Weight {
    tokens: u64,
    amounts: Amounts,
}

impl Weight {
    fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), amounts: self.amounts.plus(other.amounts) }
    }
}

/// A prompt with the weight of each of its parts.
struct Weighed<'r, 'p> {
    prompt: &'r Prompt<'p>,
    each: Vec<(Weight, Vec<Weight>)>,
    definitions: Weight,
    around: u64,
    /// Tokens of what is no message.
    fixed: u64,
    /// Of a list of prompts, those of the longest.
    total: u64,
    /// Images and the like, whose tokens teach nothing about text.
    has_more_than_text: bool,
}

impl<'r, 'p> Weighed<'r, 'p> {
    fn new(prompt: &'r Prompt<'p>, scale: &Scale) -> Self {
        let each: Vec<(Weight, Vec<Weight>)> = prompt.messages.iter().map(|message| weigh(message, scale)).collect();
        let definitions =
            prompt.definitions.iter().fold(Weight::default(), |sum, (_, json)| sum.plus(scale.weigh(json)));
        let fixed = definitions.tokens.saturating_add(OPENING);
        let tokens = |(own, passages): &(Weight, Vec<Weight>)| {
            passages.iter().fold(own.tokens, |sum, passage| sum.saturating_add(passage.tokens))
        };
        let total = if prompt.is_list {
            fixed.saturating_add(each.iter().map(tokens).max().unwrap_or(0))
        } else {
            each.iter().map(tokens).fold(fixed, u64::saturating_add)
        };
        let has_more_than_text =
            prompt.messages.iter().any(|one| one.attachments + one.ids > 0 || !one.images.is_empty());
        Self { prompt, each, definitions, around: scale.around(), fixed, total, has_more_than_text }
    }

    fn messages(&self) -> Vec<context::Message<'r>> {
        let message = |(message, (own, passages)): (&'r Message<'p>, &(Weight, Vec<Weight>))| context::Message {
            role: role(&message.role),
            tokens: own.tokens,
            calls: message.calls.iter().map(|id| &**id).collect(),
            answers: message.answers.as_deref(),
            is_passage: message.is_passage && !message.is_held(),
            passages: passages.iter().map(|passage| passage.tokens).collect(),
        };
        self.prompt.messages.iter().zip(&self.each).map(message).collect()
    }

    /// What to leave out so that the prompt keeps to its terms, or each prompt of a list by itself; and the tokens that
    /// are left, of a list those of the longest.
    fn fit(&self, terms: Terms) -> Result<(Cut, u64), context::Overflow> {
        let messages = self.messages();
        if !self.prompt.is_list {
            let cut = context::fit(terms, self.fixed, &messages)?.unwrap_or_default();
            let left = self.total.saturating_sub(cut.tokens);
            return Ok((cut, left));
        }
        let (mut all, mut longest) = (Cut::default(), 0);
        for (at, message) in messages.iter().enumerate() {
            let cut = context::fit(terms, self.fixed, std::slice::from_ref(message))?.unwrap_or_default();
            let tokens = message.passages.iter().fold(message.tokens, |sum, passage| sum.saturating_add(*passage));
            longest = longest.max(self.fixed.saturating_add(tokens).saturating_sub(cut.tokens));
            all.passages.extend(cut.passages.iter().map(|(_, which)| (at, *which)));
            all.retrieval += cut.retrieval;
            all.tokens = all.tokens.saturating_add(cut.tokens);
        }
        Ok((all, longest))
    }

    /// What is left of the text after a cut, to be compared with what the upstream counts.
    fn lesson(&self, cut: &Cut, pupils: Pupils) -> Option<Box<Lesson>> {
        if self.has_more_than_text || pupils.is_empty() {
            return None;
        }
        let mut amounts = self.definitions.amounts;
        let mut messages = 0;
        let (mut gone, mut cut_out) = (cut.messages.iter().peekable(), cut.passages.iter().peekable());
        for (at, (own, passages)) in self.each.iter().enumerate() {
            if gone.next_if(|gone| **gone == at).is_some() {
                continue;
            }
            messages += 1;
            amounts = amounts.plus(own.amounts);
            for (which, passage) in passages.iter().enumerate() {
                if cut_out.next_if(|cut_out| **cut_out == (at, which)).is_none() {
                    amounts = amounts.plus(passage.amounts);
                }
            }
        }
        Some(Box::new(Lesson { amounts, around: messages * self.around + OPENING, pupils }))
    }
}

/// A message's own weight, and that of its passages.
fn weigh(message: &Message<'_>, scale: &Scale) -> (Weight, Vec<Weight>) {
    let around = |tokens| Weight { tokens, amounts: Amounts::default() };
    let mut own = around(scale.around());
    if let Some(name) = &message.name {
        own = own.plus(around(1)).plus(scale.weigh(name));
    }
    let images = message.images.iter().map(|image| image.tokens(scale.model())).sum::<u64>();
    let attachments = ATTACHMENT.saturating_mul(message.attachments as u64);
    own = own.plus(around(images.saturating_add(attachments).saturating_add(message.ids as u64)));
    let mut texts = Weight::default();
    let mut passages = Vec::new();
    for text in &message.texts {
        texts = text.own.iter().fold(texts, |sum, text| sum.plus(scale.weigh(text)));
        passages.extend(text.passages.iter().map(|marked| scale.weigh(&marked.text)));
    }
    // A marked result of a tool keeps its place when its text goes.
    if message.is_emptied() { (own, vec![texts]) } else { (own.plus(texts), passages) }
}

fn role(role: &str) -> Role {
    match role {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::Other,
    }
}
