//! What of a call decides its answer, as a stream of bytes that is the same for all spellings.
//!
//! Two calls may be given one stored answer when these bytes are equal and so is all that the body
//! does not hold (route, upstream, client, knowledge base). Everything in a body decides until it is
//! known not to: a field that the gateway has never heard of is in. Every type is taken apart below
//! without `..`, so that whoever adds a field has to say here what it does.

use crate::ask::{Ask, Chat, View};
use crate::chat::Question;
use crate::json::{Canonical, Unfit};
use crate::keyed::{VOLATILE, is_ordered};
use crate::{embeddings, rerank};

pub use crate::keyed::NotKeyed;

impl Ask {
    /// Hands everything in this call that decides its answer to `sink`, in pieces.
    ///
    /// Of embeddings that is the whole call with all inputs.
    ///
    /// # Errors
    /// Where no stored answer may serve it. What was handed over is then to be forgotten.
    pub fn deciding(&self, sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
        let Self {
            endpoint,
            body,
            content_type,
            // In the body.
            model: _,
            // One stored answer serves both forms.
            stream: _,
            // Splits go by it, and what a split chose is told beside the body.
            tag: _,
            // For semantic matching; it goes to no upstream.
            query: _,
            view,
            spans: _,
        } = self;
        if content_type.is_some() {
            return Err(NotKeyed::Endpoint);
        }
        let mut out = Canonical::new(sink).ordered_in(is_ordered);
        out.text(endpoint.tail());
        let mut rest = |more: &[&str]| out.document(body, |name| VOLATILE.contains(&name) || more.contains(&name));
        match view {
            View::Chat(chat) | View::Completions(chat) => {
                // All of it is read from the body, and but for the second and third it is in.
                let Chat {
                    choices: _,
                    include_usage: _,
                    stream_options: _,
                    has_tools: _,
                    drafts: _,
                    max_tokens: _,
                    n: _,
                    best_of: _,
                    prompts: _,
                    thinking: _,
                } = chat;
                rest(&[])?;
            }
            View::Embeddings(view) => {
                let embeddings::View { inputs: _, form: _, encoding, dimensions: _, input: _ } = view;
                match encoding {
                    // The same vector in both.
                    embeddings::Encoding::Float | embeddings::Encoding::Base64 => rest(&["encoding_format"])?,
                    embeddings::Encoding::Other => rest(&[])?,
                }
            }
            View::Rerank(view) => {
                rest(rerank::FIELDS)?;
                ranking(body, view, &mut out)?;
            }
            View::Responses(_) | View::Pass => return Err(NotKeyed::Endpoint),
        }
        out.finish();
        Ok(())
    }

    /// Whether [`Ask::deciding`] says the same of every call to this endpoint with the same bytes: what else it goes by
    /// was read from them.
    #[must_use]
    pub fn is_decided_by_body(&self) -> bool {
        self.content_type.is_none() && matches!(self.view, View::Chat(_) | View::Completions(_))
    }

    /// Hands everything in this call to `sink` that decides its answer beside the question: two calls
    /// whose questions mean the same may share an answer only where this is equal. Of the message
    /// that asks it, all but its content is in; passages marked as retrieved are not.
    ///
    /// # Errors
    /// As [`Ask::deciding`].
    pub fn around_question(&self, question: &Question, sink: &mut dyn FnMut(&[u8])) -> Result<(), NotKeyed> {
        let around = Self { body: question.around().clone(), ..self.clone() };
        around.deciding(sink)
    }
}

/// A ranking is made of what was read, under whichever names the caller wrote it: the body's own
/// fields are not what goes out.
fn ranking(body: &[u8], view: &rerank::View, out: &mut Canonical<'_>) -> Result<(), Unfit> {
    let rerank::View { query, documents, top_n, return_documents, raw_scores, reply, options } = view;
    let rerank::Options {
        max_tokens_per_doc,
        max_chunks_per_doc,
        overlap_tokens,
        truncate,
        instruction,
        // Who asks.
        user: _,
    } = options;
    let all = |_: &str| false;
    out.document(query.json(body).as_bytes(), all)?;
    out.number(documents.len() as u64);
    for rerank::Document { own, text } in documents {
        out.document(text.json(body).as_bytes(), all)?;
        if *return_documents {
            out.document(body.get(own.range()).unwrap_or_default(), all)?;
        }
    }
    let flags = [
        u64::from(*return_documents),
        u64::from(*raw_scores),
        match reply {
            rerank::Reply::Unified => 0,
            rerank::Reply::Tei => 1,
            rerank::Reply::WithData => 2,
        },
        match truncate {
            None => 0,
            Some(rerank::Truncate::Never) => 1,
            Some(rerank::Truncate::Start) => 2,
            Some(rerank::Truncate::End) => 3,
        },
    ];
    flags.into_iter().for_each(|flag| out.number(flag));
    // As many as there are documents is what is answered where nothing is asked for.
    out.number(top_n.unwrap_or(documents.len()) as u64);
    for number in [max_tokens_per_doc, max_chunks_per_doc, overlap_tokens] {
        out.number(u64::from(number.is_some()));
        out.number(number.unwrap_or_default());
    }
    match instruction {
        Some(instruction) => out.document(body.get(instruction.range()).unwrap_or_default(), all),
        None => out.document(b"null", all),
    }
}

#[cfg(test)]
mod tests;
