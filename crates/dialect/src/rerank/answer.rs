//! The answer in the caller's form, made of any provider's.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use base::{Fault, Usage};
use bytes::Bytes;

use super::{Reply, View, slice};
use crate::errors::{self, bad_response as bad, is_nothing};
use crate::json::{self, Value};
use crate::object::Object;
use crate::{Answer, Ask, Score, Target, ask};

/// Said in `meta.warnings` where the upstream counted nothing.
const ESTIMATED: &str = "usage is an estimate: the upstream gave no token count";

/// Warnings that a joined answer keeps at most.
const WARNINGS_MAX: usize = 16;

/// One document's rank.
#[derive(Debug)]
struct Ranked<'a> {
    index: usize,
    /// For sorting.
    score: f64,
    /// As it goes out: the upstream's own digits where nothing transforms them.
    digits: Cow<'a, str>,
}

/// Judges an upstream's answer and puts it into the caller's form. `counted` is the number of tokens
/// where the upstream says it in a header.
///
/// Every result needs an index of the caller's list, each at most once, and a finite score.
///
/// # Errors
/// [`base::Kind::BadResponse`], or what an error object in the answer says.
pub fn answer(ask: &Ask, view: &View, target: &Target<'_>, counted: Option<u64>, body: &[u8]) -> Result<Answer, Fault> {
    let root = json::parse(body).map_err(|error| bad(format!("the answer is not JSON: {error}")))?;
    let list = match root.kind() {
        json::Kind::Array => Some(root),
        _ if root.get("error").is_some_and(|error| !is_nothing(error)) => None,
        _ => ["results", "data"].iter().find_map(|name| root.get(name)).filter(|list| list.kind() == json::Kind::Array),
    };
    let list = list.ok_or_else(|| {
        let says = |name: &&str| root.get(name).is_some_and(|said| !said.is_null());
        let is_error = ["error", "message", "detail"].iter().any(says);
        if is_error { errors::inside_success(root) } else { bad("the answer has no list of results") }
    })?;
    let mut ranked = read_results(list, view.documents.len())?;
    sort(&mut ranked, view);
    if target.score == Score::Logit && !view.raw_scores {
        for result in &mut ranked {
            let squeezed = 1.0 / (1.0 + (-result.score).exp());
            result.digits = Cow::Owned(ryu::Buffer::new().format(squeezed).to_owned());
        }
    }
    let usage = self::counted(root).or(counted.filter(|count| *count <= Usage::CEILING)).map_or_else(
        || Usage { prompt: view.pairs(&ask.body), estimated: true, ..Usage::default() },
        |prompt| Usage { prompt, ..Usage::default() },
    );
    let search_units = counted_units(root).unwrap_or_else(|| view.units());
    let usage = Usage { units: search_units, ..usage };
    let said = Said {
        id: id(ask, root, body),
        model: root.get("model").and_then(Value::as_str).unwrap_or(Cow::Borrowed(target.model)),
        prompt: usage.prompt,
        search_units,
        warnings: warnings(root, usage.estimated),
        degraded: false,
    };
    Ok(Answer { body: compose(ask, view, &ranked, &said), usage: Some(usage), is_stream: false, dimension: None })
}

