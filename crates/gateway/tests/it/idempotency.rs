//! Idempotency keys: a repeat gets the first answer, also while that is on its way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gateway::quota::ledger::Stores;
use rules::cache_key::KeyBuilder;
use serde_json::json;
use state::Unreadable;
use state::answers::{Answers, Bounds, Holding, InProcessAnswers, Key, Kind, Page, Stats, Stored, Which};
use testkit::{Answer, Ask, Reply, chat, embeddings, rerank, story};

use crate::chunks::{choices, delta, hello};
use crate::stage::{KEY, Stage, USUAL, answers, begun_by, pleasant, usual_but, without_waits};

fn ask() -> Ask {
    chat("chat").user("Hi").header("idempotency-key", "k-1")
}

fn cache(answer: &Answer) -> Option<&str> {
    answer.header("x-mai-cache")
}

#[test]
fn a_repeat_gets_the_first_answer_on_every_endpoint() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        let asks = [
            ask(),
            embeddings("embedding", json!(["one", "two"])).header("idempotency-key", "k-2"),
            rerank("rerank", "q", ["one", "two"]).header("idempotency-key", "k-3"),
        ];
        for (at, ask) in asks.into_iter().enumerate() {
            let first = stage.ask(ask.clone()).await;
            stage.comes_to_rest().await;
            let again = stage.ask(ask).await;
            assert_eq!((first.status, cache(&first), cache(&again)), (200, None, Some("replay")), "{}", again.text());
            assert_eq!(first.body, again.body);
            for name in ["x-mai-upstream", "content-type"] {
                assert_eq!(first.header(name), again.header(name));
            }
            assert_eq!(a.calls().len(), at + 1);
        }
        let line = stage.last_line().await;
        assert_eq!(
            (&line["cache"], &line["tokens_in"], &line["attempts"]),
            (&json!("replay"), &json!(null), &json!([]))
        );
    });
}

#[test]
fn a_stream_is_replayed_to_the_byte() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::sse(hello()));
        let first = stage.ask(ask().stream()).await;
        stage.comes_to_rest().await;
        let again = stage.ask(ask().stream()).await;
        assert_eq!((cache(&again), a.calls().len()), (Some("replay"), 1));
        assert_eq!((first.text(), first.header("content-type")), (again.text(), again.header("content-type")));
        assert!(again.events().is_done());
    });
}

#[test]
fn a_repeat_waits_for_the_first_while_that_runs() {
    for streaming in [false, true] {
        story(async {
            let stage = Stage::usual();
            let a = stage.host("a", Reply::say(["Hel", "lo"]).after(Duration::from_secs(2)));
            let ask = || ask().with("stream", streaming);
            let mut first = stage.caller();
            first.begin(&ask().key(KEY)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let again = stage.ask(ask()).await;
            let first = first.answer().await.unwrap();
            assert_eq!((first.said(), again.said()), ("Hello".to_owned(), "Hello".to_owned()));
            assert_eq!((cache(&first), cache(&again), a.calls().len()), (None, Some("shared"), 1));
            stage.comes_to_rest().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(stage.live.flights.count(), 0);
        });
    }
}

#[test]
fn another_body_under_the_same_key_is_a_conflict_and_another_client_is_not() {
    story(async {
        let stage = Stage::set(&usual_but("keys: [sk-narrow], routes: [rerank]", "keys: [sk-narrow], routes: ['*']"));
        let a = stage.host("a", Reply::say(["x"]).after(Duration::from_secs(1)));
        let mut first = stage.caller();
        first.begin(&ask().key(KEY)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..2 {
            let other = stage.ask(ask().user("more")).await;
            assert_eq!((other.status, other.code().as_deref()), (422, Some("idempotency_conflict")));
            assert_eq!(other.header("x-should-retry"), Some("false"));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(first.answer().await.unwrap().status, 200);
        let another = stage.caller().ask(&ask().user("more").key("sk-narrow")).await;
        assert_eq!((another.status, cache(&another)), (200, None));
        assert_eq!(a.calls().len(), 2);
    });
}

#[test]
fn what_the_upstream_refuses_is_kept_and_what_fails_is_not() {
    let too_long = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let cases = [
        (Reply { status: Some(400), ..Reply::json(too_long) }, 400, true),
        (Reply::status(400), 400, true),
        (Reply::status(404), 404, true),
        (Reply::status(429), 429, false),
        (Reply::status(500), 502, false),
        (Reply::text("no"), 502, false),
    ];
    for (reply, status, is_kept) in cases {
        story(async {
            let stage = Stage::set(&without_waits(USUAL).replace(", { provider: b, model: model-b, tier: 1 }", ""));
            let a = stage.host("a", reply.clone());
            let first = stage.ask(ask()).await;
            assert_eq!(first.status, status);
            a.play(pleasant());
            tokio::time::sleep(Duration::from_secs(60)).await;
            let again = stage.ask(ask()).await;
            if is_kept {
                assert_eq!((again.status, cache(&again)), (status, Some("replay")));
                assert_eq!((first.text(), Some("false")), (again.text(), again.header("x-should-retry")));
                let line = stage.last_line().await;
                let log = stage.log();
                assert_eq!((&line["outcome"], &line["status"]), (&log[0]["outcome"], &json!(status)));
                assert_eq!(line["code"], log[0]["code"]);
            } else {
                assert_eq!((again.status, cache(&again)), (200, None), "{}", again.text());
            }
        });
    }
}

#[test]
fn a_repeat_is_known_by_what_was_sent_whatever_became_of_it() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        stage.ask(ask()).await;
        stage.reload(&usual_but("  - name: chat\n", "  - name: chat\n    params: { force: { temperature: 0.2 } }\n"));
        let again = stage.ask(ask()).await;
        assert_eq!((again.status, cache(&again), a.calls().len()), (200, Some("replay"), 1), "{}", again.text());
    });
}

