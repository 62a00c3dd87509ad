//! A caller's request: what the gateway must know of it, beside the bytes as they came.

mod attached;
mod estimate;
mod fields;
mod lookup;
mod multipart;

use std::borrow::Cow;

use base::{Code, Endpoint, Refusal, nearest};
use bytes::Bytes;

use crate::json::{self, Kind, Patch, Span, Value};
use crate::{embeddings, rerank};

pub use estimate::{Amount, Estimate, Written};
pub use fields::Fields;

/// The longest model name that is taken, bytes.
pub const MODEL_MAX: usize = 512;

/// One request, read once.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is asked for.
    pub endpoint: Endpoint,
    /// The body as it came, gateway-only fields (`mai`, `metadata.mai_tag`) removed.
    pub body: Bytes,
    /// The request's content type where the body is not JSON (multipart of the audio and image
    /// endpoints): sent on as it came.
    pub content_type: Option<http::HeaderValue>,
    /// The model name that the caller wrote.
    pub model: String,
    /// Whether the caller wants a stream.
    pub stream: bool,
    /// `metadata.mai_tag`
    pub tag: Option<String>,
    /// `mai.query`
    pub query: Option<String>,
    /// What else is known, by endpoint.
    pub view: View,
    /// Where edits go.
    pub spans: Spans,
}

/// Where in [`Ask::body`] the things stand that adapters edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// The whole object; empty for a body that is not JSON.
    pub object: Span,
    /// The value of `model`: with its quotes in JSON, bare in a multipart form.
    pub model: Span,
}

/// What is known of a body, by endpoint.
#[derive(Clone, Debug)]
pub enum View {
    /// Chat completions.
    Chat(Chat),
    /// Legacy completions.
    Completions(Chat),
    /// Embeddings.
    Embeddings(embeddings::View),
    /// Rerank.
    Rerank(rerank::View),
    /// Responses, and what an answer may be long: `max_output_tokens`, which what is thought is a part of.
    Responses(Option<u64>),
    /// Passed through; only the model is known.
    Pass,
}

/// What is known of a call that generates text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// How many choices are asked for: `n` (1 where absent or nonsense), for each prompt.
    pub choices: u64,
    /// `stream_options.include_usage` as the caller wrote it.
    pub include_usage: Option<bool>,
    /// The value of `stream_options`, be it null.
    pub stream_options: Option<Span>,
    /// The body has `tools` or `functions`.
    pub has_tools: bool,
    /// How many answers are written for those: `best_of` where that is more than `n`, for each prompt.
    pub drafts: u64,
    /// The larger of `max_completion_tokens` and `max_tokens`: what each choice may be long.
    pub max_tokens: Option<u64>,
    /// `n` as the caller wrote it.
    pub n: Option<u64>,
    /// `best_of` as the caller wrote it.
    pub best_of: Option<u64>,
    /// How many prompts a legacy completion has; 1 of chat.
    pub prompts: u64,
    /// `thinking_budget`: what may be thought before each; 0 where nothing is written.
    pub thinking: u64,
}

impl Ask {
    /// Reads a body. `content_type` is the request's header.
    ///
    /// # Errors
    /// `invalid_json` or `invalid_request` that names the field.
    pub fn read(endpoint: Endpoint, content_type: Option<&http::HeaderValue>, body: Bytes) -> Result<Self, Refusal> {
        Self::read_with(endpoint, content_type, body, || None)
    }

