//! What the caller's headers ask for, once the route is known.

use std::sync::Arc;

use base::{Decision, Trace};
use config::Route;
use dialect::Ask;
use http::{HeaderMap, HeaderValue};

use super::vectors;
use crate::attempt::{Errand, Passed};
use crate::caller::Caller;
use crate::inputs::Wish;
use crate::running::OnRoute;
use crate::trail::Trail;
use crate::worker::Worker;
use crate::{caller::headers, plan, recall};

/// What the rest of the story must know of the caller's headers.
pub struct Errands {
    /// False for a call that its caller has marked as having side effects.
    pub is_idempotent: bool,
    /// What the caller has sent of its trace, where it has.
    pub passed: Option<Box<Passed>>,
    /// The upstream that the route's split has chosen.
    pub first: Option<usize>,
    /// What a call for vectors wants of the cache.
    pub inputs: Option<Arc<Wish>>,
}

impl Errands {
    /// Of a call of this client's.
    pub async fn of(on: OnRoute<'_>, caller: Caller<'_>, ask: &Ask, worker: &Worker, trail: &mut Trail) -> Self {
        let (OnRoute { running, route, .. }, Caller { client, headers, .. }) = (on, caller);
        let used = || running.quotas.of(client).map(|quota| quota.used(trail.record.time));
        let first = plan::branch(route, caller, ask, &used, &worker.dice);
        trail.tries.note_to(Decision::Branch, first.and_then(|first| route.upstreams.get(first)));
        Self {
            is_idempotent: recall::is_idempotent(ask, headers),
            passed: passed(headers, trail.record.trace.as_deref()),
            first,
            inputs: vectors::wish(on, caller, ask, trail).await,
        }
    }

    /// What goes into every try.
    pub fn errand<'a>(&'a self, ask: &'a Ask, request_id: &'a HeaderValue) -> Errand<'a> {
        Errand { ask, request_id, traceparent: None, passed: self.passed.as_deref() }
    }

    /// Whether a call may have to do with others, input by input.
    pub fn depends(&self, route: &Route, ask: &Ask) -> bool {
        self.inputs.is_some() || (!route.wait.is_zero() && ask.endpoint.family() == base::Family::Embeddings)
    }
}

/// What of a caller's trace goes on: its `tracestate` alone where the gateway's own spans stand in between.
fn passed(headers: &HeaderMap, trace: Option<&Trace>) -> Option<Box<Passed>> {
    if let Some(trace) = trace {
        let tracestate = HeaderValue::from_str(trace.state.as_deref()?).ok();
        return Some(Box::new(Passed { traceparent: None, tracestate }));
    }
    let traceparent = headers::traceparent(headers)?.clone();
    Some(Box::new(Passed { traceparent: Some(traceparent), tracestate: headers::tracestate(headers) }))
}
