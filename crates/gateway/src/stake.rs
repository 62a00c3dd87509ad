//! A call puts aside what it may come to use of its client's quota.

use std::sync::Arc;
use std::time::Duration;

use base::{Code, Decision, Refusal, Usage, decimal};
use config::{Client, Upstream};
use dialect::Ask;
use dialect::ask::Estimate;
use dialect::images;
use rules::quota::Answer;
use state::{Amounts, Standing, Wish};

use crate::quota::quotas::{ClientQuota, Stake};
use crate::running::OnRoute;
use crate::trail::Trail;

/// Puts aside, for a client that has a quota, what the call may come to use: its prompt as estimated, its
/// answer as the caller bounds it, else as guessed. A guess need not be there whole; see [`Answer`].
/// `first` is the upstream that a split has chosen, `sent` the call, or the parts of one that is split.
///
/// # Errors
/// `insufficient_quota`, which names the quota and says when it begins anew.
pub async fn stake(
    on: OnRoute<'_>,
    client: &Client,
    first: Option<usize>,
    sent: &[Ask],
    trail: &mut Trail,
) -> Result<(), Refusal> {
    let Some(quota) = on.running.quotas.of(client) else { return Ok(()) };
    // The period in which a call arrives is the one that it is charged to, in the ledger too.
    let period = quota.period(trail.record.time);
    let wish = wish(quota, &|| on.route.first_upstreams(first), sent);
    match quota.account().reserve(period, wish, quota.limits()).await {
        Ok(reserved) => {
            trail.note(Decision::Staked(reserved.tokens));
            let more = Stake::new(quota.clone(), period, reserved);
            // A call may ask more than once, for what others did not bring it. What it has used already counts on.
            trail.stake = Some(match trail.stake.take() {
                Some(stake) => stake.and(more),
                None => more,
            });
            Ok(())
        }
        Err(standing) => {
            trail.note(Decision::OverQuota);
            Err(refusal(client, quota, standing, wish, trail.record.time))
        }
    }
}

fn wish<'a, I: Iterator<Item = &'a Arc<Upstream>>>(
    quota: &ClientQuota,
    upstreams: &dyn Fn() -> I,
    sent: &[Ask],
) -> Wish {
    let image = || images::worth(upstreams().map(|upstream| &*upstream.sent));
    let each = sent.iter().map(|part| part.estimate(image));
    let Some(Estimate { prompt, written, units }) = each.reduce(Estimate::plus) else {
        return Wish::default();
    };
    let answer = Answer::of(written.bound());
    let usage = |completion| Usage { prompt, completion, units, ..Usage::default() };
    let (least, most) = (usage(answer.least), usage(answer.most));
    let mut wish = Wish { least: quota.weigh(least, None), most: quota.weigh(most, None) };
    if quota.terms.cost.is_some() {
        for price in upstreams().filter_map(|upstream| upstream.price.as_ref()) {
            let cost = |usage| quota.weigh(usage, price.of(usage).as_ref()).cost;
            wish.least.cost = wish.least.cost.max(cost(least));
            wish.most.cost = wish.most.cost.max(cost(most));
        }
    }
    wish
}

/// A period that ends sooner than this is worth waiting for.
const WORTH_WAITING: Duration = Duration::from_secs(60);
/// When calls under way may have given back what they do not use; nobody knows when they do.
const UNDER_WAY: Duration = Duration::from_secs(1);

fn refusal(client: &Client, quota: &ClientQuota, standing: Standing, wish: Wish, now: Duration) -> Refusal {
    let terms = &quota.terms;
    let Amounts { tokens, cost } = standing.spent.plus(standing.reserved);
    let is_short =
        |limit: Option<u64>, taken: u64, wanted: u64| limit.filter(|limit| *limit <= taken || limit - taken < wanted);
    let money = |nanos| format!("{} {}", decimal(nanos), terms.currency);
    let (used, limit, held, wanted) = match is_short(terms.tokens, tokens, wish.least.tokens) {
        Some(limit) => {
            let words = [standing.spent.tokens, limit, standing.reserved.tokens, wish.least.tokens];
            let [used, limit, held, wanted] = words.map(|count| format!("{count} tokens"));
            (used, limit, (standing.reserved.tokens > 0).then_some(held), wanted)
        }
        None => {
            let limit = is_short(terms.cost, cost, wish.least.cost).unwrap_or_default();
            let held = (standing.reserved.cost > 0).then(|| money(standing.reserved.cost));
            (money(standing.spent.cost), money(limit), held, money(wish.least.cost))
        }
    };
    let held = held.map_or_else(String::new, |held| format!(", {held} put aside by calls under way"));
    let period = quota.period(now);
    let message = format!(
        "the quota of client `{}` has no room for this call: of {limit} a {}, {used} used{held}; it needs {wanted}; the quota begins anew at {}",
        client.name,
        terms.per.as_str(),
        terms.zone.shown(period.end),
    );
    let refusal = Refusal::new(Code::InsufficientQuota, message);
    let left = Duration::from_secs(period.end).saturating_sub(now);
    // What is only put aside may come back; what is spent does not before the period ends.
    let has_room =
        |limit: Option<u64>, spent: u64, wanted: u64| limit.is_none_or(|limit| spent.saturating_add(wanted) <= limit);
    let is_held = has_room(terms.tokens, standing.spent.tokens, wish.least.tokens)
        && has_room(terms.cost, standing.spent.cost, wish.least.cost);
    match () {
        () if is_held => refusal.after(left.min(UNDER_WAY)),
        () if left <= WORTH_WAITING => refusal.after(left),
        () => refusal,
    }
}
