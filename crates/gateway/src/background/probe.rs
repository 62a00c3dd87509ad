//! Active health probes: a provider with `health` is asked at intervals, whether calls run or not.
//!
//! A probe asks whether there is life, not whether a call would succeed: a refusal (404, 401, 429)
//! is an answer. Probes run beside the workers, each on a new connection of its own that counts
//! among none of `pool.max_connections`: no call waits for one, and a provider that is busy with
//! calls is not taken for a sick one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Class, Fault, Kind};
use config::Provider;
use http::{HeaderValue, header};
use tokio::task::{AbortHandle, JoinSet};

use crate::live::Live;
use crate::net::{Checkout, Line, Outgoing, Transport, request_target};
use crate::running::heads;

/// How often the configuration in force is looked at again.
const LOOK: Duration = Duration::from_secs(1);

/// No probe takes longer, nor longer than its `health.every`.
const PATIENCE: Duration = Duration::from_secs(5);

/// A verdict of probes that come more rarely holds no longer: then a call may try.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer's body that are read at most; whoever sends more is alive.
const LARGEST_BODY: usize = 64 << 10;

/// So many failed probes in a row make a provider sick.
const SICK_AFTER: u32 = 2;

/// What the probes of one provider have found so far.
#[derive(Debug, Default)]
struct ProbeState {
    failures: u32,
    is_sick: bool,
}

impl ProbeState {
    /// Takes one more finding; true where it turns the verdict.
    fn turns(&mut self, well: bool) -> bool {
        self.failures = if well { 0 } else { self.failures.saturating_add(1) };
        let was_sick = self.is_sick;
        self.is_sick = if was_sick { !well } else { self.failures >= SICK_AFTER };
        self.is_sick != was_sick
    }

    /// The verdict: sick from the second failed probe in a row to the next one that is answered.
    const fn is_sick(&self) -> bool {
        self.is_sick
    }
}

/// Probes the providers of the configuration in force for ever, of each one at a time. What reloads
/// bring and take away is seen within a second; probes end with the future.
///
/// `transport` should have places of its own, so that probes take none from calls.
pub async fn keep_probing(live: Arc<Live>, transport: Transport) {
    let transport = Arc::new(transport);
    let mut tasks = JoinSet::new();
    // Bounded by the configured providers.
    let mut probed: HashMap<Arc<str>, AbortHandle> = HashMap::new();
    loop {
        while tasks.try_join_next().is_some() {}
        probed.retain(|_, task| !task.is_finished());
        for provider in &live.running().snapshot.providers {
            if provider.health.is_some() && !probed.contains_key(&provider.name) {
                let (live, transport, name) = (live.clone(), transport.clone(), provider.name.clone());
                let task = tasks.spawn(async move { watch(&live, &transport, &name).await });
                probed.insert(provider.name.clone(), task);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Probes one provider for as long as the configuration in force asks for it.
async fn watch(live: &Live, transport: &Transport, name: &str) {
    let mut state = ProbeState::default();
    let mut asked: Option<Arc<Provider>> = None;
    let mut next = None;
    while let Some((provider, every)) = configured(live, name) {
        if asked.as_ref().is_some_and(|asked| !is_same(asked, &provider)) {
            // What is known of another address says nothing of this one.
            state = ProbeState::default();
        }
        let now = live.clock.now();
        // The first probes of all providers, and of all gateways, do not fall together.
        let due = next.unwrap_or_else(|| now + every.mul_f64(live.dice.unit())).min(now + every);
        if now < due {
            (asked, next) = (Some(provider), Some(due));
            tokio::time::sleep(LOOK.min(due.duration_since(now))).await;
            continue;
        }
        next = Some(now + every);
        let found = probe(transport, &provider).await;
        if configured(live, name).is_some_and(|(now, _)| is_same(&provider, &now)) {
            probed(live, name, every, &mut state, &found);
        }
        asked = Some(provider);
    }
    live.metrics.forget_health(name);
}

/// A provider of the configuration in force, and how often it is to be probed, if at all.
fn configured(live: &Live, name: &str) -> Option<(Arc<Provider>, Duration)> {
    let running = live.running();
    let provider = running.snapshot.providers.iter().find(|provider| &*provider.name == name)?;
    Some((provider.clone(), provider.health.as_ref()?.every))
}

/// Whether a finding about the one holds for the other.
fn is_same(one: &Provider, other: &Provider) -> bool {
    let path = |provider: &Provider| provider.health.as_ref().map(|health| health.path.clone());
    one.origin == other.origin && one.proxy == other.proxy && path(one) == path(other)
}

/// A probe of the provider has ended so. Its verdict opens the breakers of all upstreams there, and
/// stands for the trial once they have been open long enough.
fn probed(live: &Live, provider: &str, every: Duration, state: &mut ProbeState, found: &Result<(), Fault>) {
    if let Err(fault) = found
        && fault.class == Class::Gateway
    {
        // It was not asked: nothing is found.
        live.resources.tell(fault, live.clock.now());
        return;
    }
    if state.turns(found.is_ok()) {
        match found {
            Ok(()) => tracing::info!(provider, "the provider answers its health probes again"),
            Err(fault) => tracing::warn!(provider, reason = %fault.message, "the provider's health probes fail"),
        }
    }
    live.metrics.health(provider, !state.is_sick());
    let (running, now) = (live.running(), live.clock.now());
    for standing in running.standings_at(provider) {
        // Between the two, one failed probe says nothing yet.
        match found {
            Ok(()) => standing.found_well(now),
            Err(_) if state.is_sick() => standing.found_sick(now, now + every.min(LONGEST_SILENCE) + PATIENCE),
            Err(_) => {}
        }
    }
}

/// Asks one provider once.
///
/// # Errors
/// Why it is not taken for alive.
async fn probe(transport: &Transport, provider: &Provider) -> Result<(), Fault> {
    let Some(health) = &provider.health else { return Ok(()) };
    let patience = health.every.min(PATIENCE);
    tokio::time::timeout(patience, ask(transport, provider, health.path.clone())).await.unwrap_or_else(|_elapsed| {
        Err(Fault::upstream(Kind::Timeout, format!("no answer within {} ms", patience.as_millis())))
    })
}

async fn ask(transport: &Transport, provider: &Provider, path: http::uri::PathAndQuery) -> Result<(), Fault> {
    let mut request = Outgoing::default();
    *request.uri_mut() = request_target(provider, path)?;
    let headers = request.headers_mut();
    *headers = heads(provider).into_iter().next().unwrap_or_default();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
    let link = transport.checkout(provider, Checkout::Fresh, &mut Line::default()).await?;
    let (response, mut flow) = link.send(request).await.map_err(|fault| fault.fault())?;
    if response.status().is_server_error() {
        return Err(Fault::upstream(Kind::Status, format!("status {}", response.status().as_u16())));
    }
    let mut read = 0;
    while read < LARGEST_BODY {
        match flow.piece().await {
            Some(Ok(piece)) => read += piece.len(),
            Some(Err(_broken)) => return Err(Fault::upstream(Kind::Reset, "the answer broke off")),
            None => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_in_a_row_turn_the_verdict_and_one_answer_turns_it_back() {
        let mut state = ProbeState::default();
        let found = [true, false, true, false, false, false, true, true, false, true];
        let told: Vec<(bool, bool)> = found.iter().map(|well| (state.turns(*well), state.is_sick())).collect();
        let (turned, quiet, sick) = ((true, true), (false, false), (false, true));
        let back = (true, false);
        assert_eq!(told, [quiet, quiet, quiet, quiet, turned, sick, back, quiet, quiet, quiet]);
    }
}
