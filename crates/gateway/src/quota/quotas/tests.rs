//! Quotas at the edges of periods, by any clock.

use std::time::Duration;

use config::Source;
use state::{Amounts, Answer, InProcessAccounts, Wish};

use super::*;

/// 2026-09-30T16:00:00Z, when October begins in Shanghai.
const OCTOBER: u64 = 1_790_784_000;

fn quota(quota: &str) -> Arc<ClientQuota> {
    let text = format!("clients: [{{ name: app, quota: {quota} }}]");
    let source = Source::Text { name: "quota.yaml".to_owned(), text };
    let loaded = config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap();
    let mut kept = KeptQuotas::new(Arc::new(InProcessAccounts));
    let quotas = kept.bind(&loaded.snapshot);
    quotas.named("app").unwrap().clone()
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Puts aside so many tokens, if they are there.
fn stake(quota: &Arc<ClientQuota>, now: Duration, tokens: u64) -> Option<Stake> {
    let period = quota.period(now);
    let amounts = Amounts { tokens, cost: 0 };
    match quota.account().reserve(period, Wish { least: amounts, most: amounts }, quota.limits()) {
        Answer::Ready(reserved) => Some(Stake::new(quota.clone(), period, reserved.ok()?)),
        Answer::Later(_) => None,
    }
}

fn used(tokens: u64) -> Usage {
    Usage { prompt: tokens, ..Usage::default() }
}

#[test]
fn a_new_month_begins_at_the_clients_midnight_once() {
    let quota = quota("{ tokens: 100, timezone: Asia/Shanghai }");
    stake(&quota, at(OCTOBER - 10), 100).unwrap().settle(used(100), None);
    assert!(stake(&quota, at(OCTOBER - 1), 1).is_none(), "September is spent to its last second");
    stake(&quota, at(OCTOBER), 100).unwrap().settle(used(100), None);
    assert!(stake(&quota, at(OCTOBER + 1), 1).is_none(), "October began, and not a second time");
    assert!(stake(&quota, at(OCTOBER + 8 * 3600), 1).is_none(), "nor at UTC's midnight");
}

#[test]
fn a_call_is_charged_to_the_period_in_which_it_arrived() {
    let quota = quota("{ tokens: 100, timezone: Asia/Shanghai }");
    let late = stake(&quota, at(OCTOBER - 1), 60).unwrap();
    stake(&quota, at(OCTOBER), 90).unwrap().settle(used(90), None);
    late.settle(used(70), None);
    let shares = |now| quota.shares(at(now))[0].unwrap();
    assert_eq!((shares(OCTOBER - 1), shares(OCTOBER)), (0.7, 0.9));
}

#[test]
fn a_clock_that_is_set_back_and_forth_makes_nobody_richer() {
    let quota = quota("{ tokens: 100, per: day }");
    let day = 24 * 3600;
    for now in [OCTOBER, OCTOBER + day, OCTOBER, OCTOBER + 2 * day] {
        drop(stake(&quota, at(now), 1));
    }
    stake(&quota, at(OCTOBER), 100).unwrap().settle(used(100), None);
    stake(&quota, at(OCTOBER + day), 50).unwrap().settle(used(50), None);
    assert!(stake(&quota, at(OCTOBER), 1).is_none());
    assert!(stake(&quota, at(OCTOBER + day), 51).is_none());
    assert!(stake(&quota, at(OCTOBER + day), 50).is_some());
}

#[test]
fn what_is_dropped_is_given_back() {
    let quota = quota("{ tokens: 100 }");
    for _ in 0..10 {
        let held = stake(&quota, at(OCTOBER), 100).unwrap();
        assert!(stake(&quota, at(OCTOBER), 1).is_none());
        drop(held);
    }
    assert_eq!(quota.used(at(OCTOBER)), 0.0);
}