#[test]
fn an_answer_that_has_not_come_to_its_end_is_not_kept() {
    let length = choices(json!([{"index": 0, "delta": {}, "finish_reason": "length"}]));
    let ends = |last: String| Reply::sse([delta("Hello"), last, "[DONE]".to_owned()]);
    let whole = |reason: serde_json::Value| {
        let message = json!({"role": "assistant", "content": "Hello"});
        Reply::json(json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]}))
    };
    let cases = [
        (ask().stream(), Reply::sse([delta("Hello"), "[DONE]".to_owned()]), None),
        (ask(), whole(json!(null)), None),
        (ask().stream(), ends(length), Some("replay")),
        (ask(), whole(json!("length")), Some("replay")),
    ];
    for (ask, reply, seen) in cases {
        story(async {
            let stage = Stage::usual();
            stage.host("a", reply.clone());
            for cached in [None, seen] {
                let answer = stage.ask(ask.clone()).await;
                assert_eq!((answer.said().as_str(), cache(&answer)), ("Hello", cached), "{reply:?}");
                stage.comes_to_rest().await;
            }
        });
    }
}

#[test]
fn a_day_later_the_key_is_new() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        stage.ask(ask()).await;
        for (hours, calls) in [(23, 1), (2, 2)] {
            tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
            stage.ask(ask()).await;
            assert_eq!(a.calls().len(), calls);
        }
    });
}

#[test]
fn a_key_stands_for_its_answer_whatever_the_cache_does() {
    story(async {
        let stage =
            Stage::set(&usual_but("  - name: chat\n", "  - name: chat\n    cache: { mode: exact, ttl: 60s }\n"));
        let a = stage.host("a", pleasant());
        let plain = || chat("chat").user("Hi");
        assert_eq!(cache(&stage.ask(plain()).await), Some("miss"));
        let first = stage.ask(ask()).await;
        assert_eq!(cache(&first), Some("hit"));
        tokio::time::sleep(Duration::from_secs(61)).await;
        let again = stage.ask(ask()).await;
        assert_eq!((cache(&again), &again.body), (Some("replay"), &first.body));
        assert_eq!(cache(&stage.ask(plain()).await), Some("miss"), "the cache's own time is over");
        let other = chat("chat").user("Hi").header("idempotency-key", "k-2").header("cache-control", "no-store");
        assert_eq!(cache(&stage.ask(other.clone()).await), Some("bypass"));
        assert_eq!(cache(&stage.ask(other).await), Some("replay"));
        assert_eq!(a.calls().len(), 3);
    });
}

#[test]
fn a_caller_who_leaves_frees_its_key() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", Reply::say(["late"]).after(Duration::from_secs(5)));
        let mut first = stage.caller();
        first.begin(&ask().key(KEY)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(first);
        stage.comes_to_rest().await;
        let again = stage.ask(ask()).await;
        assert_eq!((again.status, cache(&again), a.calls().len()), (200, None, 2));
    });
}

#[test]
fn a_key_may_be_long_but_not_endless() {
    story(async {
        let stage = Stage::usual();
        stage.host("a", pleasant());
        for (length, status) in [(255, 200), (256, 400)] {
            let answer = stage.ask(chat("chat").user("Hi").header("idempotency-key", "x".repeat(length))).await;
            assert_eq!(answer.status, status);
        }
    });
}

