//! What holds after any sequence of events.

use proptest::prelude::*;

use super::*;

/// What may happen to an upstream.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A call asks.
    Enter,
    /// One of the calls under way ends.
    End(usize, End),
    /// A probe finds it dead, and the next one has looked after so many milliseconds.
    Trip(u64),
    /// A probe finds it well.
    Well,
    /// An operator holds it open, for milliseconds or without an end.
    Hold(Option<u64>),
    /// An operator closes it.
    Close,
    /// Milliseconds pass.
    Pass(u64),
    /// Other terms: failures; window and hold in seconds.
    Reload(u32, u64, u64),
}

/// How a call ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Badly,
    Otherwise,
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop_oneof![1 => Just(End::Well), 3 => Just(End::Badly), 1 => Just(End::Otherwise)];
    let terms = (1_u32..6, 1_u64..20, 1_u64..40);
    prop_oneof![
        4 => Just(Event::Enter),
        4 => (any::<usize>(), end).prop_map(|(which, end)| Event::End(which, end)),
        1 => (0_u64..40_000).prop_map(Event::Trip),
        1 => Just(Event::Well),
        1 => prop::option::of(0_u64..40_000).prop_map(Event::Hold),
        1 => Just(Event::Close),
        2 => (0_u64..2_000).prop_map(Event::Pass),
        2 => (0_u64..40_000).prop_map(Event::Pass),
        1 => terms.prop_map(|(failures, window, hold)| Event::Reload(failures, window, hold)),
    ]
}

/// An upstream with its calls under way, and what was seen of it so far.
struct World {
    breaker: Breaker,
    terms: Terms,
    now: Instant,
    /// Each with its ticket and when it began.
    calls: Vec<(Option<Trial>, Instant)>,
    /// When it last opened, and until when it must then stay so.
    opened: Option<(Instant, Instant)>,
    /// When it last began to grow.
    back: Option<Instant>,
    /// Until when an operator holds it; `Some(None)` without an end.
    held: Option<Option<Instant>>,
}

impl World {
    fn new() -> Self {
        let now = base::Clock.now();
        Self { breaker: Breaker::default(), terms: TERMS, now, calls: Vec::new(), opened: None, back: None, held: None }
    }

    /// Lets it happen, and checks what must hold of this one step.
    fn happen(&mut self, event: Event) {
        let before = self.breaker.stand(self.now);
        let change = match event {
            Event::Enter => self.enter(before),
            Event::End(which, end) => self.end(which, end),
            Event::Trip(next) => self.breaker.trip(self.now, self.now + Duration::from_millis(next), &self.terms),
            Event::Well => self.breaker.well(self.now),
            Event::Hold(milliseconds) => {
                let length = milliseconds.map(Duration::from_millis);
                self.breaker.hold(self.now, length);
                self.held = Some(length.map(|length| self.now + length));
                self.forget_trials();
                None
            }
            Event::Close => {
                self.breaker.close(self.now);
                (self.held, self.opened) = (None, None);
                assert_eq!(self.breaker.stand(self.now), Stand::Closed);
                self.forget_trials();
                None
            }
            Event::Pass(milliseconds) => self.pass(Duration::from_millis(milliseconds), before),
            Event::Reload(failures, window, hold) => {
                self.terms = Terms { failures, window: seconds(window), hold: seconds(hold), ..self.terms };
                None
            }
        };
        self.note(change, before);
        self.check();
    }

    fn enter(&mut self, before: Stand) -> Option<Change> {
        match (self.breaker.enter(self.now), before) {
            (Ok(None), Stand::Closed | Stand::Growing { .. }) => self.calls.push((None, self.now)),
            (Ok(trial @ Some(_)), Stand::HalfOpen { trial_out: false }) => self.calls.push((trial, self.now)),
            (Err(again), Stand::HalfOpen { trial_out: true }) => assert_eq!(again, Some(self.now)),
            (Err(again), Stand::Open { until }) => assert_eq!(again, until),
            (entered, stand) => panic!("{entered:?} of one that is {stand:?}"),
        }
        None
    }

