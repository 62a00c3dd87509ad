//! What every store of request records must do.

use std::time::Duration;

use base::decision::Trouble;
use base::{
    Attempt, AttemptOutcome, Cached, Clock, Cost, Decision, Dice, Endpoint, Kind, Matched, Noted, Outcome, Record,
    Skip, SpanContext, Trace, Truncated, Usage,
};

use crate::Unreadable;
use crate::requests::{Bounds, Content, Near, Page, Request, Requests, Search, Value};

fn well<T>(answer: Result<T, Unreadable>) -> Option<T> {
    answer.inspect_err(|error| assert_eq!(error.to_string(), "", "a store that is well answers")).ok()
}

/// A request of client `a` on route `chat`, answered by `cloud/m` just now.
#[must_use]
pub fn record(request_id: &str) -> Record {
    Record {
        client: Some("a".into()),
        route: Some("chat".into()),
        upstream: Some("cloud/m".into()),
        status: 200,
        outcome: Outcome::Ok,
        took: Duration::from_millis(120),
        ..Record::begun(Clock.wall(), request_id.into())
    }
}

/// Everything that a record can say.
fn full(request_id: &str) -> Record {
    let ms = Duration::from_millis;
    let attempt = |upstream: &str, outcome, status, at| Attempt {
        upstream: upstream.into(),
        outcome,
        status,
        at: ms(at),
        took: ms(40),
        is_anothers: false,
        is_drill: false,
        span: None,
    };
    let own = SpanContext::root(&Dice::loaded(1), true);
    Record {
        endpoint: Some(Endpoint::Chat),
        model: Some("m".into()),
        attempts: [
            attempt("cloud/m", AttemptOutcome::Failed(Kind::Status), Some(503), 5),
            attempt("other/n", AttemptOutcome::Ok, Some(200), 60),
        ]
        .into_iter()
        .collect(),
        decisions: [
            Noted { at: ms(4), decision: Decision::Skipped { upstream: "spare/m".into(), why: Skip::Resting } },
            Noted { at: ms(46), decision: Decision::Waits { after: Trouble::ServerError, wait: ms(14) } },
        ]
        .into_iter()
        .collect(),
        upstream: Some("other/n".into()),
        code: Some("upstream_error".into()),
        usage: Some(Usage { prompt: 11, completion: 7, ..Usage::default() }),
        cost: Some(Cost { nanos: 1_500, currency: "USD".into() }),
        first_content: Some(ms(70)),
        overhead: ms(1),
        queued: ms(3),
        degraded: Some("upstream_error".into()),
        truncated: Some(Truncated { history: 1, retrieval: 2, tokens: 300 }),
        cache: Some(Cached::Miss),
        matched: Some(Box::new(Matched { id: "abc".into(), similarity: 0.75 })),
        trace: Some(Box::new(Trace { own, parent: None, state: None, method: "POST", path: None })),
        ..record(request_id)
    }
}

/// One that a stored answer to the same question was found for.
fn matched(request_id: &str, is_shadow: bool) -> Record {
    let decision = Decision::Matched { similarity: 0.95, is_shadow, overruled: None };
    let cache = Some(if is_shadow { Cached::Miss } else { Cached::Semantic });
    let decisions = [Noted { at: Duration::from_millis(1), decision }].into_iter().collect();
    Record { cache, decisions, ..record(request_id) }
}

async fn page(requests: &dyn Requests, search: Search) -> Page {
    well(requests.search(search).await).unwrap_or_default()
}

/// All that is asked for, however many pages that takes.
async fn all(requests: &dyn Requests, mut search: Search) -> Vec<Request> {
    let mut found = Vec::new();
    loop {
        let page = page(requests, search.clone()).await;
        assert!(page.requests.len() <= search.limit, "a page is no longer than was asked for");
        found.extend(page.requests);
        match page.next {
            Some(next) => search.after = Some(next),
            None => return found,
        }
    }
}

fn ids(found: &[Request]) -> Vec<&str> {
    found.iter().map(|request| &*request.request_id).collect()
}

fn any() -> Search {
    Search { limit: 100, ..Search::default() }
}

