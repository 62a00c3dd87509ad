//! The wire inside the process behaves as a network does, on a clock that jumps.

use std::io::ErrorKind;
use std::time::Duration;

use base::Clock;
use testkit::{At, Caller, Door, End, Ended, How, Reply, Script, Storm, Wire, chat, embeddings, rerank, storms, story};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn waits_cost_virtual_time_alone_and_exactly() {
    story(async {
        let net = Wire::new();
        net.host("a:80", Script::always(Reply::sse(["{}", "{}", "[DONE]"]).after(5 * SECOND).every(3600 * SECOND)));
        let begun = Clock.now();
        let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
        let answer = caller.ask(&chat("m").user("Hi").stream()).await;
        assert!(answer.events().is_done());
        assert_eq!(Clock.now() - begun, 5 * SECOND + 2 * 3600 * SECOND);
    });
}

#[test]
fn a_script_answers_call_by_call() {
    story(async {
        let net = Wire::new();
        let a = net.host("a:80", Script::new().on_call(2, Reply::status(429)).then(Reply::say(["ok"])));
        let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(caller.ask(&chat("m").user("Hi")).await.status);
        }
        assert_eq!(statuses, [200, 429, 200]);
        assert_eq!(a.calls().iter().map(|call| call.connection).collect::<Vec<_>>(), [1, 1, 1]);

        net.host("b:80", Script::replies([Reply::status(500), Reply::status(503)]));
        let mut caller = Caller::on(net.connect("b:80").await.expect("open"));
        for status in [500, 503, 503] {
            assert_eq!(caller.ask(&embeddings("e", "x")).await.status, status);
        }

        net.host("c:80", Script::by(|request| Reply::text(request.model().to_owned())));
        let mut caller = Caller::on(net.connect("c:80").await.expect("open"));
        assert_eq!(caller.ask(&rerank("which", "q", ["d"])).await.text(), "which");
    });
}

#[test]
fn doors_open_refuse_hang_and_wait() {
    story(async {
        let net = Wire::new();
        let a = net.host("a:80", Script::new());
        assert_eq!(net.connect("nowhere:80").await.expect_err("unknown").kind(), ErrorKind::NotFound);
        a.set_door(Door::Refuse);
        assert_eq!(net.connect("a:80").await.expect_err("refused").kind(), ErrorKind::ConnectionRefused);
        a.set_door(Door::Hang);
        assert!(tokio::time::timeout(9 * SECOND, net.connect("a:80")).await.is_err());
        a.set_door(Door::After(SECOND));
        let begun = Clock.now();
        assert!(net.connect("a:80").await.is_ok());
        assert_eq!(Clock.now() - begun, SECOND);
        assert_eq!(net.dialed(), ["nowhere:80", "a:80", "a:80", "a:80"]);
    });
}

#[test]
fn a_caller_who_leaves_is_seen_and_counted_no_longer() {
    story(async {
        let net = Wire::new();
        let a = net.host("a:80", Script::new().on_call(1, Reply::hang()).then(Reply::sse(["{}"; 9]).every(SECOND)));
        for n in 1..=2 {
            let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
            caller.begin(&chat("m").user("Hi").stream()).await;
            a.has_calls(n).await;
            tokio::time::sleep(2 * SECOND + SECOND / 2).await;
            drop(caller);
            assert_eq!(a.ending_of(n).await, End::Gone);
        }
        let stayed: Vec<_> = a.calls().iter().map(|call| call.ended_at.unwrap_or_default() - call.at).collect();
        assert_eq!(stayed, [2 * SECOND + SECOND / 2; 2]);
        assert_eq!((a.most_in_flight(), a.log().in_flight().0), (1, 0));
    });
}

#[test]
fn a_host_that_dies_resets_what_is_open_and_may_come_back() {
    story(async {
        let net = Wire::new();
        let a = net.host("a:80", Script::always(Reply::sse(["{}"; 9]).every(SECOND)));
        let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
        caller.begin(&chat("m").user("Hi").stream()).await;
        assert_eq!(caller.head().await.expect("a head").status, 200);
        assert!(caller.more().await.expect("an event").is_some());
        a.die();
        assert_eq!(caller.rest().await.1, Ended::Reset);
        assert!(net.connect("a:80").await.is_err());
        assert_eq!(a.ending_of(1).await, End::Gone);
        a.play(Script::always(Reply::say(["back"])));
        let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
        assert_eq!(caller.ask(&chat("m").user("Hi")).await.said(), "back");
    });
}

#[test]
fn a_cut_answer_is_not_whole_and_ends_as_scripted() {
    story(async {
        for (how, ended) in [(How::Fin, Ended::Closed), (How::Rst, Ended::Reset)] {
            let net = Wire::new();
            net.host("a:80", Script::always(Reply::say(["a", "b", "c"]).cut(At::Events(3), how)));
            let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
            let answer = caller.ask(&chat("m").user("Hi").stream()).await;
            assert!(!answer.is_whole);
            assert_eq!(answer.said(), "ab");
            assert_eq!(caller.rest().await.1, ended);
        }
    });
}

#[test]
fn the_probe_tells_a_quiet_connection_from_one_that_the_other_side_closed() {
    story(async {
        let net = Wire::new();
        let scenario = testkit::Scenario::of([]).idle(20 * SECOND, How::Fin);
        net.host("a:80", Script::from(scenario));
        let stream = net.connect("a:80").await.expect("open");
        let probe = stream.probe();
        let mut caller = Caller::on(stream);
        assert_eq!(caller.ask(&chat("m").user("Hi")).await.status, 200);
        tokio::time::sleep(19 * SECOND).await;
        assert!(probe());
        tokio::time::sleep(2 * SECOND).await;
        assert!(!probe());
    });
}

#[test]
fn the_same_seed_is_the_same_storm() {
    let replies = |seed| {
        let storm = Storm::seed(seed);
        format!("{:?}", (0..50).map(|_| storm.reply(0.5)).collect::<Vec<_>>())
    };
    assert_eq!(replies(7), replies(7));
    assert_ne!(replies(7), replies(8));
    storms(0..20, |storm| async move {
        let net = Wire::new();
        let a = net.host("a:80", Script::replies((0..20).map(|_| storm.reply(0.5))));
        for _ in 0..20 {
            let mut caller = Caller::on(net.connect("a:80").await.expect("open"));
            caller.begin(&chat("m").user("Hi").stream()).await;
            drop(tokio::time::timeout(60 * SECOND, caller.answer()).await);
        }
        a.log().until(|calls| calls.len() == 20 && calls.iter().all(|call| call.end != End::Running)).await;
        assert_eq!(a.log().in_flight().0, 0);
    });
}