    /// An operator goes before trials: what becomes of them says nothing any more.
    fn forget_trials(&mut self) {
        for (trial, began) in std::mem::take(&mut self.calls) {
            match trial {
                None => self.calls.push((None, began)),
                Some(_) => assert_eq!(self.breaker.failed(trial, began, self.now, &self.terms), None),
            }
        }
    }

    fn end(&mut self, which: usize, end: End) -> Option<Change> {
        if self.calls.is_empty() {
            return None;
        }
        let (trial, began) = self.calls.swap_remove(which % self.calls.len());
        let late = trial.is_none() && self.breaker.since().is_some_and(|since| began < since);
        let change = match end {
            End::Well => self.breaker.succeeded(trial, self.now),
            End::Badly => self.breaker.failed(trial, began, self.now, &self.terms),
            End::Otherwise => {
                self.breaker.released(trial);
                None
            }
        };
        assert!(!late || matches!(change, None | Some(Change::Closed)), "a late result: {change:?}");
        change
    }

    fn pass(&mut self, time: Duration, before: Stand) -> Option<Change> {
        self.now += time;
        match (before, self.breaker.stand(self.now)) {
            (Stand::Growing { share: less }, Stand::Growing { share: more }) => assert!(less <= more),
            (Stand::Growing { .. }, Stand::Closed) | (Stand::Open { .. }, Stand::HalfOpen { trial_out: false }) => {}
            (before, after) => assert_eq!(before, after),
        }
        None
    }

    fn note(&mut self, change: Option<Change>, before: Stand) {
        match change {
            None => {}
            Some(Change::Opened { until }) => {
                assert!(!matches!(before, Stand::Open { .. }), "opened twice");
                assert_eq!(until, self.now + self.terms.hold);
                self.opened = Some((self.now, until));
            }
            Some(Change::Growing) => {
                // A probe that is answered ends what the last one has found, but never a hold.
                let is_held = self.opened.is_some_and(|(_, until)| self.now < until);
                assert!(matches!(before, Stand::HalfOpen { .. } | Stand::Open { .. }), "came back from {before:?}");
                assert!(!is_held, "came back within its hold");
                self.back = Some(self.now);
            }
            Some(Change::Closed) => assert_eq!(before, Stand::Closed),
        }
    }

    /// All calls end without a verdict, and time passes: it can be had again.
    fn end_all(mut self) {
        while !self.calls.is_empty() {
            self.happen(Event::End(0, End::Otherwise));
        }
        if self.held == Some(None) {
            self.happen(Event::Close);
        }
        self.happen(Event::Pass(40_000));
        match self.breaker.stand(self.now) {
            Stand::Closed => {}
            Stand::HalfOpen { trial_out: false } => {
                let trial = self.breaker.enter(self.now).unwrap();
                assert_eq!(self.breaker.succeeded(trial, self.now), Some(Change::Growing));
            }
            stand => panic!("{stand:?} although all calls have ended and every hold is over"),
        }
    }

    fn check(&self) {
        let out = self.calls.iter().filter(|call| call.0.is_some()).count();
        let stand = self.breaker.stand(self.now);
        assert!(out <= 1, "two trials");
        assert_eq!(matches!(stand, Stand::HalfOpen { trial_out: true }), out == 1, "{stand:?}");
        if let Some((_, until)) = self.opened.filter(|(opened, until)| self.now < *until && self.back < Some(*opened)) {
            let stays = matches!(stand, Stand::Open { until: told } if told.is_none_or(|told| told >= until));
            assert!(stays, "{stand:?} within its hold");
        }
        if self.held.is_some_and(|until| until.is_none_or(|until| self.now < until)) {
            assert!(matches!(stand, Stand::Open { .. }), "{stand:?} although an operator holds it");
        }
        let since = self.breaker.stands_since(self.now);
        assert!(since.is_none_or(|since| since <= self.now), "{since:?} is not yet");
        assert!(since.is_some() || stand == Stand::Closed, "{stand:?} since ever");
        if let (Stand::Growing { share }, Some(back)) = (stand, self.back) {
            let most = 0.05 + (self.now - back).as_secs_f64() / 5.0;
            assert!((0.05..1.0).contains(&share) && share <= most, "{share} too soon");
        }
        if let State::Closed(failures) = &self.breaker.state {
            assert!(failures.instants.len() < 5, "more than any terms allow");
        }
    }
}

