//! The spine: one request from its head to its answer, step by step. The only module that knows
//! the steps and their order.

mod answers;
mod cacheable;
mod errands;
mod health;
mod joining;
mod keep;
mod lead;
mod listening;
mod seek;
mod vectors;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base::{Code, Endpoint, Outcome, Refusal};
use bytes::Bytes;
use config::{Client, OnFailure, Route, Snapshot};
use dialect::Ask;
use dialect::images;
use errands::Errands;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use seek::Seeker;
use tokio::sync::watch;

use crate::attempt::Landed;
use crate::bodies::read::{Unread, throw_away};
use crate::cache::flights::{self, Form, Head, Rider};
use crate::caller::Caller;
use crate::caller::socket::Presence;
use crate::degrade::{self, Softened};
use crate::pursue::Won;
use crate::recall::{Found, Recallable};
use crate::relay::{Passage, Relay};
use crate::reply::Reply;
use crate::reply::flight_body::FlightBody;
use crate::running::Running;
use crate::shape::Shaped;
use crate::trail::Trail;
use crate::worker::Worker;
use crate::{admit, caller::headers, identify, models, recall, records::telemetry, refuse, shape, understand};

/// What the requests of one connection share.
#[derive(Debug)]
pub struct Connection {
    /// Who serves it.
    pub worker: Arc<Worker>,
    /// The caller's socket.
    pub presence: Presence,
    /// Becomes true when the gateway stops waiting for answers to end.
    pub cut: watch::Receiver<bool>,
}

/// The caller left: nobody reads what would be answered.
#[derive(Debug)]
pub struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the caller left")
    }
}

impl std::error::Error for Gone {}

/// How a request ends before its answer begins.
enum End {
    Refused(Refusal),
    /// The path takes this method only.
    Method(Method),
    Gone,
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unread> for End {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Refused(refusal) => Self::Refused(refusal),
            Unread::Gone => Self::Gone,
        }
    }
}

/// One request being served.
pub type Serving = Pin<Box<dyn Future<Output = Result<Response<Reply>, Gone>> + Send>>;

/// Serves one request. Cancel-safe: dropped at any await, everything taken is given back and the
/// record says that the caller left. The record begins with this call, not with the first poll, for
/// a caller may leave in between.
///
/// # Errors
/// [`Gone`] when the caller left; its connection is to be closed.
pub fn serve(connection: Arc<Connection>, request: Request<Incoming>) -> Serving {
    let worker = &connection.worker;
    if let Some(health) = health::answer(worker.live.is_draining(), &request) {
        return Box::pin(async move {
            connection.presence.idle();
            Ok(health)
        });
    }
    let request_id = headers::request_id(request.headers(), identify::presented(request.headers()), &worker.dice);
    let trail = Trail::begin(worker.live.clone(), worker.per_worker.clone(), request_id);
    let (parts, body) = request.into_parts();
    answered(connection, parts, body, trail)
}

/// No `async fn`: that would keep room for each of its arguments twice, and every call carries what
/// its future holds.
fn answered(connection: Arc<Connection>, parts: Parts, body: Incoming, mut trail: Trail) -> Serving {
    Box::pin(async move {
        let told = tokio::select! {
            biased;
            told = tell(&connection, &parts, body, &mut trail) => told,
            () = connection.presence.cut_short() => Err(End::Refused(shutting_down())),
        };
        let content = trail.content.clone();
        let response = match told {
            Ok(Told::Leads(lead)) => Box::pin(lead::lead(&connection, *lead, trail)).await,
            Ok(Told::Gathers(quest)) => Box::pin(vectors::lead(&connection, *quest, trail)).await,
            told => end(&connection, told, trail),
        };
        match content {
            None => response,
            Some(content) => response.map(|response| listening::to(response, content)),
        }
    })
}