/// A route with a cache, whose upstream says so much.
fn cached(said: usize) -> (Stage, testkit::Host) {
    let stage = Stage::set(&usual_but("  - name: chat\n", "  - name: chat\n    cache: { mode: exact, ttl: 60s }\n"));
    let host = stage.host("a", Reply::say(["x".repeat(said)]));
    (stage, host)
}

fn with_key(key: usize) -> Ask {
    chat("chat").user("Hi").header("idempotency-key", format!("k-{key}"))
}

#[test]
fn many_keys_on_one_answer_keep_it_once() {
    const SAID: u64 = 100_000;
    story(async {
        let (stage, a) = cached(100_000);
        let bytes = || stage.live.answers.stats().memory.bytes;
        let first = stage.ask(chat("chat").user("Hi")).await;
        let before = bytes();
        for key in 0..200 {
            assert_eq!(cache(&stage.ask(with_key(key)).await), Some("hit"));
        }
        let each = (bytes() - before - SAID) / 200;
        assert!(each < 1_000, "{each} bytes for each key beside the answer");
        tokio::time::sleep(Duration::from_secs(61)).await;
        for key in [0, 199] {
            let again = stage.ask(with_key(key)).await;
            assert_eq!((cache(&again), &again.body), (Some("replay"), &first.body));
            let other = stage.ask(with_key(key).user("more")).await;
            assert_eq!(other.code().as_deref(), Some("idempotency_conflict"));
        }
        let streamed = stage.ask(with_key(300).stream()).await;
        let again = stage.ask(with_key(300).stream()).await;
        assert_eq!((cache(&again), again.said(), a.calls().len()), (Some("replay"), streamed.said(), 2));
    });
}

#[test]
fn keys_that_wait_for_one_answer_keep_it_once_too() {
    story(async {
        let (stage, a) = cached(100_000);
        a.play(Reply::say(["x".repeat(100_000)]).after(Duration::from_secs(1)));
        let mut callers = Vec::new();
        for key in 0..50 {
            let mut caller = stage.caller();
            caller.begin(&with_key(key).key(KEY)).await;
            callers.push(caller);
        }
        let mut first = None;
        for caller in &mut callers {
            let answer = caller.answer().await.unwrap();
            assert_eq!(first.get_or_insert_with(|| answer.body.clone()), &answer.body);
        }
        stage.comes_to_rest().await;
        let bytes = stage.live.answers.stats().memory.bytes;
        assert!(bytes < 4 * 100_000, "{bytes} bytes of one answer for itself and its keys");
        let again = stage.ask(with_key(49)).await;
        assert_eq!((cache(&again), Some(again.body.clone()), a.calls().len()), (Some("replay"), first, 1));
    });
}

/// What an idempotency key of the usual client's was kept for goes, as it does where memory is short.
async fn forgets(stage: &Stage, key: usize) {
    let running = stage.live.running();
    let builder = KeyBuilder::new("replay").part(running.snapshot.general.environment.as_bytes()).part(b"app");
    let key = Key(builder.part(format!("k-{key}").as_bytes()).finish());
    assert!(matches!(stage.live.answers.remove(&key).await, Ok(true)));
}

/// Asks the same under several keys at once.
async fn all_with(stage: &Stage, keys: [usize; 2], text: &str) -> Vec<Answer> {
    let mut callers = Vec::new();
    for key in keys {
        callers.push(begun_by(stage, with_key(key).user(text).key(KEY)).await);
    }
    answers(callers).await
}

#[test]
fn a_key_that_comes_again_with_another_question_never_gets_an_older_answer() {
    for (text, then) in [("one", "two"), ("one", "one")] {
        story(async {
            let (stage, a) = cached(0);
            let says = |word: &str| Reply::say([word.repeat(1_000)]).after(Duration::from_secs(1));
            a.play(says("old"));
            let old = all_with(&stage, [1, 2], text).await.swap_remove(0);
            stage.comes_to_rest().await;
            tokio::time::sleep(Duration::from_secs(61)).await;
            forgets(&stage, 1).await;
            a.play(says("new"));
            let new = all_with(&stage, [1, 9], then).await;
            assert_eq!((new[1].body == new[0].body, new[0].body == old.body), (true, false));
            stage.comes_to_rest().await;
            for (key, text, first) in [(1, then, &new[0]), (9, then, &new[0]), (2, text, &old)] {
                let again = stage.ask(with_key(key).user(text)).await;
                assert_eq!((cache(&again), again.body == first.body), (Some("replay"), true), "{key}");
            }
            assert_eq!(a.calls().len(), 2);
        });
    }
}

