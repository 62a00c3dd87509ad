//! The planner, one rule after the other, and any sequence of failures.

use std::collections::VecDeque;

use base::{Code, Told};
use proptest::prelude::*;

use super::*;

const MAX_REST: Duration = Duration::from_secs(300);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn retry(server_error: &[u64], throttled: &[u64]) -> Retry {
    Retry {
        when: Repeats::Idempotent,
        server_error: server_error.iter().copied().map(seconds).collect(),
        throttled: throttled.iter().copied().map(seconds).collect(),
        budget: 0.2,
    }
}

/// A pursuit, and the time in it.
struct Case<'a> {
    pursuit: Pursuit<'a>,
    now: Instant,
}

impl<'a> Case<'a> {
    fn of(targets: &[Target], retry: &'a Retry) -> Self {
        Self::with(targets, retry, true)
    }

    fn with(targets: &[Target], retry: &'a Retry, may_repeat: bool) -> Self {
        let now = base::Clock.now();
        let terms = Terms { retry, longest_rest: MAX_REST, may_repeat, deadline: now + seconds(30) };
        Self { pursuit: Pursuit::new(targets.iter().map(|target| (*target, None)), terms), now }
    }

    fn next(&mut self) -> Option<Target> {
        match self.pursuit.next(self.now) {
            Next::Try(step) => Some(step.target),
            _ => None,
        }
    }

    fn step(&mut self) -> Step {
        match self.pursuit.next(self.now) {
            Next::Try(step) => step,
            other => panic!("{other:?}"),
        }
    }

    /// Waits as it says, and says for how long.
    fn wait(&mut self) -> Duration {
        let Next::Wait(pause) = self.pursuit.next(self.now) else { panic!("nothing to wait for") };
        self.pursuit.waits(&pause);
        let waited = pause.until - self.now;
        self.now = pause.until;
        waited
    }

    fn is_over(&mut self) -> bool {
        self.pursuit.next(self.now) == Next::Over
    }

    fn fails(&mut self, fault: Fault) {
        self.next().expect("somebody to try");
        self.pursuit.failed(fault, Circumstances::default(), self.now);
    }

    fn fails_so(&mut self, fault: Fault, facts: Circumstances) {
        self.next().expect("somebody to try");
        self.pursuit.failed(fault, facts, self.now);
    }

    fn verdict(self) -> base::Refusal {
        self.pursuit.verdict(self.now)
    }
}

fn target(upstream: usize, key: usize) -> Target {
    Target { upstream, key: Some(key) }
}

fn fault(class: Class, kind: Kind) -> Fault {
    Fault { class, ..Fault::upstream(kind, "it broke") }
}

fn broken() -> Fault {
    fault(Class::Upstream, Kind::Status)
}

fn throttled(after: Option<u64>) -> Fault {
    Fault { retry_after: after.map(seconds), maybe_processed: false, ..fault(Class::Throttle, Kind::Status) }
}

fn told(status: u16, message: &str) -> Fault {
    let told = Told { status, message: message.into(), kind: None, param: None, code: None };
    Fault { told: Some(Box::new(told)), ..fault(Class::Caller, Kind::Status) }
}

#[test]
fn a_broken_upstream_is_left_for_the_next_one_whatever_its_other_keys() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0), target(0, 1), target(1, 0)], &retry);
    case.fails(broken());
    assert_eq!(case.next(), Some(target(1, 0)));
}

#[test]
fn a_refused_or_throttled_key_is_followed_by_the_next_key() {
    for class in [Class::Credential, Class::Throttle] {
        let retry = retry(&[], &[]);
        let mut case = Case::of(&[target(0, 0), target(0, 1), target(1, 0)], &retry);
        case.fails(fault(class, Kind::Status));
        assert_eq!(case.next(), Some(target(0, 1)));
    }
}

#[test]
fn the_callers_fault_ends_it_with_the_upstreams_words() {
    let retry = retry(&[1, 3], &[5]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(told(422, "no such field"));
    assert!(case.is_over());
    let refusal = case.verdict();
    assert_eq!((refusal.status(), &*refusal.message), (422, "no such field"));
}

#[test]
fn a_fallbacks_refusal_does_not_hide_the_first_failure() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(broken());
    case.fails(told(400, "too long"));
    case.wait();
    assert_eq!(case.next(), Some(target(0, 0)), "the fallback may lack what the call needs, the first does not");
    case.fails(broken());
    assert!(case.is_over());
    assert_eq!(case.verdict().code, Code::UpstreamError);
}

