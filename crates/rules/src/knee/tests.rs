//! The search against servers whose knee is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

#[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here depends on which")]
fn start() -> Instant {
    Instant::now()
}

fn terms(max: u32, headroom: f64) -> Terms {
    Terms { max, adaptive: true, headroom }
}

/// A server that works on so many calls at a time, each taking a while, and lets the others wait.
struct Server {
    hands: usize,
    /// When each hand is free.
    free: BinaryHeap<Reverse<Duration>>,
    takes: Box<dyn FnMut(usize) -> Duration>,
    calls: usize,
}

impl Server {
    fn new(hands: usize, takes: impl FnMut(usize) -> Duration + 'static) -> Self {
        let free = (0..hands).map(|_| Reverse(Duration::ZERO)).collect();
        Self { hands, free, takes: Box::new(takes), calls: 0 }
    }

    fn grow(&mut self, hands: usize) {
        self.free = (0..hands).map(|_| self.free.pop().unwrap_or_default()).collect();
        self.hands = hands;
    }

    /// When a call that comes now will be answered.
    fn call(&mut self, now: Duration) -> Duration {
        self.calls += 1;
        let Reverse(free) = self.free.pop().unwrap();
        let done = free.max(now) + (self.takes)(self.calls);
        self.free.push(Reverse(done));
        done
    }
}

/// What a run came to: the mean of the limit over its last half.
struct Run {
    knee: Knee,
    begin: Instant,
    now: Duration,
    ends: BinaryHeap<Reverse<(Duration, Duration, bool)>>,
}

impl Run {
    fn new(terms: Terms) -> Self {
        let begin = start();
        Self { knee: Knee::new(terms, begin), begin, now: Duration::ZERO, ends: BinaryHeap::new() }
    }

    /// Lets callers come as many as may, but no more than `demand` at a time, for so long. Gives the mean
    /// limit of the second half.
    fn goes(&mut self, server: &mut Server, demand: usize, time: Duration) -> f64 {
        let (from, until) = (self.now + time / 2, self.now + time);
        let (mut sum, mut last) = (0.0, from);
        while self.now < until {
            while self.ends.len() < demand.min(self.knee.limit() as usize) {
                let done = server.call(self.now);
                let is_full = self.ends.len() + 1 >= self.knee.limit() as usize;
                self.ends.push(Reverse((done, self.now, is_full)));
            }
            let Reverse((done, began, was_full)) = self.ends.pop().unwrap();
            if done > from {
                sum += (done - last.max(from)).as_secs_f64() * f64::from(self.knee.limit());
                last = done;
            }
            self.now = done;
            self.knee.ended(self.begin + began, was_full, self.begin + self.now);
        }
        sum / (last - from).as_secs_f64()
    }
}

fn steady(millis: u64) -> impl FnMut(usize) -> Duration {
    move |_| Duration::from_millis(millis)
}

/// Latencies as chance has them: exponential, with that mean.
fn scattered(millis: f64, mut seed: u64) -> impl FnMut(usize) -> Duration {
    move |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "chance")]
        let unit = ((seed >> 11) as f64 / (1u64 << 53) as f64).max(1e-12);
        Duration::from_secs_f64(-unit.ln() * millis / 1000.0)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn it_finds_the_knee_and_stays_below_it() {
    for hands in [1, 2, 5, 16, 40, 200] {
        let mut run = Run::new(terms(1000, 0.3));
        let limit = run.goes(&mut Server::new(hands, steady(100)), 5000, MINUTE * 10);
        let wanted = hands as f64 * 0.7;
        assert!(limit >= wanted * 0.8 && limit <= (wanted * 1.25).max(wanted + 0.7), "{hands} hands: {limit}");
    }
}

#[test]
fn it_finds_the_knee_of_a_server_whose_latencies_scatter() {
    for seed in 1..6 {
        let mut run = Run::new(terms(1000, 0.3));
        let limit = run.goes(&mut Server::new(30, scattered(200.0, seed)), 5000, MINUTE * 30);
        assert!((15.0..=30.0).contains(&limit), "seed {seed}: {limit}");
    }
}

#[test]
fn without_headroom_it_stays_at_the_knee() {
    let mut run = Run::new(terms(1000, 0.0));
    let limit = run.goes(&mut Server::new(20, steady(50)), 5000, MINUTE * 10);
    assert!((18.0..=24.0).contains(&limit), "{limit}");
}

/// A server beside which a model is throttled, whatever is asked of the others: a word every `every`.
fn goes_beside_a_throttled_model(run: &mut Run, server: &mut Server, demand: usize, every: Duration) -> f64 {
    let (mut sum, rounds) = (0.0, 2400);
    for _ in 0..rounds {
        run.goes(server, demand, every);
        let now = run.begin + run.now;
        run.knee.overloaded(now - Duration::from_millis(5), now);
        sum += f64::from(run.knee.limit());
    }
    sum / f64::from(rounds)
}

