//! Shares of limits that are used up, over many calls: meters and those who wait for them, without the rest of
//! the gateway.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::Clock;
use gateway::limits::queue::{BatchQueue, Place, Waiter};
use rules::limits::{Aside, Decision, Kind, Limit, Rate, Terms, Want};
use rules::queue::Full;
use rules::shares::Priority;
use state::{Counters, InProcessCounters, Meter, Scope, Settled};
use testkit::story;

/// Two limits that clients of both priorities share, and calls that take so long.
#[derive(Clone)]
struct Scene {
    gateway: Arc<Meter>,
    route: Arc<Meter>,
    batch_queue: Arc<BatchQueue>,
    lasting: Duration,
}

/// Tokens of each call.
const TOKENS: u64 = 10;

impl Scene {
    fn set(gateway: Limit, route: Limit, millis: u64) -> Self {
        let meter = |scope, limit| Arc::new(Meter::new(scope, Terms::new(limit, true), Clock.now()));
        Self {
            gateway: meter(Scope::Gateway, gateway),
            route: meter(Scope::Route("r".into()), route),
            batch_queue: Arc::default(),
            lasting: Duration::from_millis(millis),
        }
    }

    fn meters(&self, is_on_route: bool) -> Vec<&Arc<Meter>> {
        if is_on_route { vec![&self.gateway, &self.route] } else { vec![&self.gateway] }
    }

    /// A call that was let in, to its end.
    async fn run(self, is_on_route: bool, priority: Priority) {
        tokio::time::sleep(self.lasting).await;
        let meters = self.meters(is_on_route);
        let tokens = Settled { aside: Aside::of_each(TOKENS), used: TOKENS, is_void: false };
        InProcessCounters.give_back(&meters, priority, tokens, Clock.now());
        self.batch_queue.has_news(&meters, Clock.now());
    }

    /// An online call, if it is let in at once.
    async fn online(&self, is_on_route: bool) -> bool {
        let want = Want { tokens: TOKENS, priority: Priority::Online, is_turn: false };
        let is_in = InProcessCounters.take(&self.meters(is_on_route), want, Clock.now()).await.denial.is_none();
        if is_in {
            tokio::task::spawn_local(self.clone().run(is_on_route, Priority::Online));
        }
        is_in
    }

    /// A batch call, as soon as it is let in; nothing where it never is.
    async fn batch(&self, client: usize, is_on_route: bool) -> Option<()> {
        let meters = self.meters(is_on_route);
        let want = Want { tokens: TOKENS, priority: Priority::Batch, is_turn: false };
        if let Some(denial) = InProcessCounters.take(&meters, want, Clock.now()).await.denial {
            let lane = (format!("c{client}").into(), if is_on_route { "r" } else { "other" }.into());
            let waiter = Waiter::new(lane, Arc::new(InProcessCounters), &meters, (TOKENS, 0));
            let place = self.batch_queue.join(waiter, &denial, 100, Clock.now()).ok()?;
            place.turn(Clock.now() + Duration::from_secs(1000)).await?;
        }
        tokio::task::spawn_local(self.clone().run(is_on_route, Priority::Batch));
        Some(())
    }