#[test]
fn a_key_that_comes_late_to_an_answer_is_good_for_a_whole_day() {
    story(async {
        let ttl = usual_but("  - name: chat\n", "  - name: chat\n    cache: { mode: exact, ttl: 7d }\n");
        let stage = Stage::set(&ttl);
        let a = stage.host("a", Reply::say(["x".repeat(1_000)]));
        stage.ask(chat("chat").user("Hi")).await;
        for key in 0..5 {
            assert_eq!(cache(&stage.ask(with_key(key)).await), Some("hit"));
            tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
            assert_eq!(cache(&stage.ask(with_key(key)).await), Some("replay"), "{key}");
        }
        assert_eq!(a.calls().len(), 1);
    });
}

#[test]
fn a_key_whose_copy_is_gone_makes_its_call_again() {
    story(async {
        let (stage, a) = cached(1_000);
        stage.ask(chat("chat").user("Hi")).await;
        stage.ask(with_key(1)).await;
        let which = state::answers::Which { client: Some("app".into()), ..Default::default() };
        assert!(
            stage.live.answers.purge(&which).await.is_ok_and(|gone| gone >= 2),
            "the client's copy goes with its key"
        );
        let again = stage.ask(with_key(1)).await;
        assert_eq!((again.status, cache(&again), a.calls().len()), (200, Some("miss"), 2));
    });
}

/// Answers in memory, of which the first look-up for an idempotency key finds what there was when it began, and says so
/// when it is told to.
#[derive(Debug)]
struct HeldUp {
    answers: InProcessAnswers,
    until: Mutex<Option<tokio::sync::oneshot::Receiver<()>>>,
}

impl Answers for HeldUp {
    fn get(&self, key: &Key) -> state::Answer<Option<Arc<Stored>>> {
        self.answers.get(key)
    }

    fn get_patiently(&self, key: &Key) -> state::Answer<Option<Arc<Stored>>> {
        let found = self.answers.get_patiently(key);
        match self.until.lock().unwrap().take() {
            None => found,
            Some(until) => state::Answer::Later(Box::pin(async move {
                let _ = until.await;
                found.await
            })),
        }
    }

    fn peek(&self, key: &Key) -> Option<Arc<Stored>> {
        self.answers.peek(key)
    }

    fn get_many(&self, keys: &[Key]) -> state::Answer<Vec<Option<Arc<Stored>>>> {
        self.answers.get_many(keys)
    }

    fn put(&self, key: Key, stored: Arc<Stored>) {
        self.answers.put(key, stored);
    }

    fn remove(&self, key: &Key) -> state::Answer<Result<bool, Unreadable>> {
        self.answers.remove(key)
    }

    fn purge(&self, which: &Which) -> state::Answer<Result<u64, Unreadable>> {
        self.answers.purge(which)
    }

    fn count(&self, which: &Which) -> state::Answer<Result<u64, Unreadable>> {
        self.answers.count(which)
    }

    fn scan(&self, kind: Kind, from: Option<u64>) -> state::Answer<Option<Page>> {
        self.answers.scan(kind, from)
    }

    fn stats(&self) -> Stats {
        self.answers.stats()
    }

    fn holdings(&self) -> Vec<Holding> {
        self.answers.holdings()
    }

    fn bound(&self, bounds: Bounds) {
        self.answers.bound(bounds);
    }

    fn flush(&self, patience: Duration) -> bool {
        self.answers.flush(patience)
    }
}

#[test]
fn a_repeat_whose_look_up_is_slow_finds_what_has_been_kept_meanwhile() {
    let cached = usual_but("- name: chat\n", "- name: chat\n    cache: { mode: exact }\n");
    for config in [USUAL, &cached] {
        for is_same in [true, false] {
            story(async move {
                let (release, until) = tokio::sync::oneshot::channel();
                let answers = InProcessAnswers::within(64 << 20);
                let answers = Arc::new(HeldUp { answers, until: Mutex::new(Some(until)) });
                let stage = Stage::keeping(config, Stores { answers, ..Stores::default() });
                let a = stage.host("a", pleasant());
                // One that has side effects finds nothing but by its key.
                let ask = || ask().header("x-mai-side-effects", "true");
                let mut slow = begun_by(&stage, ask().key(KEY)).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
                let first = stage.ask(if is_same { ask() } else { ask().user("more") }).await;
                assert_eq!((first.status, a.calls().len()), (200, 1));
                release.send(()).unwrap();
                let slow = slow.answer().await.unwrap();
                if is_same {
                    assert_eq!((cache(&slow), slow.text()), (Some("replay"), first.text()));
                } else {
                    assert_eq!(slow.code().as_deref(), Some("idempotency_conflict"), "{}", slow.text());
                }
                assert_eq!(a.calls().len(), 1, "it is not asked twice");
                stage.comes_to_rest().await;
                assert_eq!(stage.live.flights.count(), 0);
            });
        }
    }
}