#[test]
fn an_upstream_whose_breaker_has_just_opened_is_not_waited_for_in_vain() {
    let retry = retry(&[1, 30], &[]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(broken());
    case.pursuit.opened(case.now + seconds(10));
    assert!(case.is_over());
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(broken());
    case.pursuit.opened(case.now + seconds(1));
    assert_eq!(case.wait(), seconds(1));
    assert_eq!(case.next(), Some(target(0, 0)));
}

#[test]
fn a_second_throttle_is_waited_out_as_the_second_wait_says() {
    let retry = retry(&[], &[2, 7]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(throttled(None));
    assert_eq!(case.wait(), seconds(2));
    case.fails(throttled(Some(0)));
    assert_eq!(case.wait(), seconds(7));
}

#[test]
fn where_nothing_is_to_be_repeated_nothing_waits() {
    let retry = Retry { when: Repeats::Never, ..retry(&[1], &[5]) };
    let mut case = Case::with(&[target(0, 0), target(1, 0)], &retry, false);
    case.fails(fault(Class::Upstream, Kind::Connect));
    case.fails(throttled(Some(1)));
    assert!(case.is_over());
}

#[test]
fn what_the_gateway_lacks_is_moved_on_from_past_other_keys_and_an_answer_without_room_is_not_made_again() {
    let retry = retry(&[1], &[]);
    let lacking = || fault(Class::Gateway, Kind::Connect);
    let mut case = Case::of(&[target(0, 0), target(0, 1), target(1, 0)], &retry);
    case.fails(lacking());
    case.fails(lacking());
    assert_eq!(case.wait(), seconds(1), "each upstream once, whatever its keys, and then one more");
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(fault(Class::Gateway, Kind::Reset));
    assert!(case.is_over());
}

#[test]
fn every_upstream_is_tried_before_any_wait_and_each_wait_grants_one_more_try() {
    let retry = retry(&[1, 3], &[5]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(broken());
    case.fails(broken());
    assert_eq!(case.wait(), seconds(1));
    assert_eq!(case.next(), Some(target(0, 0)));
    case.fails(broken());
    assert_eq!(case.wait(), seconds(3));
    assert_eq!(case.next(), Some(target(1, 0)), "the one that has waited longest");
    case.fails(broken());
    assert!(case.is_over());
}

#[test]
fn a_throttled_upstream_is_waited_for_as_long_as_it_asked() {
    let retry = retry(&[1], &[5]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(throttled(Some(9)));
    case.fails(throttled(Some(4)));
    assert_eq!(case.wait(), seconds(4));
    assert_eq!(case.next(), Some(target(1, 0)));
    case.fails(throttled(None));
    assert!(case.is_over(), "the one wait is used up");
    let refusal = case.verdict();
    assert_eq!((refusal.code, refusal.retry_after), (Code::UpstreamThrottled, Some(seconds(5))));
}

#[test]
fn a_throttle_without_a_time_is_waited_out_as_configured() {
    let retry = retry(&[], &[2]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(throttled(None));
    assert_eq!(case.wait(), seconds(2));
}

#[test]
fn a_rest_that_does_not_fit_the_deadline_is_told_at_once() {
    let retry = retry(&[1], &[5]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(throttled(Some(1_000_000_000)));
    case.fails(throttled(Some(40)));
    assert!(case.is_over());
    let refusal = case.verdict();
    assert_eq!((refusal.code, refusal.retry_after), (Code::UpstreamThrottled, Some(seconds(40))));
}

#[test]
fn no_rest_is_longer_than_the_longest() {
    let retry = retry(&[1], &[5]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(throttled(Some(1_000_000_000)));
    assert!(case.is_over());
    assert_eq!(case.verdict().retry_after, Some(MAX_REST));
}

#[test]
fn what_comes_first_is_waited_for_a_rests_end_or_a_wait() {
    let retry = retry(&[1, 3], &[5]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    case.fails(throttled(Some(2)));
    case.fails(broken());
    assert_eq!(case.wait(), seconds(1));
    case.fails(broken());
    assert_eq!(case.wait(), seconds(1), "the rest of the throttled one is over before three more seconds");
    assert_eq!(case.next(), Some(target(0, 0)));
}

#[test]
fn a_call_that_finds_everything_resting_waits_for_the_first_to_be_up_again() {
    let retry = retry(&[1], &[5]);
    let now = base::Clock.now();
    let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(10) };
    let barred =
        [(target(0, 0), Some(Bar::Resting(now + seconds(8)))), (target(1, 0), Some(Bar::Resting(now + seconds(2))))];
    let mut case = Case { pursuit: Pursuit::new(barred, terms), now };
    assert_eq!(case.wait(), seconds(2));
    assert_eq!(case.next(), Some(target(1, 0)));
}

#[test]
fn without_budget_there_is_no_repeat() {
    let retry = retry(&[1, 3], &[5]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(broken());
    assert!(matches!(case.pursuit.next(case.now), Next::Wait(_)));
    case.pursuit.forgo();
    assert!(case.is_over());
    assert_eq!(case.verdict().code, Code::UpstreamError);
}

#[test]
fn a_pause_ends_a_little_late_but_in_time() {
    let retry = retry(&[10], &[]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.fails(broken());
    let Next::Wait(pause) = case.pursuit.next(case.now) else { panic!("a wait is granted") };
    assert_eq!(pause.wake(0.0), case.now + seconds(10));
    assert_eq!(pause.wake(1.0), case.now + seconds(12));
    case.now += seconds(19);
    let Next::Wait(pause) = case.pursuit.next(case.now) else { panic!("a wait is granted") };
    assert_eq!(pause.wake(1.0), case.pursuit.terms.deadline - LEAST);
    assert_eq!(pause.wake(0.5), case.now + Duration::from_millis(10_475), "not all of them at the last moment");
    case.now += seconds(1);
    assert!(case.is_over(), "ten more seconds would be past the deadline");
}

#[test]
fn a_target_that_turns_out_to_take_no_calls_costs_no_try() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0), target(1, 0)], &retry);
    assert_eq!(case.next(), Some(target(0, 0)));
    case.pursuit.barred(Bar::Open(case.now + seconds(30)));
    assert_eq!(case.next(), Some(target(1, 0)));
    case.fails(broken());
    case.wait();
    assert_eq!(case.next(), Some(target(1, 0)));
}

#[test]
fn an_upstream_that_is_up_again_when_another_has_failed_is_tried_at_once() {
    let bars = [Bar::Open as fn(Instant) -> Bar, Bar::Resting, Bar::Refused];
    for bar in bars {
        let retry = retry(&[1], &[]);
        let now = base::Clock.now();
        let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(30) };
        let barred = [(target(0, 0), Some(bar(now + seconds(2)))), (target(1, 0), None)];
        let mut case = Case { pursuit: Pursuit::new(barred, terms), now };
        assert_eq!(case.next(), Some(target(1, 0)));
        case.now += seconds(2);
        case.pursuit.failed(broken(), Circumstances::default(), case.now);
        assert_eq!(case.next(), Some(target(0, 0)));
    }
}

#[test]
fn an_upstream_that_is_up_again_after_a_wait_goes_before_one_that_has_failed() {
    let retry = retry(&[1], &[]);
    let now = base::Clock.now();
    let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(30) };
    let barred = [(target(0, 0), Some(Bar::Open(now + Duration::from_millis(800)))), (target(1, 0), None)];
    let mut case = Case { pursuit: Pursuit::new(barred, terms), now };
    case.fails(broken());
    case.wait();
    assert_eq!(case.next(), Some(target(0, 0)));
    case.pursuit.barred(Bar::Open(case.now));
    assert_eq!(case.next(), Some(target(1, 0)), "on trial still: it is not asked over and over");
    case.fails(broken());
    assert_eq!(case.next(), Some(target(0, 0)), "but once more when the other has failed again");
    case.pursuit.barred(Bar::Open(case.now));
    assert!(case.is_over());
}

#[test]
fn every_breaker_open_is_told_with_the_soonest_trial() {
    let retry = retry(&[1], &[5]);
    let now = base::Clock.now();
    let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(100) };
    let barred =
        [(target(0, 0), Some(Bar::Open(now + seconds(20)))), (target(1, 0), Some(Bar::Open(now + seconds(12))))];
    let mut pursuit = Pursuit::new(barred, terms);
    assert_eq!(pursuit.next(now), Next::Over);
    let refusal = pursuit.verdict(now);
    assert_eq!((refusal.code, refusal.retry_after), (Code::AllUpstreamsUnavailable, Some(seconds(12))));
}

#[test]
fn refused_keys_are_no_throttle() {
    let retry = retry(&[1], &[5]);
    let now = base::Clock.now();
    let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(100) };
    let mut pursuit = Pursuit::new([(target(0, 0), Some(Bar::Refused(now + seconds(60))))], terms);
    assert_eq!(pursuit.next(now), Next::Over, "nobody waits a minute for a key that was refused");
    assert_eq!(pursuit.verdict(now).code, Code::AllUpstreamsUnavailable);
}

#[test]
fn what_cannot_be_mended_is_not_repeated() {
    let retry = retry(&[1], &[]);
    for fault in [Fault { status: Some(501), ..broken() }, fault(Class::Upstream, Kind::Dimension)] {
        let mut case = Case::of(&[target(0, 0)], &retry);
        case.fails(fault);
        assert!(case.is_over());
    }
}

#[test]
fn a_stale_connection_costs_one_more_try_on_a_new_one_and_no_more() {
    let retry = retry(&[], &[]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    let stale = Circumstances { stale: true, ..Circumstances::default() };
    case.fails_so(fault(Class::Upstream, Kind::Reset), stale);
    assert!(case.step().manner.fresh);
    case.fails_so(fault(Class::Upstream, Kind::Reset), stale);
    assert!(case.is_over());
}

#[test]
fn a_call_with_side_effects_moves_on_only_where_nothing_was_processed() {
    let retry = retry(&[1], &[5]);
    let mut refused = Case::with(&[target(0, 0), target(1, 0)], &retry, false);
    assert!(refused.step().manner.fresh, "and never on a connection that has sat idle");
    refused.fails(fault(Class::Upstream, Kind::Connect));
    assert_eq!(refused.next(), Some(target(1, 0)));
    let mut broken = Case::with(&[target(0, 0), target(1, 0)], &retry, false);
    broken.fails(fault(Class::Upstream, Kind::Reset));
    assert!(broken.is_over());
    let mut spared = Case::with(&[target(0, 0)], &retry, false);
    spared.fails(throttled(Some(2)));
    assert_eq!(spared.wait(), seconds(2), "a throttle says that nothing was done");
}

#[test]
fn who_says_which_calls_may_run_twice() {
    let retry = |when| Retry { when, ..retry(&[], &[]) };
    assert!(retry(Repeats::Idempotent).allows(true) && !retry(Repeats::Idempotent).allows(false));
    assert!(retry(Repeats::Always).allows(false));
    assert!(!retry(Repeats::Never).allows(true));
}

#[test]
fn what_the_gateway_put_in_is_taken_out_once_before_anyone_is_blamed() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    let added = Circumstances { added_stream_options: true, ..Circumstances::default() };
    case.fails_so(told(400, "Unknown field: stream_options"), added);
    assert!(case.step().manner.without_stream_options);
    case.fails(told(400, "max_tokens is too large"));
    assert_eq!(case.verdict().message, "max_tokens is too large");
}

#[test]
fn nothing_starts_when_the_deadline_leaves_no_room() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0)], &retry);
    case.now += seconds(30) - Duration::from_millis(49);
    assert!(case.is_over());
    assert_eq!(case.verdict().code, Code::DeadlineExceeded);
}

