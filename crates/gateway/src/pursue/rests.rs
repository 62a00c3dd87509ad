//! Whom a failed try rests.

use std::sync::Arc;

use base::decision::Trouble;
use base::{Class, Decision, Fault};
use rules::pursuit::Step;

use super::Call;
use crate::running::AtUpstream;
use crate::trail::Tries;
use crate::upstream::drills::Drill;
use crate::upstream::keyring::REFUSED_REST;

/// Rests whom a failed try is about.
pub(super) fn rest(call: &Call<'_>, tries: &mut Tries, at: AtUpstream<'_>, step: &Step, fault: &Fault) {
    let AtUpstream { upstream, known } = at;
    let now = call.worker.live.clock.now();
    let route = call.on.route;
    let longest = route.breaker.max_rest;
    let key_rests = |why| {
        let key = step.target.key.and_then(|key| u32::try_from(key).ok())?;
        Some(Decision::KeyRests { provider: upstream.provider.name.clone(), key, why })
    };
    match fault.class {
        Class::Credential => {
            known.keys.refused(step.target.key, now, longest);
            key_rests(Trouble::Refused).into_iter().for_each(|decision| tries.note_at(decision, now));
            // Where there is no key to rest, the same would be said with every call.
            if step.target.key.is_some() {
                tracing::error!(
                    provider = %upstream.provider.name,
                    key = step.target.key,
                    status = fault.status,
                    "the provider refused the gateway's key"
                );
            }
        }
        Class::Throttle => {
            let rest = route.retry.rest(fault.retry_after, longest);
            if upstream.provider.keys.len() > 1 {
                known.keys.throttled(step.target.key, now, rest);
                key_rests(Trouble::Throttled).into_iter().for_each(|decision| tries.note_at(decision, now));
            } else {
                tries.note_at(Decision::Rests(upstream.label.clone()), now);
                known.gate.standing().rests(now, rest);
            }
        }
        _ => {}
    }
}

/// A drill has failed a try: what would rest a key of the provider, or the upstream, rests the upstream on this
/// route alone, until the drill ends at the latest.
pub(super) fn rehearse_rest(call: &Call<'_>, tries: &mut Tries, at: AtUpstream<'_>, drill: &Arc<Drill>, fault: &Fault) {
    let AtUpstream { upstream, known } = at;
    let (now, route) = (call.worker.live.clock.now(), call.on.route);
    let longest = route.breaker.max_rest;
    let is_of_key = fault.class == Class::Credential;
    let wait = match fault.class {
        Class::Credential if upstream.provider.keys.is_empty() => return,
        Class::Credential => REFUSED_REST.min(longest),
        Class::Throttle => route.retry.rest(fault.retry_after, longest),
        _ => return,
    };
    tries.note_at(Decision::Rests(upstream.label.clone()), now);
    known.gate.standing().rehearses(drill, now, wait, is_of_key);
}
