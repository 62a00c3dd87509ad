//! One try at one upstream, up to a whole answer or the first content of a stream.

use std::time::Instant;

use base::{Class, Endpoint, Fault, Kind};
use bytes::{Bytes, BytesMut};
use config::{Provider, Upstream};
use dialect::{Added, Answer, Ask, Decode, Refused, Target};
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::Full;
use rules::pursuit::{Circumstances, Step};

use self::label::{Label, Shape};
use self::passthrough::Raw;
use crate::bodies::decompress::Decompress;
use crate::caller::headers;
use crate::net::{Checkout, Flow, Line, Outgoing, SendFault, request_target};
use crate::running::AtUpstream;
use crate::worker::Worker;
use source::Source;

mod label;
mod passthrough;
mod source;

/// A whole answer is held in memory up to here.
const LARGEST_ANSWER: usize = 128 << 20;
/// A refusal's body is read up to here; some servers repeat the whole request in it.
const LARGEST_REFUSAL: usize = 4 << 20;
/// Of a stream without content yet this much is held.
const LARGEST_OPENING: usize = 4 << 20;
/// What a compressed stream may unfold to in one piece.
const LARGEST_PIECE: usize = 16 << 20;

/// What goes into every try of one call.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// The request.
    pub ask: &'a Ask,
    /// Sent upstream as `x-request-id`.
    pub request_id: &'a HeaderValue,
    /// The span of this try, where the gateway tells of it.
    pub traceparent: Option<&'a HeaderValue>,
    /// What the caller has sent of its trace.
    pub passed: Option<&'a Passed>,
}

/// A caller's trace, as far as it goes on upstream.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The caller's own span, where the gateway tells of none.
    pub traceparent: Option<HeaderValue>,
    /// Goes beside a `traceparent`.
    pub tracestate: Option<HeaderValue>,
}

/// A stream whose first content is here.
pub struct Opened {
    /// The rest of it.
    pub flow: Option<Flow>,
    /// Reads it.
    pub decoder: Box<dyn Decode>,
    /// Decompresses it.
    pub inflate: Option<Decompress>,
    /// What the caller gets first.
    pub first: Bytes,
    /// `content-type` where it is not SSE.
    pub raw: Option<HeaderValue>,
}

/// What a successful try brings.
pub enum Landed {
    /// Everything at once.
    Whole(Answer),
    /// A stream.
    Stream(Box<Opened>),
}

/// Why it failed, and what else is to be known about it.
pub struct Missed {
    /// The fault.
    pub fault: Fault,
    /// For the pursuit.
    pub facts: Circumstances,
    /// It never got beyond waiting for a place among the gateway's own connections to the provider.
    pub in_line: bool,
}

/// Makes the try that `step` names. `until` is its clock; dropping the future closes the connection.
///
/// # Errors
/// Whatever went wrong, classed.
pub async fn attempt(
    worker: &Worker,
    errand: Errand<'_>,
    at: AtUpstream<'_>,
    step: &Step,
    until: Instant,
) -> Result<Landed, Missed> {
    let mut progress = Progress::default();
    let trying = exchange(worker, errand, at, step, &mut progress);
    let outcome = tokio::time::timeout_at(until.into(), trying).await;
    let Progress { facts, line } = progress;
    match outcome {
        Ok(Ok(landed)) => Ok(landed),
        Ok(Err(fault)) => Err(Missed { fault, facts, in_line: line.is_waiting }),
        Err(_elapsed) => {
            let kind = if errand.ask.stream { Kind::FirstByte } else { Kind::Timeout };
            // Before there is a connection nothing of the call can have left.
            let fault =
                Fault { maybe_processed: line.is_over, ..Fault::upstream(kind, "the upstream did not answer in time") };
            Err(Missed { fault, facts: Circumstances { stale: false, ..facts }, in_line: line.is_waiting })
        }
    }
}

/// How far a try has come, also where its clock ends it.
#[derive(Default)]
struct Progress {
    facts: Circumstances,
    line: Line,
}

