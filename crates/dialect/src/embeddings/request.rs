//! The request as upstreams want it: the caller's own bytes, or texts in the place of token ids.

use std::borrow::Cow;

use base::{Refusal, Usage};

use super::{Encoding, Form, View};
use crate::json::{self, Patch, Value};
use crate::{Added, Ask, Encoded, Target, tokens};

/// The body for an upstream that speaks OpenAI's embeddings API: the caller's, `model` patched, and
/// `input` turned to text where `target` says so.
///
/// # Errors
/// `invalid_request` for a token id outside the vocabulary.
pub fn encode_openai(ask: &Ask, view: &View, target: &Target<'_>) -> Result<Encoded, Refusal> {
    let mut patch = Patch::new();
    ask.patch_model(&mut patch, target.model);
    let decodes = target.decode_tokens && view.form.is_ids();
    if decodes {
        patch.replace(view.input, text_input(ask, view)?);
    }
    let added = Added { token_arrays: view.form.is_ids() && !decodes, ..Added::default() };
    Ok(Encoded { body: patch.apply(&ask.body), added })
}

/// `input` as a JSON text or array of texts: the caller's own where it is that already.
///
/// # Errors
/// `invalid_request` for a token id outside the vocabulary of the caller's model name.
pub(crate) fn text_input<'a>(ask: &'a Ask, view: &View) -> Result<Cow<'a, str>, Refusal> {
    let raw = ask.body.get(view.input.range()).unwrap_or_default();
    if !view.form.is_ids() {
        return Ok(Cow::Borrowed(std::str::from_utf8(raw).unwrap_or_default()));
    }
    let input = json::parse(raw).map_err(|error| Refusal::field("input", error.to_string()))?;
    let mut out = Vec::new();
    if view.form == Form::Ids {
        json::push_quoted(&mut out, &text_of(&ask.model, input)?);
    } else {
        let mut mark = b'[';
        for ids in input.elements() {
            out.push(mark);
            json::push_quoted(&mut out, &text_of(&ask.model, ids)?);
            mark = b',';
        }
        out.push(b']');
    }
    // Quoted texts and ASCII between them: always valid.
    Ok(Cow::Owned(String::from_utf8(out).unwrap_or_default()))
}

/// The same, always as an array.
///
/// # Errors
/// As [`text_input`].
pub(crate) fn text_array<'a>(ask: &'a Ask, view: &View) -> Result<Cow<'a, str>, Refusal> {
    let input = text_input(ask, view)?;
    Ok(if input.starts_with('[') { input } else { Cow::Owned(format!("[{input}]")) })
}

fn text_of(model: &str, ids: Value<'_>) -> Result<String, Refusal> {
    const UNKNOWN: &str = "'input' holds a token id that the model's vocabulary does not have; send texts instead";
    let ids: Option<Vec<u32>> = ids.elements().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
    let text = ids.ok_or(tokens::UnknownToken).and_then(|ids| tokens::decode(model, &ids));
    text.map_err(|tokens::UnknownToken| Refusal::field("input", UNKNOWN))
}

/// For protocols whose answers are lists of numbers that the gateway puts into the caller's form.
///
/// # Errors
/// `invalid_request` for an `encoding_format` that the gateway does not know.
pub(crate) fn known_encoding(view: &View) -> Result<(), Refusal> {
    if view.encoding == Encoding::Other {
        return Err(Refusal::field(
            "encoding_format",
            "this model's provider gives 'float' or 'base64' only; leave 'encoding_format' out or name one of them",
        ));
    }
    Ok(())
}

/// The upstream's count of tokens, or a guess where it gave none.
pub(crate) fn usage_or_estimate(ask: &Ask, view: &View, counted: Option<u64>) -> Usage {
    match counted.filter(|count| *count <= Usage::CEILING) {
        Some(prompt) => Usage { prompt, ..Usage::default() },
        None => {
            let input = ask.body.get(view.input.range()).unwrap_or_default();
            let prompt = base::estimate(input).min(Usage::CEILING);
            Usage { prompt, estimated: true, ..Usage::default() }
        }
    }
}
