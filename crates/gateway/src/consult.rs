//! Whether the same question was answered before, in other words: asked of the route's questions, and on the way of
//! the embedding route that they are compared by, and of the route that verifies a match.
//!
//! Those calls are the gateway's own. They keep to their routes' parameters, upstreams, breakers and places; no client's
//! limit or quota counts them, and they are booked on their routes, to no client.

mod vector;
mod verdict;
pub mod verify;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{AttemptOutcome, Code, Endpoint, Outcome, Refusal, SpanContext};
use config::{Client, Route, Semantic, Upstream};
use dialect::json::quoted;
use dialect::{Answer, Ask, embeddings};
use http::HeaderValue;
use rules::params::Policy;
use state::answers::Stored;

use crate::attempt::{Errand, Landed};
use crate::cache::kb_versions::KbVersion;
use crate::live::Live;
use crate::plan::plan;
use crate::pursue::{Call, pursue};
use crate::records::telemetry::OwnCall;
use crate::running::Running;
use crate::semantic_cache::questions::{Asked, Bar, Candidate, Judged, Match, Near, Shelf, Sought, Trial, judge};
use crate::shape::params;
use crate::trail::Tries;
use crate::worker::Worker;

/// What a look-up that is not answered from memory may take; then it has found nothing.
const LOOK: Duration = Duration::from_millis(100);
/// Matches whose answer turns out to be gone, before the look-up gives up.
const MOST_GONE: usize = 4;

/// What a look-up is made with, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Consult<'a> {
    /// The worker that makes it.
    pub worker: &'a Arc<Worker>,
    /// The configuration that it goes by.
    pub running: &'a Arc<Running>,
    /// The client whose call it is.
    pub client: &'a Arc<Client>,
    /// Whom answers are stored for; `None` where the route's callers share them.
    pub owner: Option<&'a Arc<str>>,
    /// What a stored answer must rest on, to the moment when it is served.
    pub kb_version: &'a KbVersion,
    /// The id of the call that is to be answered.
    pub request_id: &'a HeaderValue,
    /// That call's span: those of the gateway's own are its children.
    pub trace: Option<&'a SpanContext>,
    /// When that call must be over.
    pub deadline: Instant,
    /// Texts are kept: the nearest question is to be told, whether its answer is served or not.
    pub tells_near: bool,
}

/// What a look-up has come to.
#[derive(Debug)]
enum Looked {
    Found(Match),
    Miss,
    /// Something was near enough, and withheld.
    Refused,
    /// Something was near enough, and the model that verifies matches is left alone.
    Unverified,
}

/// Looks for a stored answer to the same question. Whatever goes wrong costs `semantic.timeout` at most, and is a miss;
/// where it goes wrong again and again it costs nothing for a while. The question's vector is left in `asked`.
/// Beside the match, where there is one, what was withheld, and by what.
pub async fn look(consult: &Consult<'_>, route: &Route, asked: &mut Asked) -> Sought {
    let Some(terms) = route.cache.semantic.as_deref() else { return Sought::default() };
    let found = look_within(consult, route, terms, asked).await;
    let found = found.map(|found| Match { is_shadow: terms.shadow, ..found });
    Sought { found, withheld: std::mem::take(&mut asked.withheld), near: asked.near.take() }
}

async fn look_within(consult: &Consult<'_>, route: &Route, terms: &Semantic, asked: &mut Asked) -> Option<Match> {
    let live = &consult.worker.live;
    let shelf = &*live.questions.of(&route.name)?;
    let search = Search { consult, route, terms, shelf };
    let count = |result| live.metrics.caches.looked_up(&route.name, "semantic", result, 1);
    let hit = if terms.shadow { "shadow" } else { "hit" };
    if let Some(known) = shelf.known(asked.place)
        && let Some(found) = search.answer_to(known).await
    {
        count(hit);
        asked.near = consult.tells_near.then(|| Near {
            question: asked.text.clone(),
            known: found.candidate.text.clone(),
            answer: Some(found.stored.clone()),
            similarity: found.candidate.similarity,
            withheld: None,
        });
        return Some(found);
    }
    let now = live.clock.now();
    let mut trial = shelf.rest.enter(now);
    if trial.is_none() {
        count("error");
        asked.withhold("resting");
        return None;
    }
    let patience = now + terms.timeout;
    let until = patience.min(consult.deadline);
    let looking = search.look(asked, &mut trial, patience);
    let searched = tokio::time::timeout_at(until.into(), looking).await;
    if !matches!(searched, Ok(Ok(_))) {
        asked.withhold("error");
    }
    match searched {
        Ok(Ok(looked)) => {
            trial.into_iter().for_each(Trial::succeeded);
            let (result, found) = match looked {
                Looked::Found(found) => (hit, Some(found)),
                Looked::Miss => ("miss", None),
                Looked::Refused => ("refused", None),
                Looked::Unverified => ("error", None),
            };
            count(result);
            found
        }
        // A caller in a hurry says nothing about those who were asked, unless they have given no answer themselves.
        Err(_) if until < patience => None,
        Ok(Err(_)) if until < patience && asked.awaited.is_none() => None,
        Ok(Err(_)) | Err(_) => {
            // One call has failed, however many have waited for it. Who finds out whether all is well again says it anyway.
            let is_first = asked.awaited.take().is_none_or(|awaited| awaited.is_first_to_tell());
            if let Some(trial) = trial.filter(|trial| is_first || trial.is_probe()) {
                trial.failed(live.clock.now());
            }
            count("error");
            None
        }
    }
}