#[test]
fn a_model_that_is_throttled_however_few_calls_there_are_does_not_hold_up_the_others() {
    let mut run = Run::new(terms(1000, 0.3));
    let mut server = Server::new(40, steady(100));
    let before = run.goes(&mut server, 5000, MINUTE * 5);
    let beside = goes_beside_a_throttled_model(&mut run, &mut server, 5000, Duration::from_millis(250));
    assert!(beside > before * 0.8, "{before} alone, {beside} beside it");
}

#[test]
fn a_word_now_and_then_is_none_about_calls_side_by_side() {
    // A model of the same provider rests for as long as it asks for, is tried again, and asks again.
    for (hands, demand, every) in [(40, 5000, 30), (12, 12, 15), (40, 5000, 3)] {
        let mut run = Run::new(terms(1000, 0.3));
        let mut server = Server::new(hands, steady(100));
        let before = run.goes(&mut server, demand, MINUTE * 5);
        for _ in 0..40 {
            let between = run.goes(&mut server, demand, Duration::from_secs(every));
            assert!(between > before * 0.7, "{before}, then {between}");
            let now = run.begin + run.now;
            run.knee.overloaded(now - Duration::from_millis(5), now);
        }
    }
}

#[test]
fn an_upstream_of_which_nothing_ends_well_any_more_is_not_asked_for_more_again() {
    let mut run = Run::new(terms(1000, 0.3));
    run.goes(&mut Server::new(40, steady(100)), 5000, MINUTE * 5);
    let mut now = run.begin + run.now;
    let mut before = run.knee.limit();
    for _ in 0..100 {
        now += Duration::from_secs(2);
        run.knee.overloaded(now - Duration::from_secs(1), now);
        assert!(run.knee.limit() <= before, "{before}, then {}", run.knee.limit());
        before = run.knee.limit();
    }
    assert_eq!(before, 1);
}

#[test]
fn an_upstream_that_refuses_what_it_cannot_do_is_asked_for_less_and_less() {
    // It works on five at a time, and refuses the others at once.
    let mut run = Run::new(terms(1000, 0.0));
    let mut server = Server::new(1000, steady(100));
    run.goes(&mut server, 5000, MINUTE);
    let before = run.knee.limit();
    assert!(before > 500, "{before}");
    for _ in 0..2000 {
        let five = 5.min(run.knee.limit() as usize);
        let began = run.begin + run.now;
        if run.knee.limit() > 5 {
            run.knee.overloaded(began + Duration::from_millis(1), began + Duration::from_millis(2));
        }
        run.now += Duration::from_millis(100);
        (0..five).for_each(|_| run.knee.ended(began, true, run.begin + run.now));
    }
    assert!(run.knee.limit() <= 5, "{}", run.knee.limit());
}

#[test]
fn it_follows_a_server_that_loses_hands_and_gets_them_back() {
    let mut run = Run::new(terms(1000, 0.3));
    let mut server = Server::new(40, steady(100));
    run.goes(&mut server, 5000, MINUTE * 5);
    server.grow(10);
    let few = run.goes(&mut server, 5000, MINUTE * 10);
    assert!((5.0..=10.0).contains(&few), "{few}");
    server.grow(40);
    let many = run.goes(&mut server, 5000, MINUTE * 20);
    assert!((24.0..=36.0).contains(&many), "{many}");
}

#[test]
fn longer_prompts_are_no_reason_to_let_in_less() {
    let mut run = Run::new(terms(1000, 0.3));
    let mut server = Server::new(20, steady(100));
    run.goes(&mut server, 5000, MINUTE * 5);
    server.takes = Box::new(steady(400));
    let limit = run.goes(&mut server, 5000, MINUTE * 20);
    assert!((12.0..=18.0).contains(&limit), "{limit}");
}

#[test]
fn a_server_that_nobody_fills_teaches_nothing() {
    let mut run = Run::new(terms(1000, 0.3));
    let mut server = Server::new(40, steady(100));
    let before = run.goes(&mut server, 5000, MINUTE * 5);
    let after = run.goes(&mut server, 3, MINUTE * 60);
    assert!((after - before).abs() < before * 0.25, "{before} and {after}");
}

#[test]
fn it_never_goes_below_one_nor_above_the_most() {
    let mut run = Run::new(terms(6, 0.3));
    let limit = run.goes(&mut Server::new(100, steady(100)), 5000, MINUTE * 5);
    assert!(limit <= 6.0 && run.knee.limit() <= 6);
    let mut now = run.begin + run.now;
    for _ in 0..100 {
        now += Duration::from_secs(1);
        run.knee.overloaded(now, now);
        assert!(run.knee.limit() >= 1);
    }
    let mut single = Run::new(terms(1, 0.9));
    single.goes(&mut Server::new(1, steady(100)), 10, MINUTE);
    assert_eq!(single.knee.limit(), 1);
}

#[test]
fn calls_that_were_throttled_together_lower_it_once() {
    let mut run = Run::new(terms(1000, 0.3));
    run.goes(&mut Server::new(40, steady(100)), 5000, MINUTE * 5);
    let (before, now) = (run.knee.limit(), run.begin + run.now);
    for _ in 0..20 {
        run.knee.overloaded(now - Duration::from_millis(100), now);
    }
    let after = run.knee.limit();
    assert!(after < before && after * 3 >= before, "{before}, then {after}");
}
