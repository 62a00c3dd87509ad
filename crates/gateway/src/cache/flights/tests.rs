//! Boarding, from many threads at once.

use std::sync::Barrier;

use http::HeaderValue;

use super::*;

fn passenger(form: Form) -> Passenger {
    Passenger {
        client: "app".into(),
        priority: Priority::Online,
        form,
        allotted: Duration::from_secs(30),
        is_idempotent: true,
        body: Bytes::new(),
        purges: 0,
    }
}

fn names(key: u8) -> Names {
    Names { answer: Some(Key([key; 32])), replay: None }
}

fn landed() -> End {
    End::Landed(Arc::new(Landed {
        whole: Some(Bytes::from_static(b"{}")),
        content_type: HeaderValue::from_static("application/json"),
        upstream: "a/m".into(),
        shown: HeaderValue::from_static("a/m"),
        usage: None,
        cost: None,
        took: Duration::ZERO,
        id: None,
    }))
}

#[test]
fn of_many_threads_one_leads_and_all_others_hear_the_end() {
    for _ in 0..200 {
        let (flights, barrier) = (Flights::default(), Barrier::new(8));
        let leads: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        match flights.board(&names(1), &passenger(Form::Whole), |_| true) {
                            Boarded::Leads(rider) => {
                                std::thread::yield_now();
                                rider.flight.land(landed());
                                flights.close(&rider.flight);
                                1
                            }
                            Boarded::Follows(mut rider) => {
                                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                                let arrival = runtime.block_on(rider.arrival());
                                assert!(matches!(arrival, Arrival::Over(End::Landed(_))), "{arrival:?}");
                                0
                            }
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Who comes after the landing leads the next one.
        assert!(leads >= 1);
        assert_eq!(flights.count(), 0);
    }
}

#[test]
fn an_abandoned_flight_is_boarded_by_nobody() {
    let flights = Flights::default();
    let Boarded::Leads(first) = flights.board(&names(1), &passenger(Form::Whole), |_| true) else { panic!() };
    drop(first);
    let Boarded::Leads(second) = flights.board(&names(1), &passenger(Form::Whole), |_| true) else { panic!() };
    assert!(matches!(flights.board(&names(1), &passenger(Form::Whole), |_| true), Boarded::Follows(_)));
    flights.close(&second.flight);
    assert_eq!(flights.count(), 0);
}

#[test]
fn what_is_held_of_an_answer_is_bounded() {
    let flights = Flights::default();
    let stream = passenger(Form::Stream { shows_usage: false });
    let Boarded::Leads(mut rider) = flights.board(&names(1), &stream, |_| true) else { panic!() };
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        rider.flight.push(&piece);
        assert!(matches!(rider.poll_next(&mut cx), std::task::Poll::Ready(Next::Frame(_))));
    }
    assert!(rider.flight.is_too_long() && rider.flight.gathered(&[]).is_none());
    assert!(rider.flight.held() < 2 << 20, "{} bytes", rider.flight.held());
    assert!(matches!(flights.board(&names(1), &stream, |_| true), Boarded::Leads(_)), "nobody boards any more");
}

#[test]
fn a_key_without_its_answers_name_is_led_and_one_with_it_rides_along() {
    let flights = Flights::default();
    let promise = |fingerprint| Promise {
        client: "app".into(),
        key: Key([9; 32]),
        fingerprint: [fingerprint; 32],
        form: Form::Whole,
    };
    let with = |fingerprint| Names { replay: Some(promise(fingerprint)), ..names(1) };
    let Boarded::Leads(leader) = flights.board(&names(1), &passenger(Form::Whole), |_| true) else { panic!() };
    let follows = flights.board(&with(1), &passenger(Form::Whole), |_| true);
    assert!(matches!(follows, Boarded::Follows(_)));
    assert!(matches!(flights.board(&with(2), &passenger(Form::Whole), |_| true), Boarded::Conflict));
    assert!(matches!(flights.board(&with(1), &passenger(Form::Whole), |_| true), Boarded::Follows(_)));
    let kept: Vec<Promise> = leader.flight.settle().into_iter().map(|promised| promised.promise).collect();
    assert_eq!(kept, [promise(1)]);
    flights.close(&leader.flight);
    assert_eq!(flights.count(), 0);
}

#[test]
fn a_flight_whose_keys_are_being_kept_takes_no_more_of_them() {
    let flights = Flights::default();
    let promise = Promise { client: "app".into(), key: Key([9; 32]), fingerprint: [1; 32], form: Form::Whole };
    let with = Names { replay: Some(promise), ..names(1) };
    let Boarded::Leads(leader) = flights.board(&names(1), &passenger(Form::Whole), |_| true) else { panic!() };
    assert!(leader.flight.settle().is_empty());
    let Boarded::Late(mut late) = flights.board(&with, &passenger(Form::Whole), |_| true) else { panic!() };
    assert_eq!(flights.count(), 1, "the key stands for no flight that does not answer it");
    leader.flight.land(landed());
    flights.close(&leader.flight);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(late.over());
    assert!(matches!(flights.board(&with, &passenger(Form::Whole), |_| true), Boarded::Leads(_)));
}

#[test]
fn who_waits_for_the_end_of_a_flight_that_grows_too_long_waits_no_more() {
    let flights = Flights::default();
    let stream = passenger(Form::Stream { shows_usage: false });
    let Boarded::Leads(leader) = flights.board(&names(1), &stream, |_| true) else { panic!() };
    let Boarded::Follows(mut late) = flights.board(&names(1), &stream, |_| true) else { panic!() };
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut over = Box::pin(late.over());
    for _ in 0..LONGEST >> 20 {
        leader.flight.push(&[b'x'; 1 << 20]);
        assert!(over.as_mut().poll(&mut cx).is_pending());
    }
    leader.flight.push(b"x");
    // It takes nothing, so the others would wait for it, and it for them.
    assert!(over.as_mut().poll(&mut cx).is_ready());
}