/// A store that is empty keeps all its promises.
pub async fn requests(requests: &dyn Requests) {
    requests.bound(Bounds { keep: Duration::from_secs(86_400), size: 64 << 20, contents: true });
    assert_eq!(well(requests.find("nobody").await), Some(None));
    assert_eq!(page(requests, any()).await, Page::default());
    what_is_noted_is_found_whole(requests).await;
    of_one_id_the_last_is_found_and_all_are_searched(requests).await;
    Box::pin(what_is_asked_for_is_what_comes(requests)).await;
    pages_have_each_request_once(requests).await;
    what_is_written_is_found_as_before(requests).await;
    texts_are_kept_apart(requests).await;
    assert!(requests.flush(Duration::from_secs(30)), "a store that is well can be flushed");
    let health = requests.health();
    assert_eq!((health.trouble, health.waiting, health.lost, health.contents_lost), (None, 0, 0, 0));
}

async fn what_is_noted_is_found_whole(requests: &dyn Requests) {
    let noted = full("whole");
    requests.note(std::slice::from_ref(&noted));
    let found = *well(requests.find("whole").await).flatten().unwrap_or_default();
    assert_eq!((&*found.request_id, found.status, &*found.outcome), ("whole", 200, "ok"));
    assert_eq!(found.time.as_micros(), noted.time.as_micros());
    let name = |name: &Option<std::sync::Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
    assert_eq!([&found.client, &found.route, &found.upstream, &found.model].map(name), ["a", "chat", "other/n", "m"]);
    assert_eq!([&found.cache, &found.currency, &found.endpoint].map(name), ["miss", "USD", "chat/completions"]);
    assert_eq!((found.tokens, found.cost), (Some((11, 7)), Some(1_500)));
    assert_eq!((found.code.as_deref(), found.degraded.as_deref()), (Some("upstream_error"), Some("upstream_error")));
    assert_eq!((found.took, found.overhead, found.queued), (noted.took, noted.overhead, noted.queued));
    assert_eq!((found.first_content, found.truncated), (noted.first_content, noted.truncated));
    assert_eq!(found.matched, Some(("abc".into(), 0.75)));
    assert_eq!(found.trace, noted.trace.map(|trace| trace.own.trace));
    let tries: Vec<_> = found.attempts.iter().map(|one| (&*one.upstream, &*one.outcome, one.status, one.at)).collect();
    let ms = Duration::from_millis;
    assert_eq!(tries, [("cloud/m", "status", Some(503), ms(5)), ("other/n", "ok", Some(200), ms(60))]);
    let steps: Vec<_> = found.decisions.iter().map(|step| (step.at, &*step.what)).collect();
    assert_eq!(steps, [(ms(4), "upstream_skipped"), (ms(46), "retry_waits")]);
    let facts = found.decisions.first().map(|step| step.facts.clone()).unwrap_or_default();
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(facts, [("upstream".into(), text("spare/m")), ("why".into(), text("resting"))]);
}

async fn of_one_id_the_last_is_found_and_all_are_searched(requests: &dyn Requests) {
    for status in [200, 429, 502] {
        requests.note(&[Record { status, ..record("again") }]);
    }
    assert_eq!(well(requests.find("again").await).flatten().map(|found| found.status), Some(502));
    let found = all(requests, Search { request_id: Some("again".into()), ..any() }).await;
    assert_eq!(found.iter().map(|request| request.status).collect::<Vec<_>>(), [502, 429, 200]);
}

