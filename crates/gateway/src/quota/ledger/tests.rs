//! Quotas that come to be counted while the ledger tells nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::{Clock, Dice};
use config::Source;
use state::{Amounts, Answer, Health, Question};

use super::*;
use crate::live::Live;
use crate::quota::quotas::KeptQuotas;
use crate::records::access_log::AccessLog;

/// A ledger that refuses to answer so many questions, at once or later.
#[derive(Debug, Default)]
struct Moody {
    book: InProcessLedger,
    refusals: AtomicUsize,
    is_late: bool,
}

impl Ledger for Moody {
    fn book(&self, entries: Vec<Entry>) {
        self.book.book(entries);
    }

    fn report(&self, question: Question) -> Answer<Result<Vec<Row>, Unreadable>> {
        let refuse = self.refusals.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let answer = self.book.report(question);
        match (refuse, self.is_late) {
            (true, false) => Answer::Ready(Err(Unreadable("not now".to_owned()))),
            (false, false) => answer,
            (_, true) => Answer::Later(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if refuse { Err(Unreadable("not now".to_owned())) } else { answer.await }
            })),
        }
    }

    fn health(&self) -> Health {
        self.book.health()
    }

    fn flush(&self, patience: Duration) -> bool {
        self.book.flush(patience)
    }
}

fn snapshot(text: &str) -> config::Snapshot {
    let source = Source::Text { name: "ledger.yaml".to_owned(), text: text.to_owned() };
    config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap().snapshot
}

/// What was used of a client's quota: so many tokens, and billionths of a currency.
fn used(client: &str, tokens: u64, cost: u64, currency: &str) -> Entry {
    Entry {
        at: Clock.wall(),
        client: client.into(),
        route: "chat".into(),
        upstream: "a/m".into(),
        model: "m".into(),
        currency: currency.into(),
        sums: Sums { requests: 1, tokens_in: tokens, cost, ..Sums::default() },
    }
}

const QUOTAS: &str = "
clients:
  - { name: a, quota: { tokens: 1000, warn: [0.5, 0.8] } }
  - { name: b, quota: { cost: 1, currency: CNY, timezone: Asia/Shanghai, per: day } }";

/// A ledger with 600 tokens and 40 billionths in it, and quotas that begin to be counted.
fn opening(ledger: Moody) -> (Arc<UsageLedger>, KeptQuotas, crate::quota::quotas::ClientQuotas) {
    ledger.book(vec![used("a", 600, 30, "USD"), used("b", 5, 40, "CNY"), used("b", 5, 7, "USD")]);
    let snapshot = snapshot(QUOTAS);
    let mut kept = KeptQuotas::default();
    let usage_ledger = Arc::new(UsageLedger::new(Arc::new(ledger)));
    let quotas = kept.bind(&snapshot);
    usage_ledger.open(kept.unknown(&snapshot, Clock.wall()));
    (usage_ledger, kept, quotas)
}