    /// The same for a caller of whom it is known which model it must mean: `only` is asked where a body cannot name one,
    /// as that of text-embeddings-inference's clients, which know one server with one model. What it says is written into
    /// the body.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn read_with<'m>(
        endpoint: Endpoint,
        content_type: Option<&http::HeaderValue>,
        body: Bytes,
        only: impl FnOnce() -> Option<&'m str>,
    ) -> Result<Self, Refusal> {
        if !endpoint.is_understood()
            && let Some(content_type) = content_type
            && let Some(boundary) = multipart::boundary(content_type.as_bytes())
        {
            return Self::read_form(endpoint, content_type, &boundary, body);
        }
        let body = if body.starts_with(b"\xef\xbb\xbf") { body.slice(3..) } else { body };
        let fields = Fields::read(endpoint, &body)?;
        let mut hints = Hints::read(&fields)?;
        if is_unnamed(endpoint, &fields) {
            let model = only().ok_or_else(no_model)?;
            hints.patch.insert(fields.object(), "model", &json::quoted(model));
        }
        if hints.patch.is_empty() {
            return Self::read_fields(endpoint, &body, &fields, hints);
        }
        // Places change with the removal, so the rest is read from what remains.
        let Hints { tag, query, patch } = hints;
        let body = patch.apply(&body);
        let fields = Fields::read(endpoint, &body)?;
        Self::read_fields(endpoint, &body, &fields, Hints { tag, query, patch: Patch::new() })
    }

    fn read_fields(endpoint: Endpoint, body: &Bytes, fields: &Fields<'_>, hints: Hints) -> Result<Self, Refusal> {
        let (model, at) = model(fields)?;
        let stream = match fields.get("stream") {
            None => false,
            Some(value) => value.as_bool().ok_or_else(|| wrong_kind("stream", "a boolean", value))?,
        };
        let view = match endpoint {
            Endpoint::Chat => {
                let messages = fields.required("messages")?;
                if messages.kind() != Kind::Array {
                    return Err(wrong_kind("messages", "an array", messages));
                }
                if messages.is_empty() {
                    return Err(Refusal::field("messages", "'messages' must not be empty: give at least one message"));
                }
                View::Chat(chat(endpoint, fields))
            }
            Endpoint::Completions => {
                fields.required("prompt")?;
                View::Completions(chat(endpoint, fields))
            }
            Endpoint::Embeddings => View::Embeddings(embeddings::View::read(fields)?),
            Endpoint::Rerank => View::Rerank(rerank::View::read(fields)?),
            Endpoint::Responses => View::Responses(fields.get("max_output_tokens").and_then(whole)),
            _ => View::Pass,
        };
        Ok(Self {
            endpoint,
            body: body.clone(),
            content_type: None,
            model,
            stream,
            tag: hints.tag,
            query: hints.query,
            view,
            spans: Spans { object: fields.object(), model: at },
        })
    }

    fn read_form(
        endpoint: Endpoint,
        content_type: &http::HeaderValue,
        boundary: &[u8],
        body: Bytes,
    ) -> Result<Self, Refusal> {
        let part = |name| multipart::find(&body, boundary, name).map_err(|why| Refusal::field(name, why));
        let at = part("model")?
            .ok_or_else(|| Refusal::field("model", "the form has no part named 'model': say which model to use"))?;
        let model = body.get(at.range()).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::trim);
        let model = checked_model(model.map(Cow::Borrowed))?;
        let stream = part("stream")?.and_then(|at| body.get(at.range()));
        Ok(Self {
            endpoint,
            content_type: Some(content_type.clone()),
            model,
            stream: stream.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"true")),
            tag: None,
            query: None,
            view: View::Pass,
            spans: Spans { object: Span::default(), model: at },
            body,
        })
    }

    /// Hands over what a form says, all but its boundary, which clients choose anew for each call; false where the body is
    /// none.
    pub fn feed_form(&self, sink: &mut dyn FnMut(&[u8])) -> bool {
        let Some(boundary) = self.content_type.as_ref().and_then(|kind| multipart::boundary(kind.as_bytes())) else {
            return false;
        };
        multipart::feed(&self.body, &boundary, sink);
        true
    }

    /// The body with another model name, and nothing else changed: the very same bytes where the
    /// caller wrote that name already.
    #[must_use]
    pub fn with_model(&self, name: &str) -> Bytes {
        let mut patch = Patch::new();
        self.patch_model(&mut patch, name);
        patch.apply(&self.body)
    }

    /// Adds to a patch of the body what puts that model name in, unless it is there already.
    pub fn patch_model(&self, patch: &mut Patch<'_>, name: &str) {
        if name != self.model {
            let text = if self.content_type.is_some() { name.to_owned() } else { json::quoted(name) };
            patch.replace(self.spans.model, text);
        }
    }

    /// The view of a call that generates text.
    #[must_use]
    pub const fn chat(&self) -> Option<&Chat> {
        match &self.view {
            View::Chat(chat) | View::Completions(chat) => Some(chat),
            _ => None,
        }
    }
}

/// What only the gateway reads.
struct Hints {
    tag: Option<String>,
    query: Option<String>,
    /// What takes it out of the body.
    patch: Patch<'static>,
}

impl Hints {
    fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let mut hints = Self { tag: None, query: None, patch: Patch::new() };
        if let Some(mai) = fields.member("mai") {
            hints.patch.remove(mai);
            hints.query = match mai.value.kind() {
                Kind::Null => None,
                Kind::Object => query(mai.value)?,
                _ => return Err(wrong_kind("mai", "an object", mai.value)),
            };
        }
        if let Some(metadata) = fields.member("metadata")
            && let Some(tag) = metadata.value.members().find(|member| member.key == "mai_tag")
        {
            hints.tag = text("metadata.mai_tag", Some(tag.value))?;
            let is_alone = metadata.value.members().all(|member| member.key == "mai_tag");
            if is_alone {
                hints.patch.remove(metadata);
            } else {
                metadata
                    .value
                    .members()
                    .filter(|member| member.key == "mai_tag")
                    .for_each(|tag| hints.patch.remove(&tag));
            }
        }
        Ok(hints)
    }
}

/// What `mai` may hold.
const MAI: [&str; 1] = ["query"];
/// So many letters of a name that a caller made up are repeated to it.
const NAME_SHOWN: usize = 64;