async fn what_is_asked_for_is_what_comes(requests: &dyn Requests) {
    let name = |name: &str| Some(Box::<str>::from(name));
    let asked = [
        (Search { client: name("b"), ..any() }, Record { client: Some("b".into()), ..record("by-client") }),
        (Search { route: name("rag"), ..any() }, Record { route: Some("rag".into()), ..record("by-route") }),
        (Search { upstream: name("x/y"), ..any() }, Record { upstream: Some("x/y".into()), ..record("by-upstream") }),
        (
            Search { outcome: name("policy_limited"), ..any() },
            Record { outcome: Outcome::PolicyLimited, ..record("by-outcome") },
        ),
        (Search { cache: name("stale"), ..any() }, Record { cache: Some(Cached::Stale), ..record("by-cache") }),
        (Search { is_shadow: true, ..any() }, matched("by-shadow", true)),
        (Search { status: Some((400, 499)), client: name("c"), ..any() }, {
            Record { status: 404, client: Some("c".into()), ..record("by-status") }
        }),
        (Search { until: Some(Duration::from_secs(20)), ..any() }, {
            Record { time: Duration::from_secs(19), ..record("by-time") }
        }),
    ];
    for (_, record) in &asked {
        requests.note(std::slice::from_ref(record));
    }
    requests.note(&[record("other"), matched("served", false)]);
    for (search, record) in asked {
        assert_eq!(ids(&all(requests, search).await), [&*record.request_id]);
    }
    assert_eq!(ids(&all(requests, Search { client: name("nobody"), ..any() }).await), [""; 0]);
    // Of the tries of a request each counts.
    assert_eq!(ids(&all(requests, Search { upstream: name("other/n"), ..any() }).await), ["whole"]);
    let since = Search { since: Some(Clock.wall() + Duration::from_secs(60)), ..any() };
    assert_eq!(ids(&all(requests, since).await), [""; 0]);
}

async fn pages_have_each_request_once(requests: &dyn Requests) {
    let of_pages = |at: u64| Record { client: Some("pages".into()), ..record(&format!("page-{at}")) };
    let noted: Vec<Record> = (0..6_000).map(of_pages).collect();
    noted.chunks(500).for_each(|some| requests.note(some));
    let search = Search { client: Some("pages".into()), limit: 700, ..any() };
    let found = all(requests, search).await;
    let mut expected: Vec<String> = (0..6_000).map(|at| format!("page-{at}")).collect();
    expected.reverse();
    assert_eq!(ids(&found), expected);
}

async fn what_is_written_is_found_as_before(requests: &dyn Requests) {
    assert!(requests.flush(Duration::from_secs(30)));
    what_is_noted_is_found_whole(requests).await;
    assert!(requests.flush(Duration::from_secs(30)));
    let pages = Search { client: Some("pages".into()), limit: 500, ..any() };
    assert_eq!(all(requests, pages).await.len(), 6_000);
    assert_eq!(well(requests.find("page-0").await).flatten().map(|found| found.status), Some(200));
    assert_eq!(well(requests.find("nobody").await), Some(None));
}

async fn texts_are_kept_apart(requests: &dyn Requests) {
    let text = |id: &str, answer: &str| Content {
        request_id: id.into(),
        time: Duration::from_micros(Clock.wall().as_micros() as u64),
        prompt: "问？".into(),
        answer: answer.into(),
        is_cut: true,
        near: None,
    };
    assert_eq!(well(requests.content("whole").await), Some(None));
    requests.keep(vec![text("whole", "first"), text("whole", "second"), text("large", &"long ".repeat(100_000))]);
    assert_eq!(well(requests.content("whole").await).flatten().map(|text| text.answer), Some("second".into()));
    assert!(requests.flush(Duration::from_secs(30)));
    let found = well(requests.content("whole").await).flatten().unwrap_or_default();
    assert_eq!((&*found.prompt, &*found.answer, found.is_cut), ("问？", "second", true));
    let near = Near {
        question: "怎么报销？".into(),
        known: "如何报销？".into(),
        answer: "在门户里。".into(),
        similarity: 0.97,
        withheld: Some("margin".into()),
    };
    let matched = Content { near: Some(Box::new(near)), ..text("matched", "here") };
    requests.keep(vec![matched.clone()]);
    assert_eq!(well(requests.content("matched").await), Some(Some(matched.clone())));
    assert!(requests.flush(Duration::from_secs(30)));
    assert_eq!(well(requests.content("matched").await), Some(Some(matched)));
    assert_eq!(well(requests.content("large").await).flatten().map(|text| text.answer.len()), Some(500_000));
    requests.bound(Bounds { keep: Duration::from_secs(86_400), size: 64 << 20, contents: false });
    assert!(requests.flush(Duration::from_secs(30)));
    assert_eq!(well(requests.content("whole").await), Some(None), "what is not kept any more is dropped");
    requests.keep(vec![text("whole", "third")]);
    assert_eq!(well(requests.content("whole").await), Some(None));
}