/// Turns what the story comes to into a response.
fn end(connection: &Connection, told: Result<Told, End>, trail: Trail) -> Result<Response<Reply>, Gone> {
    match told {
        Ok(Told::Whole(body, outcome)) => {
            connection.presence.idle();
            Ok(answers::own(body, outcome, trail))
        }
        Ok(Told::Kept(found, running, route)) => {
            connection.presence.idle();
            Ok(answers::kept(*found, &running, &route, &connection.worker.live, trail))
        }
        Ok(Told::Shared(landed, body, form)) => {
            connection.presence.idle();
            Ok(answers::landed(&landed, body, form != Form::Whole, trail))
        }
        Ok(Told::Rides(rider, head)) => Ok(rides(connection, rider, &head, trail)),
        Ok(Told::Leads(_) | Told::Gathers(_)) => Err(Gone),
        Ok(Told::Won(won)) => Ok(answer(connection, *won, trail)),
        Err(End::Refused(refusal)) => {
            connection.presence.idle();
            Ok(refuse::refuse(&refusal, trail))
        }
        Err(End::Method(only)) => {
            connection.presence.idle();
            let refusal = Refusal::new(Code::MethodNotAllowed, format!("this path takes {only} only"));
            let mut response = refuse::refuse(&refusal, trail);
            // RFC 9110, section 15.5.6: a 405 names what is allowed.
            response.headers_mut().insert(header::ALLOW, headers::named(only.as_str()));
            Ok(response)
        }
        Err(End::Gone) => Err(Gone),
    }
}

/// What the story comes to.
enum Told {
    /// The gateway's own answer, and how the request counts that has it.
    Whole(Bytes, Outcome),
    /// An upstream's.
    Won(Box<Answered>),
    /// A stored one.
    Kept(Box<Found>, Arc<Running>, Arc<Route>),
    /// That of another's call, whole.
    Shared(Arc<flights::Landed>, Bytes, Form),
    /// That of another's call, as it comes.
    Rides(Rider, Head),
    /// Others may wait for it too.
    Leads(Box<cacheable::Lead>),
    /// It is put together of vectors, stored ones among them.
    Gathers(Box<vectors::Quest>),
}

/// An upstream's answer, and to what.
struct Answered {
    won: Won,
    ask: Ask,
    route: Arc<Route>,
}

/// The story of one request.
async fn tell(connection: &Connection, parts: &Parts, mut body: Incoming, trail: &mut Trail) -> Result<Told, End> {
    let worker = &*connection.worker;
    let running = worker.per_worker.running();
    trail.trace(telemetry::begin(&running.snapshot, parts, &worker.dice));
    let (wanted, client) = match early(&worker.live, &running, parts, trail) {
        Ok(known) => known,
        Err(end) => {
            if !parts.headers.contains_key(header::EXPECT) {
                // Read what is on its way, so that the refusal reaches a caller who sends first.
                Box::pin(throw_away(&mut body, 1 << 20, &connection.presence)).await;
            }
            return Err(end);
        }
    };
    let endpoint = match wanted {
        Wanted::Models(which) => {
            let body = models::answer(&running.snapshot, &client, &which)?;
            return Ok(Told::Whole(body.into(), Outcome::Ok));
        }
        Wanted::Endpoint(endpoint) => Some(endpoint),
        Wanted::Lookup => None,
    };
    let headers = &parts.headers;
    let of = endpoint.unwrap_or(Endpoint::Chat);
    let body = understand::body(&running, of, headers, body, &connection.presence).await?;
    let ask = read(&running.snapshot, &client, endpoint, headers, body)?;
    if endpoint.is_some() {
        trail.record.fingerprints = fingerprints(&worker.live, headers, &ask);
    }
    listening::begin(&worker.live, &running, headers, &ask, trail);
    let route = understand::route(&running.snapshot, &client, &ask)?.clone();
    let on = running.on(&route).ok_or_else(internal)?;
    trail.on_route(&route.name, on.state.shown.clone(), on.state.counts.inflight.clone());
    headers::check_side_effects(headers)?;
    let deadline = trail.began() + deadline(&route, &client, headers)?;
    let caller = Caller { client: &client, headers, deadline };
    let fingerprint = recall::fingerprint(&ask, headers);
    admit::admit(on, caller, &ask, trail).await?;
    let shaped = shape::shape(ask, on, caller, &worker.live.tokenizers, trail).await?;
    admit::weigh(&route, &client, &shaped.ask, trail);
    let errands = Errands::of(on, caller, &shaped.ask, worker, trail).await;
    if errands.depends(&route, &shaped.ask) && fingerprint.is_none() {
        let worker = connection.worker.clone();
        let quest = vectors::Quest { worker, running, client, route, shaped, errands, deadline };
        return Ok(Told::Gathers(Box::new(quest)));
    }
    if route.cache.is_on() || fingerprint.is_some() {
        let sought = Recallable { ask: &shaped.ask, first: errands.first, fingerprint };
        if let Some(wish) = recall::wish(&worker.live, on, caller, sought, trail)? {
            let mut call =
                cacheable::Cacheable { running, route, client, shaped, errands, deadline, wish, asked: None };
            if let Some(found) = recall::at_hand(&worker.live, &call.wish) {
                return Ok(call.found(connection, found));
            }
            call.read_question(headers, trail)?;
            return match endpoint {
                Some(_) => Box::pin(call.told(connection, trail)).await,
                None => Box::pin(call.looked_up(connection, trail)).await,
            };
        }
    }
    if endpoint.is_none() {
        return Err(cacheable::miss(&route).into());
    }
    let seeker = Seeker { worker: &connection.worker, on, client: &client, errands: &errands, deadline };
    match seeker.seek(&shaped, trail).await {
        Ok(won) => Ok(Told::Won(Box::new(Answered { won, ask: shaped.ask, route }))),
        Err(refusal) => soften(refusal, degrade::wished(&route, &client), &shaped.ask, trail),
    }
}

