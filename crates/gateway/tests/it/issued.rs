//! Keys that are issued and taken back while the gateway runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::ObjectKind;
use gateway::live::issued_keys::NewKey;
use gateway::quota::ledger::Stores;
use state::objects::{Change, Deed, Deeds, Kept};
use state::{Answer, InProcessObjects, Objects, Unreadable};
use testkit::{Ask, chat, get, story};

use crate::stage::{Stage, USUAL, pleasant, usual_but};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A store that can be out, and slow.
#[derive(Debug, Default)]
struct Store {
    kept: InProcessObjects,
    is_out: AtomicBool,
    is_slow: AtomicBool,
}

impl Store {
    fn tell<T: Send + Unpin + 'static>(&self, told: Answer<Result<T, Unreadable>>) -> Answer<Result<T, Unreadable>> {
        let wait = Duration::from_millis(if self.is_slow.load(Relaxed) { 500 } else { 0 });
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(wait).await;
            told.await
        }))
    }

    fn or_out<T>(&self, asked: impl FnOnce() -> Answer<Result<T, Unreadable>>) -> Answer<Result<T, Unreadable>> {
        if self.is_out.load(Relaxed) { Answer::Ready(Err(Unreadable("the disk fails".to_owned()))) } else { asked() }
    }
}

impl Objects for Store {
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        self.tell(self.or_out(|| self.kept.all()))
    }

    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        self.tell(self.or_out(|| self.kept.change(changes, deeds)))
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        self.tell(self.or_out(|| self.kept.used(keys)))
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        self.kept.deeds(which)
    }
}

/// A stage over a store, with the keys that it has.
async fn known(store: &Arc<Store>) -> Stage {
    let keys = store.all().await.unwrap().keys;
    let stage = Stage::keeping(USUAL, Stores { objects: store.clone(), keys, ..Stores::default() });
    stage.host("a", pleasant());
    stage
}

async fn issue(stage: &Stage, client: &str, expires: Option<Duration>) -> NewKey {
    let new = NewKey::make().unwrap();
    let key = new.kept(client.into(), ("ops", "a note"), (stage.live.steady_wall(), expires));
    assert_eq!(stage.live.objects.change(vec![Change::Issue(key)], vec![Deed::default()]).await, Ok(()));
    new
}

fn hi() -> Ask {
    chat("chat").user("Hi")
}

async fn status(stage: &Stage, key: &NewKey) -> u16 {
    stage.caller().ask(&hi().key(key.key.expose())).await.status
}

#[test]
fn an_issued_key_opens_its_clients_routes_from_the_next_call_on() {
    story(async {
        let stage = known(&Arc::default()).await;
        let new = issue(&stage, "app", None).await;
        let narrow = issue(&stage, "narrow", None).await;
        let key = new.key.expose();
        let shown = [
            hi().key(key),
            hi().header("api-key", key),
            hi().header("x-api-key", key),
            hi().key("sk-nobody").header("api-key", key),
            hi().stream().key(key),
            get("/v1/models").key(key),
        ];
        for ask in shown {
            assert_eq!(stage.caller().ask(&ask).await.status, 200, "{ask:?}");
        }
        assert_eq!(stage.last_line().await["client"], "app");
        let refused = stage.caller().ask(&hi().key(narrow.key.expose())).await;
        assert_eq!((refused.status, refused.code().as_deref()), (403, Some("route_not_allowed")));
        // A key in the URL is none, nor is its id.
        for wrong in [hi().path(&format!("/v1/chat/completions?key={key}")), hi().key(&new.id)] {
            assert_eq!(stage.caller().ask(&wrong).await.status, 401);
        }
        stage.comes_to_rest().await;
        let records = format!("{}{}", stage.log_text(), stage.metrics());
        assert!(!records.contains(key) && !records.contains(key.strip_prefix("mai-").unwrap()), "{records}");
    });
}

#[test]
fn keys_that_were_read_for_the_start_are_in_force_without_asking_again() {
    story(async {
        let new = NewKey::make().unwrap();
        let key = new.kept("app".into(), ("ops", "a note"), (Duration::from_secs(1), None));
        let store = Arc::<Store>::default();
        store.is_out.store(true, Relaxed);
        let stores = Stores { objects: store, keys: vec![key], ..Stores::default() };
        let stage = Stage::keeping(USUAL, stores);
        stage.host("a", pleasant());
        assert_eq!(status(&stage, &new).await, 200);
    });
}

#[test]
fn a_revoked_key_is_refused_from_the_next_call_on() {
    story(async {
        let stage = known(&Arc::default()).await;
        let (new, other) = (issue(&stage, "app", None).await, issue(&stage, "app", None).await);
        let mut caller = stage.caller();
        assert_eq!(caller.ask(&hi().key(new.key.expose())).await.status, 200);
        let revoked = stage.live.objects.change(vec![Change::Revoke(new.id.clone())], vec![Deed::default()]).await;
        assert_eq!(revoked, Ok(()));
        // On the same connection too.
        let answer = caller.ask(&hi().key(new.key.expose())).await;
        assert_eq!((answer.status, answer.code().as_deref()), (401, Some("invalid_api_key")));
        assert!(answer.text().contains("unknown or revoked"), "{}", answer.text());
        assert_eq!(status(&stage, &other).await, 200);
        assert_eq!(stage.ask(hi()).await.status, 200, "the configuration's own key is another one");
    });
}

