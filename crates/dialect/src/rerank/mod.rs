//! The rerank endpoint: one request form and one answer form, whatever the provider's are.
//!
//! The request is a superset of Cohere's (v1, v2) and Jina's, with the names that Voyage and
//! text-embeddings-inference use as aliases; the answer can be read by the clients of all of them.

mod answer;
mod request;

use std::borrow::Cow;

use base::Refusal;

use crate::ask::{self, Ask, Fields};
use crate::json::{self, Kind, Span, Value};

pub use answer::{answer, degraded, join};
pub(crate) use answer::{counted, counted_units};
pub use request::{Wire, encode};

/// Top-level fields that the view reads.
pub const FIELDS: &[&str] = &[
    "query",
    "documents",
    "texts",
    "rank_fields",
    "top_n",
    "top_k",
    "return_documents",
    "return_text",
    "raw_scores",
    "max_tokens_per_doc",
    "max_chunks_per_doc",
    "overlap_tokens",
    "truncate",
    "truncation",
    "truncation_direction",
    "instruction",
    "instruct",
    "user",
];

/// Names in `rank_fields` at most: each is looked up in every document.
pub const RANK_FIELDS_MAX: usize = 16;

/// What is known of a rerank request. Spans are places in the caller's body.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What the documents are compared with.
    pub query: Text,
    /// At least one, in the caller's order.
    pub documents: Vec<Document>,
    /// How many results are wanted, at most as many as there are documents; all where absent.
    pub top_n: Option<usize>,
    /// Whether the answer repeats the documents.
    pub return_documents: bool,
    /// Whether the upstream's scores go back unchanged, whatever their scale.
    pub raw_scores: bool,
    /// The form that the caller's client can read.
    pub reply: Reply,
    /// What some upstreams take beside that.
    pub options: Options,
}

/// A JSON string: as it stands in the caller's body, or made of an object's fields.
#[derive(Clone, Debug)]
pub enum Text {
    /// Where it stands, quotes included.
    Written(Span),
    /// Quoted already.
    Made(Box<str>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Written(Span::default())
    }
}

impl Text {
    /// The string as JSON, quotes included.
    #[must_use]
    pub fn json<'a>(&'a self, body: &'a [u8]) -> &'a str {
        match self {
            Self::Written(span) => slice(body, *span),
            Self::Made(text) => text,
        }
    }
}

/// One document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where it stands as the caller wrote it: a string or an object.
    pub own: Span,
    /// The text that is ranked.
    pub text: Text,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// The unified form.
    #[default]
    Unified,
    /// The bare array of text-embeddings-inference, for a caller who wrote `texts`.
    Tei,
    /// The unified form with a copy of the results in `data`, documents as strings, for a caller
    /// who wrote `top_k`, as Voyage's client does.
    WithData,
}

/// Where a text is cut that is longer than the model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    /// Nowhere: the call fails.
    Never,
    /// Its start goes.
    Start,
    /// Its end goes.
    End,
}

/// Options that go to the upstreams which know them, and only where the caller gave them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Tokens of a document that are read, at least 1.
    pub max_tokens_per_doc: Option<u64>,
    /// Pieces that a long document is cut into, at least 1.
    pub max_chunks_per_doc: Option<u64>,
    /// Tokens that neighbouring pieces share.
    pub overlap_tokens: Option<u64>,
    /// What becomes of too long a text.
    pub truncate: Option<Truncate>,
    /// A JSON string: what relevance means here.
    pub instruction: Option<Span>,
    /// A JSON string: the caller's own user.
    pub user: Option<Span>,
}

impl View {
    /// Tokens that a reranker reads at most: the query once for each document, and the documents. So those
    /// count that bill tokens (pricing pages of Jina, Voyage, SiliconFlow and Alibaba Cloud: the query's tokens
    /// times the number of documents, plus the documents'), and so do servers of one's own, to which each pair is
    /// one text. `body` is the caller's.
    #[must_use]
    pub fn pairs(&self, body: &[u8]) -> u64 {
        let tokens = |text: &Text| base::estimate(text.json(body).as_bytes());
        let query = tokens(&self.query);
        let one = |document: &Document| query.saturating_add(tokens(&document.text));
        self.documents.iter().map(one).fold(0, u64::saturating_add).min(base::Usage::CEILING)
    }