/// What is known of the body of a call, or of a look-up before one.
fn read(
    snapshot: &Snapshot,
    client: &Client,
    endpoint: Option<Endpoint>,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Ask, Refusal> {
    match endpoint {
        Some(endpoint) => understand::ask(snapshot, client, endpoint, headers, body),
        None => Ask::read_lookup(body),
    }
}

/// Softens a failure of the upstreams where nothing is stored.
fn soften(refusal: Refusal, wished: OnFailure, ask: &Ask, trail: &mut Trail) -> Result<Told, End> {
    match degrade::soften(refusal, wished, ask, || None::<Found>, trail) {
        Softened::Answer(body) => Ok(Told::Whole(body, Outcome::UpstreamDegraded)),
        Softened::Stale(_) => Err(internal().into()),
        Softened::Error(refusal) => Err(refusal.into()),
    }
}

/// By what a repeat of this call will be known. An id that the caller gave to several calls, as one question's embedding,
/// rerank and chat, is another one on each endpoint and route; a look-up has none, for the call that it comes before would be
/// taken for its repeat.
fn fingerprints(live: &crate::live::Live, headers: &HeaderMap, ask: &Ask) -> [u64; 2] {
    let of = |bytes: &[u8]| live.fingerprints.of(ask.endpoint, &ask.model, bytes);
    [headers.get(headers::REQUEST_ID).map_or(0, |id| of(id.as_bytes())), of(&ask.body)]
}

/// What a request's line asks for.
enum Wanted {
    Endpoint(Endpoint),
    Models(models::Wanted),
    /// Whether a chat call is answered already.
    Lookup,
}

impl Wanted {
    /// Its path below `/v1/`, however the caller has written it.
    const fn path(&self) -> &'static str {
        match self {
            Self::Endpoint(endpoint) => endpoint.tail(),
            Self::Models(_) => "models",
            Self::Lookup => "cache/lookup",
        }
    }
}