#[test]
fn an_expired_key_is_refused_and_the_caller_told_so() {
    story(async {
        let stage = known(&Arc::default()).await;
        let new = issue(&stage, "app", Some(stage.live.steady_wall() + HOUR)).await;
        tokio::time::sleep(HOUR - Duration::from_secs(1)).await;
        assert_eq!(status(&stage, &new).await, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ask = hi().key("sk-nobody").header("api-key", new.key.expose());
        let answer = stage.caller().ask(&ask).await;
        assert_eq!((answer.status, answer.code().as_deref()), (401, Some("invalid_api_key")));
        assert!(answer.text().contains("has expired"), "{}", answer.text());
        assert_eq!(stage.last_line().await["client"], serde_json::Value::Null);
    });
}

#[test]
fn a_key_is_good_while_its_client_is_there() {
    story(async {
        let stage = known(&Arc::default()).await;
        let new = issue(&stage, "app", None).await;
        stage.reload(&usual_but("name: app", "name: another"));
        let answer = stage.caller().ask(&hi().key(new.key.expose())).await;
        assert!(answer.status == 401 && answer.text().contains("unknown or revoked"), "{}", answer.text());
        stage.reload(USUAL);
        assert_eq!(status(&stage, &new).await, 200);
        // A client that is removed for good takes its keys along.
        let gone = Change::Remove(ObjectKind::Client, "app".into());
        assert_eq!(stage.live.objects.change(vec![gone], vec![Deed::default()]).await, Ok(()));
        assert_eq!(status(&stage, &new).await, 401);
        assert_eq!(stage.live.issued.of("app"), Vec::new());
    });
}

#[test]
fn what_the_store_does_not_keep_is_not_in_force() {
    story(async {
        let store = Arc::<Store>::default();
        let stage = known(&store).await;
        let new = issue(&stage, "app", None).await;
        store.is_out.store(true, Relaxed);
        let other = NewKey::make().unwrap();
        let issued = Change::Issue(other.kept("app".into(), ("ops", ""), (stage.live.steady_wall(), None)));
        for change in [issued, Change::Revoke(new.id.clone())] {
            let told = stage.live.objects.change(vec![change], vec![Deed::default()]).await;
            assert_eq!(told, Err(Unreadable("the disk fails".to_owned())));
        }
        assert_eq!((status(&stage, &new).await, status(&stage, &other).await), (200, 401));
    });
}

#[test]
fn what_has_begun_is_in_force_also_where_whoever_asked_went_away() {
    story(async {
        let store = Arc::<Store>::default();
        let stage = known(&store).await;
        let new = issue(&stage, "app", None).await;
        store.is_slow.store(true, Relaxed);
        let revoking = stage.live.objects.change(vec![Change::Revoke(new.id.clone())], vec![Deed::default()]);
        assert!(tokio::time::timeout(Duration::from_millis(10), revoking).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(status(&stage, &new).await, 401);
    });
}

#[test]
fn the_last_use_is_known_to_the_hour_and_written_down_behind_the_traffic() {
    story(async {
        let store = Arc::<Store>::default();
        let stage = known(&store).await;
        let (new, idle) = (issue(&stage, "app", None).await, issue(&stage, "app", None).await);
        let last_used = |stage: &Stage| -> Vec<Option<u64>> {
            let shown = stage.live.issued.of("app");
            let of = |id: &str| shown.iter().find(|key| *key.id == *id).unwrap().last_used;
            [of(&new.id), of(&idle.id)].map(|at| at.map(|at| at.as_secs())).to_vec()
        };
        let this_hour = |stage: &Stage| Some(stage.live.steady_wall().as_secs() / 3600 * 3600);
        let live = stage.live.clone();
        tokio::spawn(async move { live.issued.keep_writing_down().await });
        assert_eq!(last_used(&stage), [None, None]);
        let used = this_hour(&stage);
        assert_eq!(status(&stage, &new).await, 200);
        assert_eq!(last_used(&stage), [used, None]);
        // The store is out for a while: nothing is forgotten.
        store.is_out.store(true, Relaxed);
        tokio::time::sleep(Duration::from_secs(6 * 60)).await;
        store.is_out.store(false, Relaxed);
        tokio::time::sleep(Duration::from_secs(6 * 60)).await;
        let again = known(&store).await;
        assert_eq!(last_used(&again), [used, None], "another process knows it too");
        tokio::time::sleep(3 * HOUR).await;
        let used = this_hour(&stage);
        assert_eq!(status(&stage, &new).await, 200);
        assert_eq!(stage.live.issued.write_down().await, Ok(()), "as at the end of the process");
        assert_eq!(last_used(&known(&store).await), [used, None]);
    });
}