#[test]
fn another_upstream_is_left_only_while_it_takes_calls() {
    let retry = retry(&[1], &[]);
    let mut case = Case::of(&[target(0, 0), target(0, 1), target(1, 0)], &retry);
    assert!(case.step().more);
    case.fails(broken());
    assert!(!case.step().more, "the other key is of a broken upstream");
    let now = base::Clock.now();
    let terms = Terms { retry: &retry, longest_rest: MAX_REST, may_repeat: true, deadline: now + seconds(9) };
    let barred = [(target(0, 0), None), (target(1, 0), Some(Bar::Open(now + seconds(30))))];
    assert!(!Case { pursuit: Pursuit::new(barred, terms), now }.step().more);
}

fn crowd() -> Refusal {
    Refusal::new(base::Code::QueueFull, "full")
}

#[test]
fn a_full_upstream_is_waited_for_only_when_no_other_has_room() {
    let retry = retry(&[], &[]);
    let mut case = Case::with(&[target(0, 0), target(0, 1), target(1, 0)], &retry, true);
    let Next::Try(first) = case.pursuit.next(case.now) else { panic!("there is one to try") };
    assert_eq!(first.target, target(0, 0));
    case.pursuit.full();
    let Next::Try(second) = case.pursuit.next(case.now) else { panic!("the other upstream has room") };
    assert_eq!((second.target, second.more), (target(1, 0), true));
    case.pursuit.full();
    let Next::Queue(third) = case.pursuit.next(case.now) else { panic!("all are full") };
    assert_eq!(third.target, target(0, 0));
    case.pursuit.crowded(crowd(), false);
    let Next::Queue(fourth) = case.pursuit.next(case.now) else { panic!("there is another line") };
    assert_eq!(fourth.target, target(1, 0));
    case.pursuit.crowded(Refusal::new(base::Code::QueueTimeout, "late"), true);
    assert_eq!(case.pursuit.next(case.now), Next::Over);
    assert_eq!(case.pursuit.verdict(case.now).code, base::Code::QueueFull, "the first line's word");
}