async fn exchange(
    worker: &Worker,
    errand: Errand<'_>,
    at: AtUpstream<'_>,
    step: &Step,
    progress: &mut Progress,
) -> Result<Landed, Fault> {
    let Progress { facts, line } = progress;
    let upstream = at.upstream;
    let target = target(errand.ask, at, step);
    if wants_vocabulary(errand.ask, upstream, &target) {
        let model = errand.ask.model.clone();
        // Other calls of this worker must not wait for it. A load that fails shows in the encoding.
        let _ = tokio::task::spawn_blocking(move || dialect::load_vocabulary(&model)).await;
    }
    let (request, added) = request(errand, at, &target, step.target.key)?;
    facts.added_stream_options = added.stream_options;
    facts.carried_token_arrays = added.token_arrays && upstream.provider.token_arrays == dialect::TokenArrays::Auto;
    let how = if step.manner.fresh { Checkout::Fresh } else { Checkout::Any };
    let link = worker.transport.checkout(&upstream.provider, how, line).await?;
    line.is_over = true;
    let reused = link.reused;
    let (response, flow) = match link.send(request).await {
        Ok(answer) => answer,
        Err(fault) => {
            facts.stale = reused && !matches!(fault, SendFault::NotHttp(_));
            return Err(fault.fault());
        }
    };
    let call = Exchange { worker, ask: errand.ask, upstream, target };
    if response.status().is_success() {
        call.land(response, flow).await
    } else {
        Err(Box::pin(call.refused(response, flow)).await)
    }
}

fn target<'a>(ask: &'a Ask, at: AtUpstream<'a>, step: &Step) -> Target<'a> {
    use std::sync::atomic::Ordering::Relaxed;
    let AtUpstream { upstream, known } = at;
    let provider = &upstream.provider;
    Target {
        model: upstream.model.as_deref().unwrap_or(&ask.model),
        score: provider.score,
        ask_usage: !step.manner.without_stream_options && !known.learned.refuses_stream_options.load(Relaxed),
        decode_tokens: match provider.token_arrays {
            dialect::TokenArrays::Decode => true,
            dialect::TokenArrays::Pass => false,
            dialect::TokenArrays::Auto => step.manner.decode_tokens || known.learned.refuses_token_arrays.load(Relaxed),
        },
        base_path: &provider.base_path,
    }
}

/// Whether the request will hold texts in the place of the caller's token ids.
fn wants_vocabulary(ask: &Ask, upstream: &Upstream, target: &Target<'_>) -> bool {
    let dialect::View::Embeddings(view) = &ask.view else { return false };
    view.form.is_ids() && (target.decode_tokens || !upstream.provider.dialect.takes_token_ids())
}

const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
const ACCEPT_ANY: HeaderValue = HeaderValue::from_static("application/json, */*");