/// Puts the answers to the parts of a call (see [`super::split`]) together again: all documents in
/// one ranking, usage and search units summed, warnings in one list.
///
/// # Errors
/// [`base::Kind::BadResponse`] for an answer that did not come from [`crate::Dialect::answer`].
pub fn join(ask: &Ask, answers: &[Answer]) -> Result<Answer, Fault> {
    let ask::View::Rerank(view) = &ask.view else { return Err(bad("the call is no rerank")) };
    let mut ranked = Vec::with_capacity(view.documents.len());
    let (mut usage, mut search_units, mut warnings) = (None, 0_u64, Vec::new());
    let mut first = None;
    for answer in answers {
        let root = json::parse(&answer.body).map_err(|error| bad(format!("a part is not JSON: {error}")))?;
        let list = root.get("results").ok_or_else(|| bad("a part has no list of results"))?;
        // Each part ranks all of its documents, so they count the ones before it.
        let before = ranked.len();
        let part = read_results(list, view.documents.len().saturating_sub(before))?;
        ranked.extend(part.into_iter().map(|result| Ranked { index: result.index + before, ..result }));
        usage = match (usage, answer.usage) {
            (Some(sum), Some(more)) => Some(Usage::plus(sum, more)),
            (sum, more) => sum.or(more),
        };
        search_units += path(root, &["meta", "billed_units", "search_units"]).unwrap_or(0);
        let said = root.get("meta").and_then(|meta| meta.get("warnings"));
        for warning in said.into_iter().flat_map(Value::elements).map(Value::raw) {
            if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        first.get_or_insert(root);
    }
    if ranked.len() != view.documents.len() {
        return Err(bad("the parts do not rank every document"));
    }
    sort(&mut ranked, view);
    let text = |name| first.and_then(|root| root.get(name)?.as_str());
    let said = Said {
        id: text("id").map_or_else(|| id_of(&ask.body), Cow::into_owned),
        model: text("model").unwrap_or(Cow::Borrowed(&ask.model)),
        prompt: usage.map_or(0, |usage| usage.prompt),
        search_units,
        warnings: format!("[{}]", warnings.join(",")),
        degraded: false,
    };
    Ok(Answer { body: compose(ask, view, &ranked, &said), usage, is_stream: false, dimension: None })
}

/// Best first, equals in the caller's order, no more than were asked for.
fn sort(ranked: &mut Vec<Ranked<'_>>, view: &View) {
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
    ranked.truncate(view.top_n.unwrap_or(usize::MAX));
}

/// The answer to a call that failed where the caller would rather have no ranking than an error:
/// the documents in their given order, each with score 0, and `"degraded": true`.
#[must_use]
pub fn degraded(ask: &Ask) -> Bytes {
    let ask::View::Rerank(view) = &ask.view else { return Bytes::new() };
    let ranked: Vec<_> = (0..view.top_n.unwrap_or(view.documents.len()))
        .map(|index| Ranked { index, score: 0.0, digits: Cow::Borrowed("0") })
        .collect();
    let said = Said {
        id: id_of(&ask.body),
        model: Cow::Borrowed(&ask.model),
        prompt: 0,
        search_units: 0,
        warnings: "[]".to_owned(),
        degraded: true,
    };
    compose(ask, view, &ranked, &said)
}

fn read_results(list: Value<'_>, documents: usize) -> Result<Vec<Ranked<'_>>, Fault> {
    let mut seen = vec![false; documents];
    let mut ranked = Vec::with_capacity(documents);
    for result in list.elements() {
        let index = result.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        let index = index.ok_or_else(|| bad("a result has no index"))?;
        match seen.get_mut(index) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(bad(format!("document {index} stands twice in the results"))),
            None => return Err(bad(format!("the results rank document {index} of {documents}"))),
        }
        let value = result.get("relevance_score").or_else(|| result.get("score"));
        let score = value.and_then(|value| Some((value.as_f64().filter(|score| score.is_finite())?, value.raw())));
        let (score, digits) = score.ok_or_else(|| bad(format!("document {index} has no score")))?;
        ranked.push(Ranked { index, score, digits: Cow::Borrowed(digits) });
    }
    if ranked.is_empty() { Err(bad("the results are empty")) } else { Ok(ranked) }
}

/// What the answer says beside its results.
struct Said<'a> {
    id: String,
    model: Cow<'a, str>,
    prompt: u64,
    search_units: u64,
    /// A JSON array.
    warnings: String,
    degraded: bool,
}