/// A look-up among the questions of one route.
#[derive(Clone, Copy)]
struct Search<'a> {
    consult: &'a Consult<'a>,
    route: &'a Route,
    terms: &'a Semantic,
    /// The route's questions.
    shelf: &'a Shelf,
}

impl<'a> Search<'a> {
    /// `trial` is of those who are asked: first of the embedding route, then of the one that verifies a match. `patience` is
    /// when the route's own time for it is over.
    async fn look(
        &self,
        asked: &mut Asked,
        trial: &mut Option<Trial<'a>>,
        patience: Instant,
    ) -> Result<Looked, Refusal> {
        let Self { consult, route, terms, shelf } = *self;
        let vector = consult.vector(&terms.route, asked, patience).await?;
        asked.vector = Some(vector.clone());
        let live = &consult.worker.live;
        if !live.questions.is_ready() {
            return Ok(Looked::Miss);
        }
        let text = asked.text.clone();
        let partition = asked.place.partition;
        let refuse = |asked: &mut Asked, by: &'static str| {
            live.metrics.caches.withheld(&route.name, by);
            asked.withhold(by);
        };
        #[expect(clippy::cast_possible_truncation, reason = "vectors are no finer either")]
        let least = (terms.threshold - terms.margin) as f32;
        let overrules = terms.verify.as_ref().map_or(&[][..], |verify| &verify.overrules);
        let bar = Bar { threshold: terms.threshold, margin: terms.margin, overrules };
        for _ in 0..MOST_GONE {
            let nearest = shelf.nearest(&partition, &vector, least, (route.cache.ttl, live.steady_wall()));
            let judged = judge(&live.questions.readings, &text, &nearest, bar);
            judged.refused.iter().for_each(|guard| refuse(asked, guard.name()));
            if judged.too_close.is_some() {
                refuse(asked, "margin");
            }
            asked.near = consult.near(&text, &judged);
            let overruled = judged.open.as_ref().map(|(_, guard)| guard.name());
            let Some(candidate) = judged.found.or(judged.open.map(|(open, _)| open)) else {
                return Ok(if judged.refused.is_empty() { Looked::Miss } else { Looked::Refused });
            };
            let (known, place) = (candidate.text.clone(), candidate.place);
            let Some(found) = self.answer_to(candidate).await else {
                if shelf.known(place).is_some() {
                    return Ok(Looked::Miss);
                }
                continue;
            };
            if let Some(near) = &mut asked.near {
                near.answer = Some(found.stored.clone());
            }
            if let Some((by, looked)) = self.objection(asked, &known, trial, patience).await? {
                match looked {
                    Looked::Unverified => asked.withhold(by),
                    _ => refuse(asked, by),
                }
                asked.near.iter_mut().for_each(|near| near.withheld = Some(by));
                return Ok(looked);
            }
            // It may have been removed, or another version been set, while the other model thought.
            let found = match terms.verify {
                Some(_) => self.answer_to(found.candidate).await,
                None => Some(found),
            };
            let Some(found) = found else { return Ok(Looked::Miss) };
            if let Some(guard) = overruled {
                live.metrics.caches.overruled(&route.name, guard);
            }
            return Ok(Looked::Found(Match { overruled, ..found }));
        }
        Ok(Looked::Miss)
    }

    /// Has a match verified, where that is wished, within the look-up's time, of which the question's vector has had its part:
    /// what withholds it, where something does.
    async fn objection(
        &self,
        asked: &mut Asked,
        known: &str,
        trial: &mut Option<Trial<'a>>,
        patience: Instant,
    ) -> Result<Option<(&'static str, Looked)>, Refusal> {
        let Self { consult, terms, shelf, .. } = *self;
        let Some(verify) = &terms.verify else { return Ok(None) };
        let now = consult.worker.live.clock.now();
        let mut verifier = shelf.verifier.enter(now);
        let is_resting = verifier.is_none();
        // All went well so far: what fails from here on is the other model. But where the vector took the larger part of
        // the time, it is to blame if that runs out.
        let is_short = patience.saturating_duration_since(now) < terms.timeout / 2;
        if is_resting || !is_short {
            trial.take().into_iter().for_each(Trial::succeeded);
            *trial = verifier.take();
        }
        if is_resting {
            return Ok(Some(("verifier_resting", Looked::Unverified)));
        }
        let verdict = consult.verdict(verify, asked, known, patience).await;
        let is_late = |refusal: &Refusal| refusal.code.row().outcome == Outcome::UpstreamTimeout;
        if verifier.is_some() && !verdict.as_ref().is_err_and(is_late) {
            trial.take().into_iter().for_each(Trial::succeeded);
            *trial = verifier;
        }
        let is_same = verdict?;
        trial.take().into_iter().for_each(Trial::succeeded);
        Ok((!is_same).then_some(("verify", Looked::Refused)))
    }

    /// The stored answer to a question, where it is still there and its version holds; where it is gone the question is
    /// forgotten. One that is too old for now stays, like its question.
    async fn answer_to(&self, candidate: Candidate) -> Option<Match> {
        let Self { consult, route, shelf, .. } = *self;
        let live = &consult.worker.live;
        let stored = match live.answers.get(&candidate.answer) {
            state::Answer::Ready(stored) => stored,
            // A disk that is slow says nothing about what is there.
            state::Answer::Later(coming) => tokio::time::timeout(LOOK, coming).await.ok()?,
        };
        let now = live.steady_wall();
        let is_ours = |stored: &Arc<Stored>| stored.client.as_ref() == consult.owner && stored.is_fresh(now);
        // A disk that is slow or out answers as if nothing were there.
        let is_out = || live.answers.stats().disk.is_some_and(|disk| disk.trouble.is_some());
        if stored.is_none() && is_out() {
            return None;
        }
        let Some(stored) = stored.filter(is_ours) else {
            live.questions.forget(shelf, candidate.place, &candidate.answer);
            return None;
        };
        // The version is asked for last: vectors, verdicts and disks have been waited for since the call began.
        if !stored.is_fresh_within(route.cache.ttl, now) || !live.still_holds(route, consult.kb_version) {
            return None;
        }
        shelf.touch(candidate.place);
        Some(Match { candidate, stored, is_shadow: false, overruled: None })
    }
}

