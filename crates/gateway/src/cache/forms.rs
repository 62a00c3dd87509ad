//! One answer in both its forms: whole, and as the stream that it would have been.

use base::{Endpoint, Usage};
use bytes::Bytes;
use dialect::chat::{self, Assembly};
use dialect::{Ask, View};

use crate::cache::flights::{Form, LONGEST};

/// How a call wants its answer.
#[must_use]
pub fn form(ask: &Ask) -> Form {
    let shows_usage = ask.chat().is_some_and(|chat| chat.include_usage == Some(true));
    if ask.stream { Form::Stream { shows_usage } } else { Form::Whole }
}

/// A whole answer in the form that is wanted; `None` where it has no other.
#[must_use]
pub fn in_form(endpoint: Endpoint, whole: Bytes, form: Form) -> Option<Bytes> {
    match form {
        Form::Whole => Some(whole),
        Form::Stream { shows_usage } => chat::events(endpoint, &whole, shows_usage),
    }
}

/// A complete answer in one piece.
#[derive(Clone, Debug)]
pub struct Whole {
    /// As a caller gets it who wants no stream.
    pub body: Bytes,
    /// Others may be given it too: it is complete by the contract's measure.
    pub may_store: bool,
    /// It calls tools: what those do is for the very call that was made.
    pub has_tool_calls: bool,
    /// It has come to its end: its call may be given it again.
    pub is_complete: bool,
}

impl Whole {
    /// A whole answer as its caller gets it.
    #[must_use]
    pub fn of(ask: &Ask, body: Bytes) -> Self {
        let judged = |may_store, has_tool_calls, is_complete| Self {
            body: body.clone(),
            may_store,
            has_tool_calls,
            is_complete,
        };
        match &ask.view {
            View::Chat(_) | View::Completions(_) => match chat::is_storable(&body) {
                Ok(storable) => judged(true, storable.has_tool_calls, true),
                Err(why) => judged(false, false, why.is_complete()),
            },
            View::Rerank(view) => judged(dialect::rerank::is_storable(view, &body), false, true),
            View::Embeddings(_) | View::Responses(_) | View::Pass => judged(false, false, true),
        }
    }
}

/// Puts an answer together of the events that its caller gets.
#[derive(Debug)]
pub struct Gathering(Option<Assembly>);

impl Gathering {
    /// Of the answer to this call; nothing where no whole can be made of its events.
    #[must_use]
    pub fn of(ask: &Ask) -> Self {
        let most = usize::try_from(LONGEST).unwrap_or(usize::MAX);
        Self(ask.chat().map(|_| Assembly::new(ask.endpoint, most)))
    }

    /// The next piece of it.
    pub fn take(&mut self, piece: &Bytes) {
        if let Some(assembly) = &mut self.0 {
            assembly.feed(piece.clone());
        }
    }

    /// The upstream's own words about usage, where the events do not have them.
    pub fn unshown_usage(&mut self, written: Option<&str>) {
        if let (Some(assembly), Some(written)) = (&mut self.0, written) {
            assembly.unshown_usage(written);
        }
    }

    /// The whole; `None` where it cannot be had. `usage` is the upstream's word, where the events do not have it.
    #[must_use]
    pub fn finish(&mut self, ask: &Ask, usage: Usage) -> Option<Whole> {
        let body = self.0.take()?.finish((!usage.estimated).then_some(usage)).ok()?;
        Some(Whole::of(ask, body))
    }
}