    /// Search units by which others bill, whatever the tokens: one is a query with up to 100 documents
    /// (pricing pages of Cohere and of Amazon Bedrock, which count the chunks of a long document instead; how
    /// many those are, their answer tells).
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.documents.len().div_ceil(100) as u64
    }

    /// Reads the fields of a body.
    ///
    /// # Errors
    /// `invalid_request` that names the field.
    pub fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let query = fields.required("query")?;
        let query = match query.kind() {
            Kind::Object => query.get("text").unwrap_or(query),
            _ => query,
        };
        if query.kind() != Kind::String || query.is_empty() {
            return Err(Refusal::field("query", "'query' must be a text that is not empty"));
        }
        let (name, list) = match (fields.get("documents"), fields.get("texts")) {
            (None, Some(texts)) => ("texts", texts),
            (documents, _) => ("documents", documents.map_or_else(|| fields.required("documents"), Ok)?),
        };
        let documents = read_documents(name, list, &rank_fields(fields)?)?;
        let top_n = top_n(fields, documents.len())?;
        let reply = match (name, fields.get("top_n"), fields.get("top_k")) {
            ("texts", ..) => Reply::Tei,
            (_, None, Some(_)) => Reply::WithData,
            _ => Reply::Unified,
        };
        Ok(Self {
            query: Text::Written(query.span()),
            documents,
            top_n,
            return_documents: flag(fields, &["return_documents", "return_text"])?.unwrap_or(false),
            raw_scores: flag(fields, &["raw_scores"])?.unwrap_or(false),
            reply,
            options: Options::read(fields)?,
        })
    }
}

impl Options {
    fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            max_tokens_per_doc: number(fields, "max_tokens_per_doc", 1)?,
            max_chunks_per_doc: number(fields, "max_chunks_per_doc", 1)?,
            overlap_tokens: number(fields, "overlap_tokens", 0)?,
            truncate: truncate(fields)?,
            instruction: string(fields, &["instruction", "instruct"])?,
            user: string(fields, &["user"])?,
        })
    }
}

/// Cuts a call into calls of at most `max_inputs` documents, in order, each of which ranks all of its
/// documents; [`join`] makes one ranking of their answers. Only for models that score each document
/// by itself: a listwise model scores them in the light of each other.
///
/// A call that is small enough, or no rerank, comes back alone. The parts are for
/// [`crate::Dialect::encode`] and [`crate::Dialect::answer`]; their `body` is the whole call's.
#[must_use]
pub fn split(ask: &Ask, max_inputs: usize) -> Vec<Ask> {
    match &ask.view {
        ask::View::Rerank(view) if max_inputs > 0 && view.documents.len() > max_inputs => {
            let part = |documents: &[Document]| {
                let part = View {
                    query: view.query.clone(),
                    documents: documents.to_vec(),
                    top_n: None,
                    return_documents: false,
                    raw_scores: view.raw_scores,
                    reply: Reply::Unified,
                    options: view.options,
                };
                Ask { view: ask::View::Rerank(part), ..ask.clone() }
            };
            view.documents.chunks(max_inputs).map(part).collect()
        }
        _ => vec![ask.clone()],
    }
}

/// Whether an answer in the caller's form is a whole ranking, which may be given again, and not one
/// that only took the place of a failure (see [`degraded`]; text-embeddings-inference's form has no
/// room to say so). As many results as were asked for are whole.
#[must_use]
pub fn is_storable(view: &View, answer: &[u8]) -> bool {
    let Ok(root) = json::parse(answer) else { return false };
    let list = if view.reply == Reply::Tei { Some(root) } else { root.get("results") };
    let wanted = view.top_n.unwrap_or(view.documents.len());
    let is_degraded = root.get("degraded").is_some_and(|degraded| degraded.as_bool() != Some(false));
    !is_degraded && list.is_some_and(|list| list.elements().count() == wanted)
}

fn slice(body: &[u8], span: Span) -> &str {
    body.get(span.range()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Documents of one call at most: ten times what the providers advise, and little enough that a body of
/// nothing but commas costs no memory to speak of.
const MOST_DOCUMENTS: usize = 20_000;

fn read_documents(name: &'static str, list: Value<'_>, rank_fields: &[Cow<'_, str>]) -> Result<Vec<Document>, Refusal> {
    if list.kind() != Kind::Array || list.is_empty() {
        return Err(Refusal::field(name, format!("'{name}' must be an array of at least one text or object")));
    }
    if list.elements().nth(MOST_DOCUMENTS).is_some() {
        let message = format!("'{name}' has more than {MOST_DOCUMENTS} documents; send fewer at once");
        return Err(Refusal::field(name, message));
    }
    let read = |(at, own): (usize, Value<'_>)| {
        let text = match own.kind() {
            Kind::String => Some(Text::Written(own.span())),
            Kind::Object => text_of(own, rank_fields),
            _ => None,
        };
        text.map(|text| Document { own: own.span(), text }).ok_or_else(|| {
            let message = "a document must be a text, or an object with a 'text' or with one of the 'rank_fields'";
            Refusal::field(format!("{name}[{at}]"), message)
        })
    };
    list.elements().enumerate().map(read).collect()
}

/// The text of a document that is an object: its `text`, else the fields to rank as lines of
/// `key: value`.
fn text_of(document: Value<'_>, rank_fields: &[Cow<'_, str>]) -> Option<Text> {
    if let Some(text) = document.get("text").filter(|text| text.kind() == Kind::String) {
        return Some(Text::Written(text.span()));
    }
    let mut lines = String::new();
    for name in rank_fields {
        let Some(value) = document.get(name).filter(|value| !value.is_null()) else { continue };
        if !lines.is_empty() {
            lines.push('\n');
        }
        lines.push_str(name);
        lines.push_str(": ");
        lines.push_str(&value.as_str_lossy().unwrap_or(Cow::Borrowed(value.raw())));
    }
    (!lines.is_empty()).then(|| Text::Made(json::quoted(&lines).into()))
}

fn rank_fields<'a>(fields: &Fields<'a>) -> Result<Vec<Cow<'a, str>>, Refusal> {
    let Some(list) = fields.get("rank_fields") else { return Ok(Vec::new()) };
    let names: Option<Vec<_>> = list.elements().map(Value::as_str).collect();
    names.filter(|names| list.kind() == Kind::Array && names.len() <= RANK_FIELDS_MAX).ok_or_else(|| {
        let message = format!("'rank_fields' must be an array of at most {RANK_FIELDS_MAX} names");
        Refusal::field("rank_fields", message)
    })
}

