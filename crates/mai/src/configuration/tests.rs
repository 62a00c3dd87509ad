//! Changes that take long, fail, or lose their asker.

use std::sync::atomic::{AtomicBool, Ordering};

use admin::Expected;
use base::{Dice, Endpoint, Object, ObjectKind, Secret};
use gateway::quota::ledger::Stores;
use gateway::records::access_log::AccessLog;
use state::objects::{Deed, Deeds};
use state::{Answer, InProcessObjects};
use testkit::story;
use tokio::sync::watch;

use super::settling::AGAIN;
use super::*;

const FILE: &str = "providers: [{ name: up, base_url: http://up/v1 }]";

/// A store that does what it is asked, and says so once it is not silent.
#[derive(Debug, Default)]
struct Moody {
    objects: InProcessObjects,
    is_silent: watch::Sender<bool>,
    is_broken: AtomicBool,
}

impl Moody {
    fn said<T: Unpin + Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let mut silence = self.is_silent.subscribe();
        Answer::Later(Box::pin(async move {
            drop(silence.wait_for(|is_silent| !is_silent).await);
            answer.await
        }))
    }
}

impl Objects for Moody {
    fn all(&self) -> Answer<Result<Kept, Unreadable>> {
        self.said(self.objects.all())
    }

    fn change(&self, changes: Vec<Change>, deeds: Vec<Deed>) -> Answer<Result<(), Unreadable>> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Answer::Ready(Err(Unreadable("the disk is full".to_owned())));
        }
        self.said(self.objects.change(changes, deeds))
    }

    fn used(&self, keys: Vec<(Arc<str>, Duration)>) -> Answer<Result<(), Unreadable>> {
        self.objects.used(keys)
    }

    fn deeds(&self, which: Deeds) -> Answer<Result<Vec<Deed>, Unreadable>> {
        self.objects.deeds(which)
    }
}

/// A configuration of that text in a file of its own.
struct Stage {
    configuration: Configuration,
    store: Arc<Moody>,
    file: std::path::PathBuf,
}

