//! What a call may ask for, and how much of its prompt goes out: the parameter policies of its route
//! and its client, the route's token budget, the context windows of its upstreams.

pub mod context;
pub mod params;

use base::decision::Rule;
use base::{Decision, Endpoint, Refusal, Skip};
use dialect::Ask;
use rules::params::By;
use smallvec::SmallVec;

use crate::caller::Caller;
use crate::live::tokenizers::Tokenizers;
use crate::running::OnRoute;
use crate::trail::Trail;

/// A call as it is to be answered.
#[derive(Debug)]
pub struct Shaped {
    /// What goes out. What nothing touches stays the very same bytes.
    pub ask: Ask,
    /// Indexes of the route's upstreams whose context window is known to be too small for it.
    pub too_small: SmallVec<[usize; 2]>,
}

/// Shapes a call.
///
/// # Errors
/// `parameter_denied`; `invalid_request` for a field that a policy must be able to read;
/// `context_length_exceeded` where the prompt fits neither budget nor windows; `deadline_exceeded`.
pub async fn shape(
    ask: Ask,
    on: OnRoute<'_>,
    caller: Caller<'_>,
    tokenizers: &Tokenizers,
    trail: &mut Trail,
) -> Result<Shaped, Refusal> {
    let (route, Caller { client, deadline, .. }) = (on.route, caller);
    let ask = match route.params.is_empty() && client.params.is_empty() {
        true => ask,
        false => {
            let mut note = |change: params::Change<'_>| trail.note(changed(&change));
            params::apply(ask, &route.params, &client.params, &mut note)?
        }
    };
    if !matches!(ask.endpoint, Endpoint::Chat | Endpoint::Completions) || !context::is_bounded(route, &ask) {
        return Ok(Shaped { ask, too_small: SmallVec::new() });
    }
    // Boxed, for few calls are counted, and each would hold the room for it.
    let done = Box::pin(context::bound(ask, on, deadline, tokenizers)).await?;
    trail.record.truncated = done.truncated;
    if let Some(truncated) = done.truncated {
        trail.note(Decision::Truncated(Box::new(truncated)));
    }
    for at in &done.too_small {
        if let Some(upstream) = route.upstreams.get(*at) {
            trail.note(Decision::Skipped { upstream: upstream.label.clone(), why: Skip::TooSmall });
        }
    }
    trail.lesson = done.lesson;
    Ok(Shaped { ask: done.ask, too_small: done.too_small })
}

/// A change as it is recorded: which field, by which rule, and nothing of what stood there.
fn changed(change: &params::Change<'_>) -> Decision {
    let field = change.name.map_or_else(|| change.path.join("."), ToOwned::to_owned);
    let by = match change.by {
        By::Deny => Rule::Deny,
        By::Default => Rule::Default,
        By::Max => Rule::Max,
        By::Min => Rule::Min,
        By::Force => Rule::Force,
    };
    Decision::Param { field: field.into(), by }
}