#[tokio::test(start_paused = true)]
async fn what_was_used_before_is_asked_for_until_it_is_told_and_counted_once() {
    for (refusals, is_late) in [(0, false), (0, true), (1, false), (1, true), (2, true), (7, false), (40, true)] {
        let ledger = Moody { refusals: refusals.into(), is_late, ..Moody::default() };
        let (usage_ledger, _kept, quotas) = opening(ledger);
        let keeping = tokio::spawn({
            let usage_ledger = usage_ledger.clone();
            async move { usage_ledger.keep_opening().await }
        });
        let (a, b) = (quotas.named("a").unwrap(), quotas.named("b").unwrap());
        let spent =
            |quota: &crate::quota::quotas::ClientQuota| quota.account().standing(quota.period(Clock.wall())).spent;
        // Calls end meanwhile, which the process counts itself.
        for step in 1..=30 {
            a.settle(a.period(Clock.wall()), Amounts::default(), Amounts { tokens: 10, cost: 1 });
            b.settle(b.period(Clock.wall()), Amounts::default(), Amounts { tokens: 1, cost: 2 });
            usage_ledger.book(vec![used("a", 10, 1, "USD"), used("b", 1, 2, "CNY")]);
            assert!(spent(a).tokens >= 10 * step, "what the process knows counts at once");
            tokio::time::sleep(Duration::from_millis(70)).await;
        }
        assert!(usage_ledger.opened(Duration::from_secs(600)).await, "{refusals} {is_late}");
        let case = format!("{refusals} refusals, late: {is_late}");
        assert_eq!(spent(a), Amounts { tokens: 900, cost: 60 }, "{case}");
        assert_eq!(spent(b), Amounts { tokens: 40, cost: 100 }, "{case}: dollars are no yuan");
        assert_eq!(usage_ledger.unopened(), 0);
        keeping.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_that_wait_for_the_ledger_are_counted_and_forgotten_with_their_clients() {
    let ledger = Moody { refusals: usize::MAX.into(), ..Moody::default() };
    let (usage_ledger, mut kept, quotas) = opening(ledger);
    assert_eq!(usage_ledger.unopened(), 2);
    assert!(!usage_ledger.opened(Duration::from_secs(3)).await);
    let fewer =
        snapshot("clients: [{ name: b, quota: { cost: 1, currency: CNY, timezone: Asia/Shanghai, per: day } }]");
    let after = kept.bind(&fewer);
    drop(quotas);
    usage_ledger.open(kept.unknown(&fewer, Clock.wall()));
    assert_eq!((usage_ledger.unopened(), after.named("a").is_none()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn each_share_that_is_come_to_by_a_late_answer_is_warned_of_once() {
    let (usage_ledger, kept, quotas) = opening(Moody { refusals: 3.into(), ..Moody::default() });
    let a = quotas.named("a").unwrap();
    let told = || kept.alerts().take();
    a.settle(a.period(Clock.wall()), Amounts::default(), Amounts { tokens: 250, cost: 0 });
    usage_ledger.book(vec![used("a", 250, 0, "")]);
    assert_eq!(told().len(), 0, "a quarter is nothing to tell");
    let keeping = tokio::spawn({
        let usage_ledger = usage_ledger.clone();
        async move { usage_ledger.keep_opening().await }
    });
    assert!(usage_ledger.opened(Duration::from_secs(60)).await);
    keeping.abort();
    let share = |(_, alert)| match alert {
        crate::alerts::Alert::Quota { share, .. } => Some(share),
        _ => None,
    };
    let shares: Vec<f64> = told().into_iter().filter_map(share).collect();
    assert_eq!(shares, [0.5, 0.8]);
    a.settle(a.period(Clock.wall()), Amounts::default(), Amounts { tokens: 10, cost: 0 });
    assert_eq!(told().len(), 0);
}

/// As long as any month, and two days.
const A_MONTH_ON: Duration = Duration::from_secs(33 * 86_400);

/// Quotas that ask a ledger what was used before, which holds 700 tokens of two clients by a clock that is a month on.
fn a_month_on(ledger: Moody) -> (Arc<UsageLedger>, Arc<Moody>, crate::quota::quotas::ClientQuotas, Duration) {
    let ledger = Arc::new(ledger);
    let later = Clock.wall() + A_MONTH_ON;
    ledger.book(["a", "c"].map(|client| Entry { at: later, ..used(client, 700, 0, "") }).into());
    let usage_ledger = Arc::new(UsageLedger::new(ledger.clone()));
    let mut kept = KeptQuotas::default().told_by(usage_ledger.clone());
    let snapshot = snapshot("clients: [{ name: a, quota: { tokens: 1000 } }, { name: c, quota: { tokens: 1000 } }]");
    let quotas = kept.bind(&snapshot);
    usage_ledger.open(kept.unknown(&snapshot, Clock.wall()));
    (usage_ledger, ledger, quotas, later)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_into_another_month_finds_what_the_ledger_has_of_it() {
    for (refusals, is_late) in [(0, false), (0, true), (3, false), (3, true)] {
        let (usage_ledger, ledger, quotas, later) = a_month_on(Moody { is_late, ..Moody::default() });
        let keeping = tokio::spawn({
            let usage_ledger = usage_ledger.clone();
            async move { usage_ledger.keep_opening().await }
        });
        assert!(usage_ledger.opened(Duration::from_secs(60)).await);
        ledger.refusals.store(refusals, Ordering::Relaxed);
        for name in ["a", "c"] {
            let quota = quotas.named(name).unwrap();
            assert_eq!(quota.spent(Clock.wall()).tokens, 0);
            let period = quota.period(later);
            quota.settle(period, Amounts::default(), Amounts { tokens: 10, cost: 0 });
            usage_ledger.book(vec![Entry { at: later, ..used(name, 10, 0, "") }]);
        }
        assert!(usage_ledger.opened(Duration::from_secs(60)).await, "{refusals} {is_late}");
        for name in ["a", "c"] {
            let spent = quotas.named(name).unwrap().spent(later).tokens;
            assert_eq!(spent, 710, "{name}: {refusals} refusals, late: {is_late}");
        }
        keeping.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_month_that_begins_while_the_process_runs_nothing_is_asked() {
    let (_usage_ledger, _, quotas, later) = a_month_on(Moody::default());
    tokio::time::advance(A_MONTH_ON).await;
    // What the ledger has of it is of a clock that was wrong before.
    assert_eq!(quotas.named("a").unwrap().spent(later).tokens, 0);
}

#[tokio::test(start_paused = true)]
async fn quotas_that_enter_a_month_while_the_ledger_takes_no_question_share_one() {
    let (usage_ledger, ledger, quotas, later) = a_month_on(Moody::default());
    ledger.refusals.store(2, Ordering::Relaxed);
    for name in ["a", "c"] {
        assert_eq!(quotas.named(name).unwrap().spent(later).tokens, 0);
    }
    let questions = usage_ledger.openings().unanswered.len();
    assert_eq!((questions, usage_ledger.unopened()), (1, 2));
}

/// Accounts whose making takes as long as others need to gather.
#[derive(Debug, Default)]
struct Slow {
    live: Mutex<Option<Arc<Live>>>,
    was_held_up: AtomicBool,
}

impl Accounts for Slow {
    fn of(&self, client: &Arc<str>, currency: &Arc<str>) -> Arc<dyn state::Account> {
        if let Some(live) = self.live.lock().unwrap().clone() {
            let (done, gathered) = std::sync::mpsc::sync_channel(1);
            std::thread::spawn(move || {
                live.gather();
                done.send(())
            });
            let is_held_up = gathered.recv_timeout(Duration::from_secs(5)).is_err();
            self.was_held_up.fetch_or(is_held_up, Ordering::Relaxed);
        }
        InProcessAccounts.of(client, currency)
    }
}

#[test]
fn records_are_gathered_while_a_reload_binds_a_large_configuration() {
    let accounts = Arc::new(Slow::default());
    let stores = Stores { accounts: accounts.clone(), ..Stores::default() };
    let live = Live::keeping(snapshot("clients: []"), Dice::loaded(1), AccessLog::default(), stores).unwrap();
    let per_worker = live.add_worker();
    *accounts.live.lock().unwrap() = Some(live.clone());
    live.put_in_force(snapshot(QUOTAS));
    *accounts.live.lock().unwrap() = None;
    assert!(!accounts.was_held_up.load(Ordering::Relaxed));
    assert!(live.running().quotas.named("a").is_some() && per_worker.running().quotas.named("b").is_some());
}

/// A ledger whose file comes to harm.
#[derive(Debug, Default)]
struct Forgetful(Mutex<(InProcessLedger, u64)>);

impl Forgetful {
    fn now(&self) -> MutexGuard<'_, (InProcessLedger, u64)> {
        self.0.lock().unwrap()
    }

    /// Begins anew with these.
    fn forget(&self, entries: Vec<Entry>) {
        let mut now = self.now();
        *now = (InProcessLedger::default(), now.1 + 1);
        now.0.book(entries);
    }
}

impl Ledger for Forgetful {
    fn book(&self, entries: Vec<Entry>) {
        self.now().0.book(entries);
    }

    fn report(&self, question: Question) -> Answer<Result<Vec<Row>, Unreadable>> {
        self.now().0.report(question)
    }

    fn health(&self) -> Health {
        Health { changes: self.now().1, ..Health::default() }
    }

    fn flush(&self, _: Duration) -> bool {
        true
    }
}

/// What a start would take for what these two clients have used: tokens of `a`, billionths of `b`.
fn after_a_restart(ledger: &Arc<Forgetful>) -> (u64, u64) {
    let (snapshot, mut kept) = (snapshot(QUOTAS), KeptQuotas::default());
    let usage_ledger = UsageLedger::new(ledger.clone());
    let quotas = kept.bind(&snapshot);
    usage_ledger.open(kept.unknown(&snapshot, Clock.wall()));
    let spent = |client: &str| quotas.named(client).unwrap().spent(Clock.wall());
    (spent("a").tokens, spent("b").cost)
}

#[tokio::test(start_paused = true)]
async fn what_the_ledger_has_lost_of_what_quotas_have_counted_is_entered_again_and_once() {
    let ledger = Arc::<Forgetful>::default();
    let (snapshot, mut kept) = (snapshot(QUOTAS), KeptQuotas::default());
    let usage_ledger = UsageLedger::new(ledger.clone());
    let quotas = kept.bind(&snapshot);
    usage_ledger.open(kept.unknown(&snapshot, Clock.wall()));
    let call = |client: &str, tokens, cost, currency: &str| {
        let quota = quotas.named(client).unwrap();
        let counted = if currency == "CNY" { cost } else { 0 };
        quota.settle(quota.period(Clock.wall()), Amounts::default(), Amounts { tokens, cost: counted });
        usage_ledger.book(vec![used(client, tokens, cost, currency)]);
    };
    let counted = || kept.counted(Clock.wall());
    let reconcile = async || usage_ledger.reconcile(&counted(), counted(), Clock.wall()).await.unwrap();
    call("a", 300, 30, "USD");
    call("b", 5, 40, "CNY");
    call("b", 5, 7, "USD");
    assert!(!usage_ledger.is_changed());
    ledger.forget(Vec::new());
    call("a", 50, 5, "USD");
    assert_eq!((usage_ledger.is_changed(), after_a_restart(&ledger)), (true, (50, 0)));
    reconcile().await;
    assert_eq!((usage_ledger.is_changed(), after_a_restart(&ledger)), (false, (350, 40)));
    reconcile().await;
    call("a", 1, 1, "USD");
    assert_eq!(after_a_restart(&ledger), (351, 40), "nothing is entered twice");
    // Somebody puts an older ledger in its place, and then one that has more.
    ledger.forget(vec![used("a", 100, 0, "USD"), used("b", 1, 2, "CNY")]);
    reconcile().await;
    assert_eq!(after_a_restart(&ledger), (351, 40));
    ledger.forget(vec![used("a", 900, 0, "USD"), used("b", 20, 80, "CNY")]);
    reconcile().await;
    assert_eq!(after_a_restart(&ledger), (900, 80));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_has_lost_nothing_is_given_nothing_while_calls_end() {
    let ledger = Arc::<Forgetful>::default();
    let (snapshot, mut kept) = (snapshot(QUOTAS), KeptQuotas::default());
    let usage_ledger = UsageLedger::new(ledger.clone());
    let quotas = kept.bind(&snapshot);
    usage_ledger.open(kept.unknown(&snapshot, Clock.wall()));
    let quota = quotas.named("a").unwrap();
    let settle = |tokens| {
        quota.settle(quota.period(Clock.wall()), Amounts::default(), Amounts { tokens, cost: 0 });
    };
    settle(300);
    usage_ledger.book(vec![used("a", 300, 0, "USD")]);
    // Somebody has taken up the log of its file: nothing is lost.
    ledger.now().1 += 1;
    let before = kept.counted(Clock.wall());
    settle(50);
    usage_ledger.reconcile(&before, kept.counted(Clock.wall()), Clock.wall()).await.unwrap();
    usage_ledger.book(vec![used("a", 50, 0, "USD")]);
    assert_eq!((usage_ledger.is_changed(), after_a_restart(&ledger)), (false, (350, 0)));
}