    /// Online calls come to both routes in every millisecond, more than there is room for, and batch clients have
    /// calls waiting all the time: `clients` of them on the route, and one elsewhere if `elsewhere`. Calls let in
    /// within so many seconds: online on the route and elsewhere, batch on the route and elsewhere.
    async fn rush(self, clients: usize, elsewhere: bool, seconds: u64) -> [u32; 4] {
        let counts: Rc<[Cell<u32>; 4]> = Rc::default();
        let rushing = async {
            for client in 0..clients + usize::from(elsewhere) {
                let (scene, counts) = (self.clone(), counts.clone());
                tokio::task::spawn_local(async move {
                    let is_on_route = client < clients;
                    let at = if is_on_route { 2 } else { 3 };
                    while scene.batch(client, is_on_route).await.is_some() {
                        counts[at].set(counts[at].get() + 1);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                });
            }
            for millis in 0..(5 + seconds) * 1000 {
                if millis == 5000 {
                    counts.iter().for_each(|count| count.set(0));
                }
                // Whichever comes first in a millisecond.
                for at in [millis % 2, (millis + 1) % 2] {
                    while self.online(at == 0).await {
                        let count = &counts[usize::from(at != 0)];
                        count.set(count.get() + 1);
                    }
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::task::LocalSet::new().run_until(rushing).await;
        counts.each_ref().map(Cell::get)
    }
}

fn qps(qps: f64) -> Limit {
    Limit { rate: Some(Rate::of(qps)), ..Limit::default() }
}

fn places(most: u32) -> Limit {
    Limit { concurrency: Some(most), ..Limit::default() }
}

fn tokens(per_minute: u64) -> Limit {
    Limit { tokens_per_minute: Some(per_minute), ..Limit::default() }
}

fn pairs() -> [(Limit, Limit); 8] {
    [
        (qps(20.0), qps(5.0)),
        (qps(8.0), qps(8.0)),
        (places(20), qps(20.0)),
        (qps(20.0), places(10)),
        (places(30), places(10)),
        (places(10), places(10)),
        (tokens(6000), qps(4.0)),
        (qps(20.0), tokens(3000)),
    ]
}

fn share(batch: u32, online: u32) -> f64 {
    f64::from(batch) / f64::from(batch + online)
}

#[test]
fn batch_keeps_its_tenth_where_two_shared_limits_are_used_up_at_once() {
    for (gateway, route) in pairs() {
        story(async {
            let [day, other, night, _] = Scene::set(gateway, route, 400).rush(2, false, 30).await;
            let told = format!("{gateway:?}, {route:?}: {day} and {other} online, {night} batch");
            assert!((0.09..0.3).contains(&share(night, day)), "{told}");
        });
    }
}

#[test]
fn nor_do_batch_calls_that_want_one_limit_alone_keep_those_out_that_want_both() {
    for (gateway, route) in pairs() {
        story(async {
            let [day, other, night, others] = Scene::set(gateway, route, 400).rush(2, true, 30).await;
            let told = format!("{gateway:?}, {route:?}: {day} and {other} online, {night} and {others} batch");
            // Of the gateway's tenth each of three clients has its part.
            assert!((0.09..0.2).contains(&share(night + others, day + other)), "{told}");
            assert!(share(night, day) > 0.03 && others > 0, "{told}");
        });
    }
}

#[test]
fn what_waits_is_bounded_in_bytes_too() {
    story(async {
        let scene = Scene::set(places(1), places(1), 0);
        let meters = scene.meters(true);
        let want = Want { tokens: 0, priority: Priority::Batch, is_turn: false };
        assert!(InProcessCounters.take(&meters, want, Clock.now()).await.denial.is_none());
        let denial = InProcessCounters.take(&meters, want, Clock.now()).await.denial.expect("the place is taken");
        let join = |client: &str, mebibytes: usize| {
            let lane = (client.into(), "r".into());
            let waiter = Waiter::new(lane, Arc::new(InProcessCounters), &meters, (0, mebibytes << 20));
            scene.batch_queue.join(waiter, &denial, 1000, Clock.now())
        };
        let [first, _more] = [join("a", 30), join("a", 34)].map(Result::unwrap);
        assert_eq!(join("a", 1).unwrap_err(), Full::Bytes);
        drop(first);
        let _again = [join("a", 30), join("b", 64), join("c", 64), join("d", 64)].map(Result::unwrap);
        assert_eq!(join("e", 1).unwrap_err(), Full::Bytes, "all queues together are bounded too");
    });
}

/// Counters that bear no more than a hundred questions.
#[derive(Debug, Default)]
struct Patient(AtomicUsize);

impl Counters for Patient {
    fn take(&self, meters: &[&Arc<Meter>], want: Want, now: Instant) -> state::Answer<Decision> {
        assert!(self.0.fetch_add(1, Relaxed) < 100, "who waits asks again and again at once");
        InProcessCounters.take(meters, want, now)
    }

    fn give_back(&self, meters: &[&Arc<Meter>], priority: Priority, tokens: Settled, now: Instant) {
        InProcessCounters.give_back(meters, priority, tokens, now);
    }

    fn spare(&self, meters: &[&Arc<Meter>], priority: Priority, tokens: (Aside, u64), now: Instant) {
        InProcessCounters.spare(meters, priority, tokens, now);
    }

    fn peek(&self, meter: &Meter, now: Instant) -> Option<(Kind, Duration)> {
        InProcessCounters.peek(meter, now)
    }
}

#[test]
fn who_stands_behind_a_limit_that_a_reload_has_removed_goes_where_its_own_are_short() {
    for is_gateways in [true, false] {
        story(tokio::task::LocalSet::new().run_until(async move {
            let (gateway, route) = if is_gateways { (qps(1.0), places(10)) } else { (places(10), qps(1.0)) };
            let Scene { gateway, route, batch_queue: queue, .. } = Scene::set(gateway, route, 0);
            let all = [&gateway, &route];
            let (gone, kept) = if is_gateways { (&gateway, &route) } else { (&route, &gateway) };
            let want = |priority| Want { tokens: TOKENS, priority, is_turn: false };
            let took = async |meters: &[&Arc<Meter>], priority| {
                InProcessCounters.take(meters, want(priority), Clock.now()).await.denial
            };
            assert!(took(&[gone], Priority::Online).await.is_none());
            for _ in 0..10 {
                assert!(took(&[kept], Priority::Online).await.is_none());
            }
            let counters = Arc::new(Patient::default());
            let join = async |meters: &[&Arc<Meter>]| {
                let denial = took(meters, Priority::Batch).await.expect("a limit is used up");
                let waiter = Waiter::new(("c".into(), "r".into()), counters.clone(), meters, (TOKENS, 0));
                queue.join(waiter, &denial, 100, Clock.now()).unwrap()
            };
            let wait = |place: Place| tokio::task::spawn_local(place.turn(Clock.now() + Duration::from_secs(1000)));
            // The first one finds room again in what it stood for, and lacks a place that is due to it: it stays.
            let first = wait(join(&all).await);
            tokio::time::sleep(Duration::from_secs(3)).await;
            let second = wait(join(&[kept]).await);
            first.abort();
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(!second.is_finished(), "no place is free, and it does not ask all the time");
            // It claims the next place, which is due to it: no online call takes that before it.
            InProcessCounters.give_back(&[kept], Priority::Online, Settled::default(), Clock.now());
            assert!(took(&[kept], Priority::Online).await.is_some());
            queue.has_news(&[kept], Clock.now());
            let let_in = tokio::time::timeout(Duration::from_millis(10), second).await;
            assert!(let_in.expect("at once").unwrap().is_some());
            assert!(queue.depths().is_empty());
        }));
    }
}