impl Stage {
    fn set(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("mai-configuration-{}-{name}.yaml", std::process::id()));
        std::fs::write(&file, FILE).unwrap();
        let origin = Origin {
            source: Source::Path(file.clone()),
            overrides: Overrides::default(),
            hasher: KeyHasher::new(&[7; 64]),
            disk: config::Disk::default(),
        };
        let compiled = origin.compile(&origin.read().unwrap(), Holdings::default()).unwrap();
        let (snapshot, first) = compiled.first();
        let store = Arc::<Moody>::default();
        let stores = Stores { objects: store.clone(), ..Stores::default() };
        let shared = Arc::new(Shared::of(&snapshot, None).unwrap());
        let live = Live::keeping(snapshot, Dice::loaded(7), AccessLog::default(), stores).unwrap();
        let mask = Mask::default();
        let level = crate::logging::start("error", mask.clone());
        let last = LastReload::default();
        let parts = Parts { mask, live, shared, last, watched: Watched::now(vec![file.clone()]), level };
        Self { configuration: Configuration::new(origin, parts, first), store, file }
    }

    fn has(&self, route: &str) -> bool {
        self.configuration.0.parts.live.running().snapshot.route(Endpoint::Chat, route).is_some()
    }

    async fn put(&self, route: &str, expected: Expected) -> Result<Changed, NotChanged> {
        self.configuration.change(wish(route, expected)).await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn wish(route: &str, expected: Expected) -> Wish {
    wish_for(route, expected, r#"{"upstreams": [{"provider": "up"}]}"#)
}

/// The same text of another model each time.
fn other(route: &str, expected: Expected, model: u32) -> Wish {
    wish_for(route, expected, &format!(r#"{{"upstreams": [{{"provider": "up", "model": "m{model}"}}]}}"#))
}

fn wish_for(route: &str, expected: Expected, written: &str) -> Wish {
    let written = Secret::new(written);
    let object = Object { kind: ObjectKind::Route, name: route.into(), written, revision: 0, changed: Duration::ZERO };
    let deed = Deed { who: "ops".into(), ..Deed::default() };
    Wish { changes: vec![(expected, Change::Put(object))], deed, dry_run: false }
}

#[test]
fn a_change_goes_on_where_its_asker_leaves() {
    story(async {
        let stage = Stage::set("leaves");
        drop(stage.configuration.change(wish("a", Expected::Absent)));
        // Whoever comes next comes after it.
        let second = stage.put("a", Expected::Absent).await;
        assert!(matches!(second, Err(NotChanged::Unexpected(Expected::Absent))), "{second:?}");
        assert!(stage.has("a"));
        let deeds = stage.store.deeds(Deeds { limit: 10, ..Deeds::default() }).await.unwrap();
        assert_eq!(deeds.len(), 1, "what was not done is not in the audit log");
        assert_eq!((&*deeds[0].action, &*deeds[0].object), ("create", "routes/a"));
        assert!(deeds[0].after.as_deref().is_some_and(|after| after.contains("upstreams")) && !deeds[0].at.is_zero());
    });
}

#[test]
fn what_is_not_kept_is_not_in_force() {
    story(async {
        let stage = Stage::set("kept");
        stage.store.is_broken.store(true, Ordering::Relaxed);
        let refused = stage.put("a", Expected::Absent).await;
        assert!(matches!(refused, Err(NotChanged::Unkept(Unreadable(why))) if why == "the disk is full"));
        assert!(!stage.has("a"));
        stage.store.is_broken.store(false, Ordering::Relaxed);
        assert!(stage.put("a", Expected::Absent).await.is_ok() && stage.has("a"));
    });
}

#[test]
fn a_silent_store_holds_up_no_reload_and_what_it_kept_after_all_comes_into_force() {
    story(async {
        let stage = Stage::set("silent");
        stage.store.is_silent.send_replace(true);
        let refused = stage.put("a", Expected::Absent).await;
        assert!(matches!(refused, Err(NotChanged::Unknown(_))), "{refused:?}");
        assert!(!stage.has("a"), "nobody knows whether it was kept");
        std::fs::write(&stage.file, format!("{FILE}\nroutes: [{{ name: filed, upstreams: [{{ provider: up }}] }}]"))
            .unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        assert!(stage.has("filed") && !stage.has("a"));
        stage.store.is_silent.send_replace(false);
        tokio::time::sleep(AGAIN * 4).await;
        assert!(stage.has("a") && stage.has("filed"), "it was kept");
        assert!(
            matches!(stage.put("a", Expected::Revision(1)).await, Ok(changed) if changed.written.objects.len() == 3)
        );
    });
}

impl Stage {
    /// A route is put while the store says nothing, and kept.
    async fn lose_sight_of(&self, route: &str) {
        self.store.is_silent.send_replace(true);
        assert!(matches!(self.put(route, Expected::Absent).await, Err(NotChanged::Unknown(_))));
        self.store.is_silent.send_replace(false);
    }

    fn revision(&self, route: &str) -> Option<Expected> {
        match self.configuration.written().object(ObjectKind::Route, route)?.home {
            config::Home::Admin { revision, .. } => Some(Expected::Revision(revision)),
            config::Home::File(_) => None,
        }
    }

    fn problems(&self) -> String {
        self.configuration.0.parts.last.problems().join("\n")
    }
}

#[test]
fn what_was_kept_after_all_is_in_force_before_anything_else_is_looked_at() {
    story(async {
        let stage = Stage::set("first");
        stage.lose_sight_of("a").await;
        let dry = Wish { dry_run: true, ..wish("b", Expected::Absent) };
        assert!(stage.configuration.change(dry).await.is_ok());
        assert!(stage.has("a"), "a dry run finds it");
        stage.lose_sight_of("b").await;
        let refused = stage.put("a", Expected::Revision(9)).await;
        assert!(matches!(refused, Err(NotChanged::Unexpected(_))));
        assert!(stage.has("b"), "so does a change that is refused");
        stage.lose_sight_of("c").await;
        std::fs::write(&stage.file, "providers: [").unwrap();
        assert!(stage.configuration.reload().await.is_err());
        assert!(stage.has("c"), "so does a reload of broken files");
        for route in ["a", "b", "c"] {
            let seen = stage.revision(route).unwrap();
            assert!(stage.put(route, seen).await.is_ok(), "{route} can be changed by whoever reads it");
        }
    });
}

#[test]
fn what_was_kept_and_does_not_fit_other_files_is_told_until_it_fits() {
    story(async {
        let stage = Stage::set("unfit");
        stage.store.is_silent.send_replace(true);
        assert!(stage.put("a", Expected::Absent).await.is_err());
        // Meanwhile the provider that it needs leaves the files.
        std::fs::write(&stage.file, FILE.replace("name: up", "name: other")).unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        stage.store.is_silent.send_replace(false);
        tokio::time::sleep(AGAIN * 4).await;
        assert!(!stage.has("a") && stage.problems().contains("routes[a]"), "{}", stage.problems());
        assert!(matches!(stage.put("b", Expected::Absent).await, Err(NotChanged::Unkept(_))), "nothing is built on it");
        std::fs::write(&stage.file, FILE).unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        tokio::time::sleep(AGAIN * 2).await;
        assert!(stage.has("a") && stage.problems().is_empty(), "{}", stage.problems());
    });
}

fn change_of_a_client(change: Change, expected: Expected) -> Wish {
    let deed = Deed { who: "ops".into(), ..Deed::default() };
    Wish { changes: vec![(expected, change)], deed, dry_run: false }
}

#[test]
fn keys_of_a_client_that_goes_or_comes_back_are_told() {
    story(async {
        let stage = Stage::set("keys");
        let told = |changed: Changed| changed.warnings.iter().map(ToString::to_string).collect::<String>();
        std::fs::write(&stage.file, format!("{FILE}\nclients: [{{ name: app }}]")).unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        let objects = stage.configuration.0.parts.live.objects.clone();
        assert_eq!(objects.change(vec![Change::Issue(key())], vec![Deed::default()]).await, Ok(()));
        std::fs::write(&stage.file, FILE).unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        let client = Object {
            kind: ObjectKind::Client,
            name: "app".into(),
            written: Secret::new("{}"),
            revision: 0,
            changed: Duration::ZERO,
        };
        let make = change_of_a_client(Change::Put(client), Expected::Absent);
        let warned = told(stage.configuration.change(make).await.unwrap());
        assert!(warned.contains("is opened by 1 issued key of an earlier client"), "{warned}");
        let remove = change_of_a_client(Change::Remove(ObjectKind::Client, "app".into()), Expected::Present);
        let dry = Wish { dry_run: true, ..remove.clone() };
        let warned = told(stage.configuration.change(dry).await.unwrap());
        assert!(warned.contains("takes 1 issued key with it"), "{warned}");
        assert!(stage.configuration.change(remove).await.is_ok());
        let deeds = stage.store.deeds(Deeds { limit: 1, ..Deeds::default() }).await.unwrap();
        assert!(deeds[0].before.as_deref().is_some_and(|before| before.contains("key_1")), "{deeds:?}");
    });
}

fn key() -> IssuedKey {
    IssuedKey {
        id: "key_1".into(),
        client: "app".into(),
        digest: state::objects::KeyDigest([0xa5; 32]),
        note: "".into(),
        by: "ops".into(),
        created: Duration::ZERO,
        expires: None,
        last_used: None,
    }
}

#[test]
fn changes_and_reloads_that_come_together_are_made_one_after_another() {
    story(async {
        let stage = Stage::set("together");
        let mut changes = tokio::task::JoinSet::new();
        for count in 0..20 {
            let configuration = stage.configuration.clone();
            changes.spawn(async move {
                if count % 4 == 0 {
                    assert!(configuration.reload().await.is_ok());
                    return false;
                }
                configuration.change(wish("one", Expected::Absent)).await.is_ok()
            });
        }
        let mut made = 0;
        while let Some(is_made) = changes.join_next().await {
            made += u32::from(is_made.unwrap());
        }
        assert_eq!(made, 1, "of those who all want to be first");
        assert!(stage.has("one"));
    });
}

#[test]
fn an_export_holds_the_hashes_of_issued_keys_only_where_that_is_asked() {
    story(async {
        let stage = Stage::set("export");
        std::fs::write(&stage.file, format!("{FILE}\nclients: [{{ name: app }}]")).unwrap();
        assert!(stage.configuration.reload().await.is_ok());
        // Keys come and go beside what is held here.
        let objects = stage.configuration.0.parts.live.objects.clone();
        assert_eq!(objects.change(vec![Change::Issue(key())], vec![Deed::default()]).await, Ok(()));
        let hash = format!("sha256:{}", "a5".repeat(32));
        let export = async |with_hashes| stage.configuration.export(with_hashes).await.map(|make| make()).unwrap();
        assert!(export(true).await.contains(&hash) && !export(false).await.contains("sha256"));
    });
}

#[test]
fn whoever_sets_no_condition_is_never_told_that_another_was_faster() {
    story(async {
        let stage = Stage::set("faster");
        let mut puts = tokio::task::JoinSet::new();
        for model in 0..50 {
            let configuration = stage.configuration.clone();
            puts.spawn(async move { configuration.change(other("one", Expected::Whatever, model)).await.map(drop) });
        }
        while let Some(made) = puts.join_next().await {
            assert!(matches!(made, Ok(Ok(()))), "{made:?}");
        }
        assert_eq!(stage.revision("one"), Some(Expected::Revision(50)), "each is counted, and the last one holds");
        let deeds = stage.store.deeds(Deeds { limit: 99, ..Deeds::default() }).await.unwrap();
        let actions: Vec<&str> = deeds.iter().rev().map(|deed| &*deed.action).collect();
        assert_eq!((actions.len(), actions[0]), (50, "create"));
        assert!(actions[1..].iter().all(|action| *action == "replace"));
        assert!(deeds[..49].iter().all(|deed| deed.before.is_some()), "each says what it has replaced");
    });
}

#[test]
fn an_import_leaves_a_row_for_each_object_with_what_was_and_what_is() {
    story(async {
        let stage = Stage::set("rows");
        assert!(stage.put("a", Expected::Absent).await.is_ok());
        let import = |names: [&str; 2]| {
            let wishes = names.map(|name| other(name, Expected::Whatever, 2).changes).concat();
            let deed = Deed { who: "ops".into(), action: "import".into(), object: "config".into(), ..Deed::default() };
            Wish { changes: wishes, deed, dry_run: false }
        };
        assert!(stage.configuration.change(import(["a", "b"])).await.is_ok());
        let found = async |object: &str| {
            let which = Deeds { object: Some(object.into()), limit: 9, ..Deeds::default() };
            let deeds = stage.store.deeds(which).await.unwrap();
            deeds.iter().map(|deed| (deed.action.clone(), deed.before.is_some(), deed.after.is_some())).collect()
        };
        let rows: Vec<_> = found("routes/a").await;
        assert_eq!(rows, [("import".into(), true, true), ("create".into(), false, true)]);
        let rows: Vec<_> = found("routes/b").await;
        assert_eq!(rows, [("import".into(), false, true)]);
        assert!(stage.configuration.change(import(["a", "b"])).await.is_ok());
        let rows: Vec<_> = found("config").await;
        assert_eq!(rows.len(), 1, "and one of its own; where all is so already there is none");
        let whole = stage.store.deeds(Deeds { object: Some("config".into()), limit: 9, ..Deeds::default() }).await;
        let after = whole.unwrap()[0].after.clone();
        assert_eq!(after.as_deref(), Some(r#"{"created":["routes/b"],"replaced":["routes/a"]}"#));
    });
}