/// All that can happen, in its plainest form, to an upstream that one failure opens.
const PLAINEST: [Event; 10] = [
    Event::Enter,
    Event::End(0, End::Well),
    Event::End(0, End::Badly),
    Event::End(0, End::Otherwise),
    Event::Trip(0),
    Event::Well,
    Event::Hold(Some(20_000)),
    Event::Close,
    Event::Pass(10_000),
    Event::Pass(30_000),
];

#[test]
fn every_short_story_of_an_upstream_that_was_opened_ends_with_one_trial_or_none() {
    const LENGTH: u32 = 5;
    for number in 0..PLAINEST.len().pow(LENGTH) {
        let mut world = World::new();
        world.happen(Event::Reload(1, 10, 30));
        // A call that was under way before, and comes late.
        for event in [Event::Enter, Event::Trip(0), Event::Pass(30_000), Event::Enter] {
            world.happen(event);
        }
        let digits = (0..LENGTH).map(|place| number / PLAINEST.len().pow(place) % PLAINEST.len());
        digits.for_each(|digit| world.happen(PLAINEST[digit]));
        world.end_all();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_one_trial_at_a_time_and_none_is_lost(events in prop::collection::vec(event(), 0..120)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.end_all();
    }

    #[test]
    fn it_opens_exactly_when_the_window_holds_too_many(
        gaps in prop::collection::vec(0_u64..8_000, 1..60),
        most in 1_u32..8,
    ) {
        let terms = Terms { failures: most, ..TERMS };
        let (mut breaker, mut now) = (Breaker::default(), base::Clock.now());
        let mut all = Vec::new();
        for gap in gaps {
            now += Duration::from_millis(gap);
            all.push(now);
            let within = all.iter().filter(|at| now - **at < terms.window).count();
            let opened = breaker.failed(None, now, now, &terms).is_some();
            prop_assert_eq!(opened, within >= most as usize);
            if let State::Closed(failures) = &breaker.state {
                prop_assert!(failures.instants.len() < most as usize);
            }
            if opened {
                break;
            }
        }
    }

    #[test]
    fn clocks_that_were_read_in_another_order_are_no_panic(
        events in prop::collection::vec((event(), 0_u64..60_000), 0..60),
    ) {
        let start = base::Clock.now();
        let mut breaker = Breaker::default();
        let mut trial = None;
        for (event, milliseconds) in events {
            let now = start + Duration::from_millis(milliseconds);
            match event {
                Event::Enter => trial = breaker.enter(now).unwrap_or(trial),
                Event::End(_, End::Well) => drop(breaker.succeeded(trial, now)),
                Event::End(..) => drop(breaker.failed(None, now, now, &TERMS)),
                Event::Trip(next) => drop(breaker.trip(now, now + Duration::from_millis(next), &TERMS)),
                Event::Well => drop(breaker.well(now)),
                Event::Hold(milliseconds) => breaker.hold(now, milliseconds.map(Duration::from_millis)),
                Event::Close => breaker.close(now),
                Event::Pass(_) | Event::Reload(..) => breaker.released(trial),
            }
            let _ = (breaker.stand(now), breaker.is_quiet(now));
        }
    }
}