impl Consult<'_> {
    /// The nearest question, where that is to be told.
    fn near(&self, question: &Arc<str>, judged: &Judged) -> Option<Near> {
        let (candidate, withheld) = match judged {
            _ if !self.tells_near => return None,
            Judged { found: Some(found), .. } | Judged { open: Some((found, _)), .. } => (found, None),
            Judged { too_close: Some(same), .. } => (same, Some("margin")),
            Judged { different: Some((other, guard)), .. } => (other, Some(guard.name())),
            _ => return None,
        };
        let is_ours = |stored: &Arc<Stored>| stored.client.as_ref() == self.owner;
        // A match is looked up soon. Of others nobody asks a disk on account of what people read later.
        let answer = withheld.and_then(|_| self.worker.live.answers.peek(&candidate.answer)).filter(is_ours);
        let (known, similarity) = (candidate.text.clone(), candidate.similarity);
        Some(Near { question: question.clone(), known, answer, similarity, withheld })
    }

    fn route(&self, name: &str) -> Result<&Arc<Route>, Refusal> {
        self.running.snapshot.route_named(name).ok_or_else(unfit)
    }

    /// One call of the gateway's own.
    async fn send(&self, route: &Arc<Route>, ask: &Ask, deadline: Instant) -> Result<(Answer, Arc<Upstream>), Refusal> {
        let live = &self.worker.live;
        let on = self.running.on(route).ok_or_else(unfit)?;
        let errand = Errand { ask, request_id: self.request_id, traceparent: None, passed: None };
        let call = Call {
            worker: self.worker,
            client: self.client,
            on,
            errand,
            permit: None,
            is_idempotent: true,
            first: None,
            deadline,
        };
        let plan = plan(on, None, &[], live.clock.now(), &self.worker.dice);
        let home = &self.running.snapshot.currency;
        let (route, endpoint, tries) = (&route.name, ask.endpoint, Tries::new(live.clock));
        let mut account = Account { live, route, endpoint, home, tries };
        account.tries.parent = self.trace.copied().map(Box::new);
        let won = pursue(&call, plan, &mut account.tries).await?;
        let Landed::Whole(answer) = won.landed else { return Err(unfit()) };
        account.tries.end(AttemptOutcome::Ok, Some(200));
        account.tries.spend(&won.upstream, ask.used(&answer, &won.upstream.sent));
        Ok((answer, won.upstream))
    }
}