/// `mai.query`. A member that nobody knows is a slip that nobody would notice, for the call is answered without it.
fn query(mai: Value<'_>) -> Result<Option<String>, Refusal> {
    let mut query = None;
    for member in mai.members() {
        if member.key != "query" {
            return Err(unknown_member(&member.key));
        }
        if query.replace(member.value).is_some() {
            return Err(Refusal::field("mai.query", "the field 'mai.query' stands twice in the body"));
        }
    }
    text("mai.query", query)
}

fn unknown_member(key: &str) -> Refusal {
    let visible = |letter: char| if base::unseen(letter).is_some() { '\u{fffd}' } else { letter };
    let mut shown: String = key.chars().take(NAME_SHOWN).map(visible).collect();
    if key.chars().nth(NAME_SHOWN).is_some() {
        shown.push('…');
    }
    let hint = match nearest(key, MAI) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it may hold: {}", MAI.join(", ")),
    };
    Refusal::field(format!("mai.{shown}"), format!("'mai' has no member '{shown}'; {hint}"))
}

/// An optional text; null counts as absent.
fn text(name: &'static str, value: Option<Value<'_>>) -> Result<Option<String>, Refusal> {
    match value {
        None => Ok(None),
        Some(value) if value.is_null() => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.into_owned())),
            None if value.kind() == Kind::String => Err(Refusal::field(name, format!("'{name}' is not valid text"))),
            None => Err(wrong_kind(name, "a string", value)),
        },
    }
}

fn chat(endpoint: Endpoint, fields: &Fields<'_>) -> Chat {
    let options = fields.member("stream_options").map(|member| member.value);
    let number = |name| fields.get(name).and_then(whole);
    // Which of the two counts hangs on the provider; legacy completions know one alone.
    let newer = (endpoint == Endpoint::Chat).then(|| number("max_completion_tokens")).flatten();
    let (n, best_of) = (number("n"), number("best_of"));
    let (each, prompts) = (n.unwrap_or(1).max(1), fields.get("prompt").map_or(1, prompts));
    Chat {
        choices: each.saturating_mul(prompts),
        drafts: each.max(best_of.unwrap_or(1)).saturating_mul(prompts),
        n,
        best_of,
        prompts,
        thinking: number("thinking_budget").unwrap_or_default(),
        include_usage: options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool),
        stream_options: options.map(Value::span),
        has_tools: fields.get("tools").or(fields.get("functions")).is_some_and(|tools| !tools.is_empty()),
        max_tokens: newer.max(number("max_tokens")),
    }
}

/// A whole number as upstreams read it, however it is written: `5000`, `5e3`, `5000.0`, and (vLLM) `"5000"`.
fn whole(value: Value<'_>) -> Option<u64> {
    let written = match value.kind() {
        Kind::Number => Cow::Borrowed(value.raw()),
        Kind::String => value.as_str()?,
        _ => return None,
    };
    let written = written.trim();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
    let rounded = || {
        written.parse().ok().filter(|number: &f64| *number >= 0.0 && number.fract() == 0.0).map(|number| number as u64)
    };
    written.parse().ok().or_else(rounded)
}

/// How many prompts a legacy completion holds: an array of texts or of token arrays is several.
fn prompts(prompt: Value<'_>) -> u64 {
    let is_several = prompt.elements().next().is_some_and(|first| matches!(first.kind(), Kind::String | Kind::Array));
    if is_several { prompt.elements().count() as u64 } else { 1 }
}

/// Whether this is a ranking in the form of text-embeddings-inference (`texts`), which has no model in it.
fn is_unnamed(endpoint: Endpoint, fields: &Fields<'_>) -> bool {
    endpoint == Endpoint::Rerank && fields.member("model").is_none() && fields.member("texts").is_some()
}

fn no_model() -> Refusal {
    Refusal::field(
        "model",
        "the field 'model' is missing; only a key that may use a single rerank route can do without",
    )
}

fn model(fields: &Fields<'_>) -> Result<(String, Span), Refusal> {
    let value = fields.required("model")?;
    if value.kind() != Kind::String {
        return Err(wrong_kind("model", "a string", value));
    }
    Ok((checked_model(value.as_str())?, value.span()))
}

fn checked_model(name: Option<Cow<'_, str>>) -> Result<String, Refusal> {
    let Some(name) = name else {
        return Err(Refusal::field("model", "'model' is not valid text"));
    };
    if name.trim().is_empty() {
        return Err(Refusal::field("model", "'model' must not be empty"));
    }
    if name.len() > MODEL_MAX {
        return Err(Refusal::field("model", format!("'model' is longer than {MODEL_MAX} bytes")));
    }
    Ok(name.into_owned())
}

/// A 400 about a field that is of another JSON type than it should be.
#[must_use]
pub fn wrong_kind(name: &'static str, wanted: &str, found: Value<'_>) -> Refusal {
    Refusal::field(name, format!("'{name}' must be {wanted}, not {}", found.kind().name()))
}

fn not_json(error: json::Error) -> Refusal {
    Refusal::new(Code::InvalidJson, format!("the body is not valid JSON: {error}"))
}

#[cfg(test)]
mod tests;