fn top_n(fields: &Fields<'_>, documents: usize) -> Result<Option<usize>, Refusal> {
    let name = if fields.get("top_n").is_some() { "top_n" } else { "top_k" };
    let Some(value) = fields.get(name) else { return Ok(None) };
    // A number too large for any integer is still a whole number: it asks for everything.
    let is_whole = value.kind() == Kind::Number && value.raw().bytes().all(|byte| byte.is_ascii_digit());
    let wanted = value.as_u64().unwrap_or(if is_whole { u64::MAX } else { 0 });
    if wanted == 0 {
        return Err(Refusal::field(name, format!("'{name}' must be a whole number of at least 1")));
    }
    Ok(Some(usize::try_from(wanted).unwrap_or(usize::MAX).min(documents)))
}

fn flag(fields: &Fields<'_>, names: &[&'static str]) -> Result<Option<bool>, Refusal> {
    let Some((name, value)) = first(fields, names) else { return Ok(None) };
    value.as_bool().map(Some).ok_or_else(|| Refusal::field(name, format!("'{name}' must be true or false")))
}

fn number(fields: &Fields<'_>, name: &'static str, least: u64) -> Result<Option<u64>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    value
        .as_u64()
        .filter(|number| *number >= least)
        .map(Some)
        .ok_or_else(|| Refusal::field(name, format!("'{name}' must be a whole number of at least {least}")))
}

fn string(fields: &Fields<'_>, names: &[&'static str]) -> Result<Option<Span>, Refusal> {
    let Some((name, value)) = first(fields, names) else { return Ok(None) };
    if value.kind() != Kind::String {
        return Err(Refusal::field(name, format!("'{name}' must be a text")));
    }
    Ok(Some(value.span()))
}

fn truncate(fields: &Fields<'_>) -> Result<Option<Truncate>, Refusal> {
    let Some((name, value)) = first(fields, &["truncate", "truncation"]) else { return Ok(None) };
    Truncate::read(name, value, fields.get("truncation_direction")).map(Some)
}

impl Truncate {
    /// Reads a boolean or one of Cohere's words; the direction is text-embeddings-inference's.
    ///
    /// # Errors
    /// `invalid_request` that names the field.
    pub(crate) fn read(name: &'static str, value: Value<'_>, direction: Option<Value<'_>>) -> Result<Self, Refusal> {
        let word = value.as_str().map(|word| word.to_ascii_uppercase());
        let cut = match (value.as_bool(), word.as_deref()) {
            (Some(false), _) | (_, Some("NONE")) => Self::Never,
            (_, Some("START")) => Self::Start,
            (Some(true), _) | (_, Some("END")) => Self::End,
            _ => {
                let message = format!("'{name}' must be true, false, \"NONE\", \"START\" or \"END\"");
                return Err(Refusal::field(name, message));
            }
        };
        let from_left = direction.and_then(Value::as_str).is_some_and(|side| side == "Left");
        Ok(if cut == Self::End && from_left { Self::Start } else { cut })
    }

    /// As a JSON boolean, for upstreams that know no more.
    pub(crate) const fn as_bool(self) -> &'static str {
        if matches!(self, Self::Never) { "false" } else { "true" }
    }
}

fn first<'a>(fields: &Fields<'a>, names: &[&'static str]) -> Option<(&'static str, Value<'a>)> {
    names.iter().find_map(|name| Some((*name, fields.get(name)?)))
}