/// How a try of the property below goes.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Broken,
    Hung(u64),
    Throttled(Option<u64>),
    Refused,
    Stale,
    Barred(u64),
    Full,
}

fn goes() -> impl Strategy<Value = Goes> {
    prop_oneof![
        Just(Goes::Broken),
        (0..20_000u64).prop_map(Goes::Hung),
        proptest::option::of(0..100u64).prop_map(Goes::Throttled),
        Just(Goes::Refused),
        Just(Goes::Stale),
        (0..40_000u64).prop_map(Goes::Barred),
        Just(Goes::Full),
    ]
}

proptest! {
    /// Whatever happens, a pursuit ends by its deadline, after at most one try for each target and each
    /// wait, and never goes to a target while that rests.
    #[test]
    fn any_sequence_of_failures_ends_in_time(
        upstreams in proptest::collection::vec(1..4usize, 1..5),
        server_error in proptest::collection::vec(0..8u64, 0..4),
        throttles in proptest::collection::vec(0..8u64, 0..4),
        goes in proptest::collection::vec(goes(), 0..64),
        may_repeat in any::<bool>(),
        budget in 0..8usize,
    ) {
        let keys = |(upstream, keys): (usize, &usize)| (0..*keys).map(move |key| target(upstream, key));
        let targets: Vec<Target> = upstreams.iter().enumerate().flat_map(keys).collect();
        let retry = retry(&server_error, &throttles);
        let mut case = Case::with(&targets, &retry, may_repeat);
        let deadline = case.now + seconds(30);
        let mut goes = VecDeque::from(goes);
        let mut rests: Vec<(Target, Instant)> = Vec::new();
        let (mut tries, mut waits, mut stale) = (0, 0, 0);
        for _ in 0..1_000 {
            let step = match case.pursuit.next(case.now) {
                Next::Over => break,
                Next::Wait(_) if waits == budget => {
                    case.pursuit.forgo();
                    continue;
                }
                Next::Wait(pause) => {
                    case.pursuit.waits(&pause);
                    waits += 1;
                    prop_assert!(pause.until + LEAST <= deadline);
                    case.now = case.now.max(pause.wake(0.5));
                    continue;
                }
                Next::Queue(_) if matches!(goes.front(), Some(Goes::Full)) => {
                    goes.pop_front();
                    case.pursuit.crowded(crowd(), false);
                    continue;
                }
                Next::Queue(step) => {
                    case.now += Duration::from_millis(100);
                    if matches!(goes.front(), Some(Goes::Barred(_))) || case.now + LEAST > deadline {
                        goes.pop_front();
                        case.pursuit.crowded(crowd(), true);
                        continue;
                    }
                    step
                }
                Next::Try(_) if matches!(goes.front(), Some(Goes::Full)) => {
                    goes.pop_front();
                    case.pursuit.full();
                    continue;
                }
                Next::Try(step) => step,
            };
            prop_assert!(case.now + LEAST <= deadline);
            prop_assert!(rests.iter().all(|(target, until)| *target != step.target || *until <= case.now));
            let (fault, facts) = match goes.pop_front().unwrap_or(Goes::Broken) {
                Goes::Broken | Goes::Full => (broken(), Circumstances::default()),
                Goes::Hung(millis) => {
                    case.now = (case.now + Duration::from_millis(millis)).min(deadline);
                    (fault(Class::Upstream, Kind::Timeout), Circumstances::default())
                }
                Goes::Throttled(after) => {
                    rests.push((step.target, case.now + retry.rest(after.map(seconds), MAX_REST)));
                    (throttled(after), Circumstances::default())
                }
                Goes::Refused => (fault(Class::Credential, Kind::Status), Circumstances::default()),
                Goes::Stale if may_repeat && !step.manner.fresh => {
                    stale += 1;
                    (fault(Class::Upstream, Kind::Reset), Circumstances { stale: true, ..Circumstances::default() })
                }
                Goes::Stale => (fault(Class::Upstream, Kind::Reset), Circumstances::default()),
                Goes::Barred(millis) => {
                    case.pursuit.barred(Bar::Open(case.now + Duration::from_millis(millis)));
                    continue;
                }
            };
            tries += 1;
            case.pursuit.failed(fault, facts, case.now);
        }
        prop_assert_eq!(case.pursuit.next(case.now), Next::Over);
        prop_assert!(waits <= retry.server_error.len() + retry.throttled.len());
        prop_assert!(tries - stale <= targets.len() + waits);
        let _ = case.verdict();
    }
}