/// What can be decided before the body is read.
fn early(
    live: &crate::live::Live,
    running: &Running,
    parts: &Parts,
    trail: &mut Trail,
) -> Result<(Wanted, Arc<Client>), End> {
    if live.is_draining() {
        return Err(shutting_down().into());
    }
    let path = parts.uri.path();
    let models = models::of_path(path).map(Wanted::Models);
    let wanted = models.or_else(|| Endpoint::of_path(path).map(Wanted::Endpoint));
    let wanted = wanted.or_else(|| is_lookup(path).then_some(Wanted::Lookup));
    let Some(wanted) = wanted else {
        let message = "no such path here; the model endpoints are /v1/chat/completions, /v1/embeddings, /v1/rerank and /v1/models, \
                       and an SDK's base URL ends with /v1";
        return Err(Refusal::new(Code::NotFound, message).into());
    };
    trail.record.endpoint = match wanted {
        Wanted::Endpoint(endpoint) => Some(endpoint),
        Wanted::Lookup => Some(Endpoint::Chat),
        Wanted::Models(_) => None,
    };
    if let Some(trace) = &mut trail.record.trace {
        trace.path = Some(wanted.path());
    }
    let method = if matches!(wanted, Wanted::Models(_)) { Method::GET } else { Method::POST };
    if parts.method != method {
        return Err(End::Method(method));
    }
    let client = identify::caller(live, &running.snapshot, &parts.headers)?;
    trail.record.client = Some(client.name.clone());
    trail.priority = client.priority;
    if !matches!(wanted, Wanted::Models(_)) {
        admit::peek(running, client, &parts.headers, trail)?;
    }
    Ok((wanted, client.clone()))
}

/// Whether a path is that of look-ups, as callers write it.
fn is_lookup(path: &str) -> bool {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.skip_while(|part| *part == "v1").eq(["cache", "lookup"])
}

/// How long the whole call may take: what the route, the client and the caller's own word allow.
fn deadline(route: &Route, client: &Client, headers: &HeaderMap) -> Result<Duration, Refusal> {
    let shorter = [client.deadline, headers::timeout(headers)?].into_iter().flatten();
    Ok(shorter.fold(route.deadline, Duration::min))
}

impl Seeker<'_> {
    /// From a request that is understood to an answer: an upstream's, or vectors of which some are stored.
    async fn seek(&self, shaped: &Shaped, trail: &mut Trail) -> Result<Won, Refusal> {
        if self.errands.depends(self.on.route, &shaped.ask) {
            let shared_call = Arc::default();
            let gathering = vectors::Gathering { seeker: *self, shaped, shared_call: &shared_call };
            return Box::pin(gathering.all(trail)).await;
        }
        self.seek_upstream(shaped, trail).await
    }
}

fn internal() -> Refusal {
    Refusal::new(Code::InternalError, "the route has no state; please report this")
}

fn shutting_down() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the gateway is stopping; send the call again").after(Duration::from_secs(1))
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// An upstream's answer.
fn answer(connection: &Connection, answered: Answered, mut trail: Trail) -> Response<Reply> {
    let Answered { won, ask, route } = answered;
    trail.answered_by(&won.upstream);
    trail.record.status = 200;
    let Won { landed, upstream, shown, visit, is_counted } = won;
    let opened = match landed {
        Landed::Stream(opened) => opened,
        Landed::Whole(answer) => {
            let (body, head) = answers::whole(answer, shown, is_counted, &ask, &mut trail);
            let mut response = Response::new(Reply::whole(body));
            *response.headers_mut() = trail.conclude(head, Some(base::AttemptOutcome::Ok), Outcome::Ok);
            connection.presence.idle();
            return response;
        }
    };
    connection.presence.answering();
    let headers = answers::begun(&shown, opened.raw.as_ref(), &mut trail);
    let prompt_guess = ask.prompt_estimate(|| images::worth(std::iter::once(&*upstream.sent)));
    let passage = Passage {
        worker: connection.worker.clone(),
        upstream,
        visit,
        timeout: route.timeout,
        presence: connection.presence.clone(),
        cut: connection.cut.clone(),
        prompt_guess,
    };
    let mut response = Response::new(Reply::Stream(Box::new(Relay::new(*opened, passage, trail))));
    *response.headers_mut() = headers;
    response
}

/// An answer that comes from another's call.
fn rides(connection: &Connection, rider: Rider, head: &Head, mut trail: Trail) -> Response<Reply> {
    connection.presence.answering();
    trail.record.status = 200;
    trail.cache_id = head.id;
    trail.first_content();
    let raw = (!head.is_events).then_some(&head.content_type);
    let headers = answers::begun(&head.shown, raw, &mut trail);
    let ride = FlightBody::new(rider, Some(trail), connection.presence.clone(), head.is_events);
    let mut response = Response::new(Reply::Flight(Box::new(ride)));
    *response.headers_mut() = headers;
    response
}