/// How often a look-up waits for others that bring what it needs; then it asks for it itself.
const MOST_ROUNDS: usize = 3;
/// Callers who come at once, and each count their patience from their own beginning, end so near to each other.
const AT_ONCE: Duration = Duration::from_millis(5);

/// Whether what a call has failed of would be the same for one who waits until `patience`: it had as much time, or failed
/// of something else.
fn had_the_time(refusal: &Refusal, ended: Instant, patience: Instant) -> bool {
    refusal.code.row().outcome != Outcome::UpstreamTimeout || ended + AT_ONCE >= patience
}

/// What a call of the gateway's own needs that goes on when its caller leaves.
struct Own {
    worker: Arc<Worker>,
    running: Arc<Running>,
    client: Arc<Client>,
    owner: Option<Arc<str>>,
    kb_version: KbVersion,
    request_id: HeaderValue,
    trace: Option<SpanContext>,
    deadline: Instant,
}

impl Own {
    fn of(consult: &Consult<'_>, deadline: Instant) -> Self {
        Self {
            worker: consult.worker.clone(),
            running: consult.running.clone(),
            client: consult.client.clone(),
            owner: consult.owner.cloned(),
            kb_version: consult.kb_version.clone(),
            request_id: consult.request_id.clone(),
            trace: consult.trace.copied(),
            deadline,
        }
    }

    /// The look-up that it came from, as it goes on without its caller: nobody is told of the nearest question.
    fn consult(&self) -> Consult<'_> {
        let Self { worker, running, client, owner, kb_version, request_id, trace, deadline } = self;
        let (owner, trace, deadline, tells_near) = (owner.as_ref(), trace.as_ref(), *deadline, false);
        Consult { worker, running, client, owner, kb_version, request_id, trace, deadline, tells_near }
    }
}

/// The tries of a call of the gateway's own. They are booked when it is over, also where nobody waited for its end.
struct Account<'a> {
    live: &'a Live,
    route: &'a Arc<str>,
    endpoint: Endpoint,
    home: &'a str,
    tries: Tries,
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        let mut tries = std::mem::replace(&mut self.tries, Tries::new(self.live.clock));
        tries.end(AttemptOutcome::Cancelled, None);
        let (route, endpoint, (attempts, spending)) = (self.route, self.endpoint, tries.so_far());
        let began = self.live.clock.wall().saturating_sub(tries.age());
        let own = OwnCall { parent: tries.parent.as_deref(), route, endpoint, began, attempts, spending };
        self.live.book_own(&own, self.home);
    }
}

/// A question as an embeddings route is asked for its vector.
///
/// # Errors
/// What the route's own parameter policy refuses.
pub fn put(route: &Route, text: &str) -> Result<Ask, Refusal> {
    let (model, input) = (quoted(&route.model), quoted(text));
    let body = format!(r#"{{"model":{model},"input":{input},"encoding_format":"base64"}}"#);
    shaped(route, Endpoint::Embeddings, body)
}

/// What decides a vector beside the question, where an embeddings route is asked for it; `None` where it may be asked for none.
pub fn manner(route: &Route) -> Option<Box<[u8]>> {
    let mut deciding = Vec::new();
    embeddings::deciding(&put(route, "").ok()?, &mut |piece| deciding.extend_from_slice(piece)).ok()?;
    Some(deciding.into())
}

/// What goes out, within the route's own parameters.
fn shaped(route: &Route, endpoint: Endpoint, body: String) -> Result<Ask, Refusal> {
    let ask = Ask::read(endpoint, None, body.into())?;
    params::apply(ask, &route.params, &Policy::default(), &mut |_| {})
}

/// Never told to a caller.
fn unfit() -> Refusal {
    Refusal::new(Code::UpstreamBadResponse, "no answer that questions can be compared by")
}
