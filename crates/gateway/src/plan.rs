//! The route's upstreams in the order in which they are to be tried.

use std::time::Instant;

use base::Dice;
use config::{Client, Route};
use dialect::Ask;
use http::HeaderValue;
use rules::order::{Contender, Strategy, arrange};
use rules::pursuit::{Bar, Target};
use rules::split::{self, Case, Mirror};
use smallvec::SmallVec;

use crate::caller::Caller;
use crate::running::{AtUpstream, OnRoute};

/// Whom a call may try, in order; those that take no calls now are marked so.
pub type Plan = SmallVec<[(Target, Option<Bar>); 4]>;

/// Every target of the route: its upstreams by tier and strategy, `first` (the branch of a split)
/// before all others, each with its provider's keys in turn. Those that are too small for the call
/// are passed over.
#[must_use]
pub fn plan(on: OnRoute<'_>, first: Option<usize>, too_small: &[usize], now: Instant, dice: &Dice) -> Plan {
    let OnRoute { route, state, .. } = on;
    let mut plan = Plan::new();
    let looks: SmallVec<[(Option<Bar>, f64); 4]> =
        state.upstreams.iter().map(|known| known.gate.standing().look(now)).collect();
    let first = first.filter(|first| !too_small.contains(first));
    let is_plain =
        route.strategy == Strategy::Ordered && first.is_none() && looks.iter().all(|(_, share)| *share >= 1.0);
    if is_plain {
        for (at, (bar, _)) in looks.iter().enumerate().filter(|(at, _)| !too_small.contains(at)) {
            add(&mut plan, on, at, *bar, now);
        }
        return plan;
    }
    let mut contenders: SmallVec<[Contender; 4]> = SmallVec::new();
    for (at, (upstream, (known, (_, share)))) in
        route.upstreams.iter().zip(state.upstreams.iter().zip(&looks)).enumerate()
    {
        if too_small.contains(&at) {
            continue;
        }
        let standing = known.gate.standing();
        let (busy, cost) = match route.strategy {
            // What other routes have under way at the provider counts where its places are scarce.
            Strategy::LeastBusy => {
                (known.slots.as_ref().map_or_else(|| standing.busy(), |slots| slots.shown().1 as usize), 0.0)
            }
            Strategy::Fastest => (standing.busy(), standing.cost(now)),
            Strategy::Ordered | Strategy::Weighted => (0, 0.0),
        };
        contenders.push(Contender { at, tier: upstream.tier, weight: upstream.weight, busy, cost, share: *share });
    }
    arrange(route.strategy, first, &mut contenders, &mut || dice.unit());
    for contender in contenders {
        let bar = looks.get(contender.at).and_then(|(bar, _)| *bar);
        add(&mut plan, on, contender.at, bar, now);
    }
    plan
}

/// The upstream that the route's split chooses for a call; `quota_used` is asked only where there is one.
#[must_use]
pub fn branch(
    route: &Route,
    caller: Caller<'_>,
    ask: &Ask,
    quota_used: &dyn Fn() -> Option<f64>,
    dice: &Dice,
) -> Option<usize> {
    if route.split.is_empty() {
        return None;
    }
    let header = |name: &str| caller.headers.get(name).map(HeaderValue::as_bytes);
    let tag = ask.tag.as_deref();
    let case = Case { route: &route.name, header: &header, tag, client: &caller.client.name, quota_used: quota_used() };
    split::choose(&route.split, &case, &mut || dice.unit())
}

/// The mirror that a call of this client is to be copied to. What must not run twice is not copied.
#[must_use]
pub fn mirror(route: &Route, client: &Client, is_idempotent: bool, dice: &Dice) -> Option<Mirror> {
    let mirror = route.mirror.filter(|_| is_idempotent)?;
    mirror.share.is_drawn(&client.name, &route.name, &mut || dice.unit()).then_some(mirror)
}

/// An upstream with each of its keys.
fn add(plan: &mut Plan, on: OnRoute<'_>, at: usize, bar: Option<Bar>, now: Instant) {
    let Some(AtUpstream { upstream, known }) = on.at(at) else { return };
    for (key, resting) in known.keys.order(&upstream.provider, &known.turn, now) {
        plan.push((Target { upstream: at, key }, bar.or(resting)));
    }
}