fn request(
    errand: Errand<'_>,
    at: AtUpstream<'_>,
    target: &Target<'_>,
    key: Option<usize>,
) -> Result<(Outgoing, Added), Fault> {
    let (ask, AtUpstream { upstream, known }) = (errand.ask, at);
    let provider = &upstream.provider;
    let encoded = provider.dialect.encode(ask, target).map_err(untranslatable)?;
    let Some(path) = upstream.paths.get(&ask.endpoint) else {
        return Err(Fault::upstream(Kind::Connect, "the upstream does not serve this endpoint"));
    };
    let mut request = http::Request::new(Full::new(encoded.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = request_target(provider, path.clone())?;
    let headers = request.headers_mut();
    *headers = known.headers(key);
    if let Some(kind) = &ask.content_type {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    let only_events = ask.stream && !ask.endpoint.is_audio();
    headers.insert(header::ACCEPT, if only_events { ACCEPT_EVENTS } else { ACCEPT_ANY });
    headers.insert(headers::REQUEST_ID, errand.request_id.clone());
    if let Some(parent) = errand.traceparent.or(errand.passed.and_then(|passed| passed.traceparent.as_ref())) {
        headers.insert(headers::TRACEPARENT, parent.clone());
        if let Some(state) = errand.passed.and_then(|passed| passed.tracestate.as_ref()) {
            headers.insert(headers::TRACESTATE, state.clone());
        }
    }
    Ok((request, encoded.added))
}

/// The caller's body cannot be said in this upstream's protocol: the caller's fault.
fn untranslatable(refusal: base::Refusal) -> Fault {
    let told = base::Told {
        status: refusal.status(),
        message: refusal.message.into_owned(),
        kind: Some(refusal.code.row().kind.to_owned()),
        param: refusal.param.map(std::borrow::Cow::into_owned),
        code: Some(refusal.code.row().code.to_owned()),
    };
    Fault {
        class: Class::Caller,
        told: Some(Box::new(told)),
        maybe_processed: false,
        ..Fault::upstream(Kind::Status, "the call cannot be put into the upstream's protocol")
    }
}

/// One answer being read.
struct Exchange<'a> {
    worker: &'a Worker,
    ask: &'a Ask,
    upstream: &'a Upstream,
    target: Target<'a>,
}

impl Exchange<'_> {
    async fn land(&self, response: Response<()>, flow: Flow) -> Result<Landed, Fault> {
        let (head, ()) = response.into_parts();
        let label = Label(head.headers.get(header::CONTENT_TYPE));
        let shape = Shape::of(self.ask, label);
        let bound = if shape == Shape::Json { LARGEST_ANSWER } else { LARGEST_PIECE };
        let mut source = Source { flow, inflate: inflate(&head.headers, bound)?, begun: None, ended: false };
        match shape {
            Shape::Events => {
                let is_of_lines =
                    self.upstream.provider.protocol == dialect::Protocol::Ollama || label.is_lines_of_json();
                // No event begins with a brace: that is one whole JSON text.
                if !is_of_lines && source.peek().await? == Some(b'{') {
                    return self.judge(source, &head.headers).await;
                }
                let decoder = self.upstream.provider.dialect.decoder(self.ask, &self.target);
                let opened = Box::pin(self.open(source, decoder, None)).await;
                opened.map_err(|fault| match fault.kind {
                    // A page, or nothing at all: events were never meant.
                    Kind::Cut if !label.is_events() && !label.is_lines_of_json() => {
                        Fault { usage: fault.usage, ..self.scrubbed(label.no_answer()) }
                    }
                    _ => fault,
                })
            }
            Shape::Sound => self.sound(source, &head.headers, label).await,
            Shape::Json => self.judge(source, &head.headers).await,
        }
    }

    /// Sound, or a transcript in the form that the caller asked for: passed on unless it is plainly something else.
    async fn sound(&self, mut source: Source, headers: &HeaderMap, label: Label<'_>) -> Result<Landed, Fault> {
        let is_speech = self.ask.endpoint == Endpoint::AudioSpeech;
        if label.may_be_text() {
            let first = source.peek().await?;
            if first == Some(b'{') {
                return self.judge(source, headers).await;
            }
            // Some servers label plain transcripts as pages, so what it says counts too.
            let is_page = first == Some(b'<') && !label.is("text/plain");
            if is_page || (is_speech && label.is("text/")) {
                return Err(self.scrubbed(label.no_answer()));
            }
        }
        let raw = label.0.cloned().unwrap_or(HeaderValue::from_static("application/octet-stream"));
        // Where nobody speaks, the transcript is an empty text.
        let may_be_empty = !is_speech && label.is("text/");
        Box::pin(self.open(source, Box::new(Raw::new(may_be_empty)), Some(raw))).await
    }

    /// A whole answer, judged by the protocol.
    async fn judge(&self, source: Source, headers: &HeaderMap) -> Result<Landed, Fault> {
        let body = self.read_whole(source, LARGEST_ANSWER).await?;
        let judged = self.upstream.provider.dialect.answer(self.ask, &self.target, headers, body.clone());
        let judged = judged.map_err(|fault| {
            let usage = dialect::usage_in(&body).map(Box::new);
            Fault { usage, ..self.scrubbed(fault) }
        });
        Ok(Landed::Whole(judged?))
    }

    /// Reads a stream up to its first content.
    async fn open(
        &self,
        mut source: Source,
        mut decoder: Box<dyn Decode>,
        raw: Option<HeaderValue>,
    ) -> Result<Landed, Fault> {
        let mut gathered = BytesMut::new();
        let mut first = Bytes::new();
        let ended = loop {
            let piece = match source.next().await {
                Ok(piece) => piece,
                // What the stream has said of its usage before it broke is owed.
                Err(fault) => return Err(Fault { usage: decoder.progress().usage.map(Box::new), ..fault }),
            };
            let ended = piece.is_none();
            let out = match piece {
                Some(piece) => decoder.feed(piece),
                None => decoder.finish(),
            };
            if let Some(fault) = decoder.progress().fault.clone() {
                return Err(Fault { usage: decoder.progress().usage.map(Box::new), ..self.scrubbed(fault) });
            }
            if gathered.is_empty() && first.is_empty() {
                first = out;
            } else {
                if gathered.is_empty() {
                    gathered.extend_from_slice(&first);
                }
                gathered.extend_from_slice(&out);
            }
            if gathered.len() > LARGEST_OPENING {
                let usage = decoder.progress().usage.map(Box::new);
                let fault = Fault::upstream(Kind::BadResponse, "the stream opened at length and said nothing");
                return Err(Fault { usage, ..fault });
            }
            if decoder.progress().content || ended {
                break ended;
            }
        };
        if !gathered.is_empty() {
            first = gathered.freeze();
        }
        let Source { flow, inflate, .. } = source;
        let flow = if ended {
            self.put_back(flow);
            None
        } else {
            Some(flow)
        };
        Ok(Landed::Stream(Box::new(Opened { flow, decoder, inflate, first, raw })))
    }

    async fn refused(&self, response: Response<()>, flow: Flow) -> Fault {
        let (head, ()) = response.into_parts();
        // A refusal whose body cannot be read is still a refusal.
        let body = match inflate(&head.headers, LARGEST_REFUSAL) {
            Ok(inflate) => {
                let source = Source { flow, inflate, begun: None, ended: false };
                self.read_whole(source, LARGEST_REFUSAL).await.unwrap_or_default()
            }
            Err(_unreadable) => Bytes::new(),
        };
        let refused = Refused {
            status: head.status.as_u16(),
            headers: &head.headers,
            body: &body,
            wall: self.worker.live.clock.wall(),
        };
        self.scrubbed(self.upstream.provider.dialect.fault(self.ask, &refused))
    }

    fn scrubbed(&self, fault: Fault) -> Fault {
        scrubbed(&self.upstream.provider, fault)
    }

    async fn read_whole(&self, source: Source, most: usize) -> Result<Bytes, Fault> {
        let (body, flow) = source.whole(most, &self.worker.live.resources.buffered).await?;
        self.put_back(flow);
        Ok(body)
    }

    fn put_back(&self, flow: Flow) {
        if let Some(link) = flow.into_link(self.worker.live.clock.now()) {
            self.worker.transport.put_back(&self.upstream.provider, link);
        }
    }
}

/// An upstream's words may repeat its key or its address: neither leaves the gateway.
#[must_use]
pub fn scrubbed(provider: &Provider, mut fault: Fault) -> Fault {
    let secrets: smallvec::SmallVec<[&str; 4]> = provider.secrets().collect();
    let authority = provider.origin.authority();
    let proxy = provider.proxy.as_ref().map(|proxy| proxy.origin.authority()).unwrap_or_default();
    let hosts = [authority.as_str(), provider.origin.host.as_str(), proxy.as_str()];
    fault.message = dialect::errors::scrub(&fault.message, &secrets, &hosts);
    if let Some(told) = fault.told.as_deref_mut() {
        for told in [Some(&mut told.message), told.param.as_mut(), told.code.as_mut(), told.kind.as_mut()] {
            let Some(told) = told else { continue };
            *told = dialect::errors::scrub(told, &secrets, &hosts);
        }
    }
    fault
}

fn inflate(headers: &HeaderMap, bound: usize) -> Result<Option<Decompress>, Fault> {
    Decompress::of(headers, bound)
        .map_err(|coding| Fault::upstream(Kind::BadResponse, format!("the answer's coding `{coding}` is not known")))
}

/// Decompresses one piece.
///
/// # Errors
/// A fault when it is not of its coding.
pub fn unfold(inflate: &mut Option<Decompress>, piece: Bytes) -> Result<Bytes, Fault> {
    match inflate {
        None => Ok(piece),
        Some(inflate) => inflate.feed(&piece).map_err(unreadable),
    }
}

/// What a decompressor still holds.
///
/// # Errors
/// A fault when the data stopped half-way.
pub fn unfold_rest(inflate: &mut Option<Decompress>) -> Result<Bytes, Fault> {
    match inflate {
        None => Ok(Bytes::new()),
        Some(inflate) => inflate.finish().map_err(unreadable),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn unreadable(error: std::io::Error) -> Fault {
    Fault::upstream(Kind::BadResponse, format!("the answer's compression is broken: {error}"))
}

/// Two pieces as one, copied only where both hold something.
#[must_use]
pub fn joined(one: Bytes, two: Bytes) -> Bytes {
    if two.is_empty() {
        return one;
    }
    if one.is_empty() {
        return two;
    }
    let mut both = BytesMut::with_capacity(one.len() + two.len());
    both.extend_from_slice(&one);
    both.extend_from_slice(&two);
    both.freeze()
}