fn compose(ask: &Ask, view: &View, ranked: &[Ranked<'_>], said: &Said<'_>) -> Bytes {
    if view.reply == Reply::Tei {
        return Bytes::from(write_results(ask, view, ranked, Style::Tei));
    }
    let results = write_results(ask, view, ranked, Style::Objects);
    let mut out = Object::with_capacity(results.len() + 512);
    out.text("id", &said.id);
    out.text("object", "list");
    out.text("model", &said.model);
    out.key("results").extend_from_slice(&results);
    if view.reply == Reply::WithData {
        let data = write_results(ask, view, ranked, Style::Strings);
        out.key("data").extend_from_slice(&data);
    }
    let tokens = said.prompt;
    out.json("usage", &format!(r#"{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}"#));
    let meta = format!(
        r#"{{"api_version":{{"version":"2"}},"billed_units":{{"search_units":{},"input_tokens":{tokens}}},"tokens":{{"input_tokens":{tokens},"output_tokens":0}},"warnings":{}}}"#,
        said.search_units, said.warnings
    );
    out.json("meta", &meta);
    out.json_if("degraded", said.degraded.then_some("true"));
    out.into_bytes()
}

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `relevance_score`, documents as objects.
    Objects,
    /// `relevance_score`, documents as strings.
    Strings,
    /// `score`, the document as `text`.
    Tei,
}

fn write_results(ask: &Ask, view: &View, ranked: &[Ranked<'_>], style: Style) -> Vec<u8> {
    let mut list = vec![b'['];
    for result in ranked {
        if list.len() > 1 {
            list.push(b',');
        }
        let mut out = Object::with_capacity(64);
        out.number("index", result.index as u64);
        out.json(if style == Style::Tei { "score" } else { "relevance_score" }, &result.digits);
        if let Some(document) = view.documents.get(result.index).filter(|_| view.return_documents) {
            let own = slice(&ask.body, document.own);
            let text = document.text.json(&ask.body);
            match style {
                Style::Tei => out.json("text", text),
                Style::Strings => out.json("document", text),
                Style::Objects if own.starts_with('{') => out.json("document", own),
                Style::Objects => out.json("document", &format!(r#"{{"text":{text}}}"#)),
            }
        }
        list.extend_from_slice(&out.close());
    }
    list.push(b']');
    list
}

/// The input tokens, wherever a provider writes them: `usage` (Jina, Voyage, vLLM, Infinity,
/// llama.cpp), `meta` (Cohere, Xinference, SiliconFlow), `tokens` (SiliconFlow's documents).
pub(crate) fn counted(root: Value<'_>) -> Option<u64> {
    const PLACES: [&[&str]; 5] = [
        &["usage", "total_tokens"],
        &["usage", "prompt_tokens"],
        &["meta", "tokens", "input_tokens"],
        &["meta", "billed_units", "input_tokens"],
        &["tokens", "input_tokens"],
    ];
    PLACES.iter().find_map(|names| path(root, names)).filter(|count| *count > 0)
}

/// The search units that are billed (Cohere).
pub(crate) fn counted_units(root: Value<'_>) -> Option<u64> {
    path(root, &["meta", "billed_units", "search_units"])
}

/// A count below a path of names; Cohere writes counts with a fraction of zero now and then.
fn path(root: Value<'_>, names: &[&str]) -> Option<u64> {
    let value = names.iter().try_fold(root, |value, name| value.get(name))?;
    let number = value.as_f64().filter(|number| (0.0..=Usage::CEILING as f64).contains(number))?;
    Some(number as u64)
}

fn warnings(root: Value<'_>, estimated: bool) -> String {
    let own = root.get("meta").and_then(|meta| meta.get("warnings")).filter(|own| own.kind() == json::Kind::Array);
    let own = own.into_iter().flat_map(Value::elements).filter(|warning| warning.kind() == json::Kind::String);
    let ours = estimated.then(|| json::quoted(ESTIMATED));
    let all: Vec<Cow<'_, str>> = own.map(|warning| Cow::Borrowed(warning.raw())).chain(ours.map(Cow::Owned)).collect();
    format!("[{}]", all.join(","))
}

/// The upstream's own id, else one made of the call and its answer: this crate has no dice.
fn id(ask: &Ask, root: Value<'_>, body: &[u8]) -> String {
    match root.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        Some(id) if id.starts_with("rerank-") => id.into_owned(),
        Some(id) => format!("rerank-{id}"),
        None => id_of(&(&ask.body, body)),
    }
}

fn id_of(what: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("rerank-{:016x}", hasher.finish())
}
