//! Rerank in the forms of Cohere, Jina, Voyage and TEI.

use serde_json::{Value, json};

use super::{Asked, Draft, Strict, Wrong};
use crate::words;

/// The form of one provider's answer.
struct Form {
    /// The name of the list.
    list: &'static str,
    /// True where documents are returned unless the call says otherwise.
    returns: bool,
    /// True where a returned document is a bare text.
    is_bare: bool,
}

fn form(asked: &Asked<'_>) -> Form {
    match asked.strict() {
        Some(Strict::Jina) => Form { list: "results", returns: true, is_bare: false },
        Some(Strict::Voyage) => Form { list: "data", returns: false, is_bare: true },
        None if asked.request.field("top_k").is_some() && asked.request.field("top_n").is_none() => {
            Form { list: "data", returns: false, is_bare: true }
        }
        _ => Form { list: "results", returns: false, is_bare: false },
    }
}

fn text_of(document: &Value) -> Result<String, Wrong> {
    let text = document.as_str().or_else(|| document.get("text").and_then(Value::as_str));
    text.map(str::to_owned).ok_or_else(|| (400, "a document is a text or an object with `text`".to_owned()))
}

/// `POST …/rerank`; `is_tei` for `texts` and the bare array.
pub(super) fn rerank(asked: &Asked<'_>, is_tei: bool) -> Result<Draft, Wrong> {
    let request = asked.request;
    let query = match request.field("query") {
        Some(Value::String(query)) if !query.is_empty() => query.clone(),
        Some(query) if query.get("text").is_some_and(Value::is_string) => text_of(query)?,
        _ => return Err((400, "`query` is missing or empty".to_owned())),
    };
    let list = request.field(if is_tei { "texts" } else { "documents" }).and_then(Value::as_array);
    let texts =
        list.ok_or((400, "`documents` is missing".to_owned()))?.iter().map(text_of).collect::<Result<Vec<_>, _>>()?;
    if texts.is_empty() {
        return Err((400, "`documents` is empty".to_owned()));
    }
    let mut scored: Vec<(usize, f64)> =
        texts.iter().enumerate().map(|(index, text)| (index, words::relevance(&query, text))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let total: u64 = texts.iter().map(|text| words::tokens(text) + words::tokens(&query)).sum();
    if is_tei {
        return Ok(tei(asked, &texts, &scored).header("x-compute-tokens", total.to_string()));
    }
    let form = form(asked);
    let top = request.field("top_n").or(request.field("top_k")).and_then(Value::as_u64);
    scored.truncate(top.and_then(|top| usize::try_from(top).ok()).unwrap_or(usize::MAX));
    let returns = request.field("return_documents").and_then(Value::as_bool).unwrap_or(form.returns);
    let results: Vec<Value> = scored
        .iter()
        .map(|(index, score)| {
            let mut result = json!({"index": index, "relevance_score": score});
            if let Some(text) = texts.get(*index).filter(|_| returns) {
                result["document"] = if form.is_bare { text.clone().into() } else { json!({"text": text}) };
            }
            result
        })
        .collect();
    let is_cohere = matches!(asked.strict(), Some(Strict::CohereV1 | Strict::CohereV2));
    let mut body = json!({"id": format!("rerank-mock{}", asked.number), form.list: results});
    if !is_cohere {
        body["object"] = "list".into();
        body["model"] = asked.model().into();
        body["usage"] =
            asked.knobs.usage.clone().unwrap_or_else(|| json!({"prompt_tokens": total, "total_tokens": total}));
    }
    if is_cohere || request.path.contains("/v2/") {
        let units = texts.len().div_ceil(100);
        let version = if request.path.contains("/v2/") { "2" } else { "1" };
        body["meta"] = json!({"api_version": {"version": version}, "billed_units": {"search_units": units}});
    }
    Ok(Draft::json(&body))
}

fn tei(asked: &Asked<'_>, texts: &[String], scored: &[(usize, f64)]) -> Draft {
    let returns = asked.request.field("return_text").and_then(Value::as_bool).unwrap_or(false);
    let ranks: Vec<Value> = scored
        .iter()
        .map(|(index, score)| match texts.get(*index).filter(|_| returns) {
            Some(text) => json!({"index": index, "score": score, "text": text}),
            None => json!({"index": index, "score": score}),
        })
        .collect();
    Draft::json(&ranks)
}
