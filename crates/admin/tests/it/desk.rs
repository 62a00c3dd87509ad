//! A desk to ask: a small configuration, state in memory, and what holds the configuration together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use admin::{
    Aside, Attempts, Changed, Configuring, Desk, Doing, Expected, Export, LastReload, LateRows, NotChanged, Wish,
};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use base::{Clock, Dice, KeyHasher, Object, ObjectKind};
use config::{Added, Files, Home, Loaded, Overrides, Source, Written};
use gateway::live::Live;
use gateway::quota::ledger::Stores;
use gateway::records::access_log::AccessLog;
use serde_json::Value;
use state::objects::{Change, Deed, Deeds, Kept};
use state::{Objects, Unreadable};
use tower::ServiceExt as _;

pub const VIEWER: &str = "token-of-a-viewer";
pub const OPERATOR: &str = "token-of-an-operator";
pub const ADMIN: &str = "token-of-an-admin";

/// What must never be seen in an answer.
pub const SECRETS: [&str; 6] = [VIEWER, OPERATOR, ADMIN, "sk-of-the-cloud", "sk-of-the-app", "word-of-the-proxy"];

const FILE: &str = "
admin:
  tokens:
    - { name: vera, role: viewer, token: token-of-a-viewer }
    - { name: otto, role: operator, token: token-of-an-operator }
    - { name: ada, role: admin, token: token-of-an-admin }
providers:
  - name: cloud
    base_url: http://cloud/v1
    api_key: sk-of-the-cloud
    proxy: http://user:word-of-the-proxy@proxy:3128
routes:
  - { name: chat, upstreams: [{ provider: cloud, model: m }] }
clients:
  - { name: app, keys: [sk-of-the-app], routes: ['*'] }
";

/// Who asks, over a port of its own.
pub struct Port {
    pub desk: Desk,
    router: Router,
    from: SocketAddr,
}

impl Port {
    pub fn open() -> Self {
        Self::with(Stores::default())
    }

    /// With places for so much that takes long.
    pub fn allowing(looks: usize) -> Self {
        Self::over(Stores::default(), Aside::allowing(looks))
    }

    pub fn with(stores: Stores) -> Self {
        Self::over(stores, Aside::default())
    }

    fn over(stores: Stores, aside: Aside) -> Self {
        let hasher = KeyHasher::new(&[7; 64]);
        let source = Source::Text { name: "gateway.yaml".into(), text: FILE.into() };
        let files = Files::read(&source, Overrides::default(), &|_| None).unwrap();
        let loaded = files.with(Added::default(), &hasher).unwrap();
        let written = Arc::new(loaded.whole.written());
        let live = Live::keeping(loaded.snapshot, Dice::loaded(1), AccessLog::default(), stores).unwrap();
        let holder = Holder {
            files,
            hasher: hasher.clone(),
            live: live.clone(),
            now: Arc::new(Mutex::new(Now { written, ..Now::default() })),
        };
        let desk = Desk {
            objects: live.objects.clone(),
            live,
            hasher,
            last_reload: LastReload::default(),
            reload: Arc::new(|| Box::pin(async { Ok("sound: 1 provider, 1 route, 1 client".to_owned()) })),
            configuring: Arc::new(holder),
            late_rows: LateRows::default(),
            attempts: Attempts::default(),
            aside,
        };
        Self { router: admin::router(desk.clone()), desk, from: "192.0.2.1:40000".parse().unwrap() }
    }

    /// The same port, seen from another address.
    pub fn from(&self, address: &str) -> Self {
        Self { desk: self.desk.clone(), router: self.router.clone(), from: address.parse().unwrap() }
    }

    /// The same port, to which all that is made from now on is made meanwhile: between its look and its change.
    pub fn behind(&self) -> Self {
        let (seen, now) = (self.desk.configuring.written(), self.desk.configuring.clone());
        let desk = Desk { configuring: Arc::new(Behind { seen, now }), ..self.desk.clone() };
        Self { router: admin::router(desk.clone()), desk, from: self.from }
    }

    /// Asks as whoever has this token; nobody where it is empty.
    pub async fn ask(&self, token: &str, asking: Asking) -> Told {
        let mut request = Request::builder().method(asking.method).uri(asking.path);
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in asking.headers {
            request = request.header(name, value);
        }
        let request = request.extension(ConnectInfo(self.from)).body(Body::from(asking.body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is told: {text}");
            assert!(!format!("{:?}", parts.headers).contains(secret), "{secret} is in a header");
        }
        let json = serde_json::from_str(&text).unwrap_or_default();
        Told { status: parts.status, headers: parts.headers, text, json }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Asking {
    pub method: Method,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

pub fn asking(method: &str, path: &str) -> Asking {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    Asking { method, path: format!("/admin/v1{path}"), headers: Vec::new(), body: String::new() }
}

pub fn get(path: &str) -> Asking {
    asking("GET", path)
}

pub fn post(path: &str, body: impl ToString) -> Asking {
    Asking { body: body.to_string(), ..asking("POST", path) }
}

pub fn put(path: &str, body: impl ToString) -> Asking {
    Asking { body: body.to_string(), ..asking("PUT", path) }
}

pub fn delete(path: &str) -> Asking {
    asking("DELETE", path)
}

impl Asking {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// An answer.
#[derive(Debug)]
pub struct Told {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Told {
    /// The answer, which has this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// An error of this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        let told = self.is(status);
        assert_eq!(told.json["error"]["code"], code, "{}", told.text);
        told
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.json["error"]["message"].as_str().unwrap_or_default()
    }
}

/// What was in force when it was looked at; others have changed it since.
struct Behind {
    seen: Arc<Written>,
    now: Arc<dyn Configuring>,
}

impl Configuring for Behind {
    fn written(&self) -> Arc<Written> {
        self.seen.clone()
    }

    fn change(&self, wish: Wish) -> Doing<Result<Changed, NotChanged>> {
        self.now.change(wish)
    }

    fn export(&self, with_key_hashes: bool) -> Doing<Result<Export, Unreadable>> {
        self.now.export(with_key_hashes)
    }
}

/// Files that never change, and objects beside them, which the process's store keeps.
struct Holder {
    files: Files,
    hasher: KeyHasher,
    live: Arc<Live>,
    now: Arc<Mutex<Now>>,
}

#[derive(Default)]
struct Now {
    written: Arc<Written>,
    objects: BTreeMap<(ObjectKind, Arc<str>), Object>,
    revisions: u64,
}

impl Holder {
    fn changed(&self, wish: &Wish) -> Result<(Loaded, Now), NotChanged> {
        let now = self.now.lock().unwrap();
        let (mut objects, mut revisions) = (now.objects.clone(), now.revisions);
        for (expected, change) in &wish.changes {
            let (kind, name) = match change {
                Change::Put(object) => (object.kind, &object.name),
                Change::Remove(kind, name) => (*kind, name),
                _ => continue,
            };
            if let Some(Home::File(place)) = now.written.object(kind, name).map(|object| object.home.clone()) {
                return Err(NotChanged::InFile(place));
            }
            let before = objects.get(&(kind, name.clone())).cloned();
            let is_so = match expected {
                Expected::Whatever => true,
                Expected::Absent => before.is_none(),
                Expected::Present => before.is_some(),
                Expected::Revision(revision) => before.as_ref().is_some_and(|before| before.revision == *revision),
            };
            if !is_so {
                return Err(NotChanged::Unexpected(*expected));
            }
            match change {
                Change::Put(object) => {
                    let written = config::unmask(object, before.as_ref()).map_err(NotChanged::Unsound)?;
                    if before.is_some_and(|before| config::says_the_same(&before, &written)) {
                        continue;
                    }
                    revisions += 1;
                    let object = Object { written, revision: revisions, changed: Clock.wall(), ..object.clone() };
                    objects.insert((kind, name.clone()), object);
                }
                _ => drop(objects.remove(&(kind, name.clone()))),
            }
        }
        let all: Vec<Object> = objects.values().cloned().collect();
        let loaded = self.files.with(Added { objects: &all }, &self.hasher);
        let loaded = loaded.map_err(|errors| NotChanged::Unsound(errors.problems))?;
        let written = Arc::new(loaded.whole.written());
        Ok((loaded, Now { written, objects, revisions }))
    }
}

impl Configuring for Holder {
    fn written(&self) -> Arc<Written> {
        self.now.lock().unwrap().written.clone()
    }

    fn change(&self, wish: Wish) -> Doing<Result<Changed, NotChanged>> {
        let (loaded, now) = match self.changed(&wish) {
            Ok(changed) => changed,
            Err(why) => return Box::pin(async { Err(why) }),
        };
        let before = self.written();
        let changed = Changed { before: before.clone(), written: now.written.clone(), warnings: loaded.warnings };
        if wish.dry_run {
            return Box::pin(async { Ok(changed) });
        }
        let (live, held) = (self.live.clone(), self.now.clone());
        Box::pin(async move {
            let deeds = rows(&wish.deed, &wish.changes, (&before, &now.written));
            let of_keys = |change: &Change| matches!(change, Change::Issue(_) | Change::Revoke(_));
            let keys = wish.changes.into_iter().map(|(_, change)| change).filter(of_keys).collect();
            let kept = live.objects.change(keys, deeds).await;
            kept.map_err(NotChanged::Unkept)?;
            *held.lock().unwrap() = now;
            live.put_in_force(loaded.snapshot);
            Ok(changed)
        })
    }

    fn export(&self, with_key_hashes: bool) -> Doing<Result<Export, Unreadable>> {
        Box::pin(async move { Ok(Box::new(move || format!("# with_key_hashes: {with_key_hashes}\n")) as Export) })
    }
}

/// A row for each object, and one for what names something itself.
fn rows(deed: &Deed, changes: &[(Expected, Change)], (before, after): (&Written, &Written)) -> Vec<Deed> {
    let row = |(_, change): &(Expected, Change)| {
        let (kind, name) = match change {
            Change::Put(object) => (object.kind, &object.name),
            Change::Remove(kind, name) => (*kind, name),
            _ => return None,
        };
        let text = |written: &Written| written.object(kind, name).map(|object| object.shown.to_string().into());
        let [was, is] = [before, after].map(|written| written.object(kind, name).map(|object| object.home.clone()));
        let (before, after): (Option<Box<str>>, Option<Box<str>>) = (text(before), text(after));
        let action = match (&before, &after) {
            _ if !deed.object.is_empty() => &*deed.action,
            (_, None) => "delete",
            (None, _) => "create",
            _ => "replace",
        };
        let (action, object) = (action.into(), format!("{}/{name}", kind.list()).into());
        (was != is).then(|| Deed { action, object, before, after, ..deed.clone() })
    };
    let mut rows: Vec<Deed> = changes.iter().filter_map(row).collect();
    let is_of_a_key = |(_, change): &(Expected, Change)| matches!(change, Change::Issue(_) | Change::Revoke(_));
    if changes.iter().any(is_of_a_key) {
        rows.push(deed.clone());
    } else if !deed.object.is_empty() && !rows.is_empty() {
        let created: Vec<&str> = rows.iter().filter(|row| row.before.is_none()).map(|row| &*row.object).collect();
        let after = serde_json::json!({ "created": created }).to_string().into();
        rows.push(Deed { after: Some(after), ..deed.clone() });
    }
    rows
}

/// A store that is out.
#[derive(Debug)]
pub struct Out;

fn out<T: Send + 'static>() -> state::Answer<Result<T, Unreadable>> {
    state::Answer::Ready(Err(Unreadable("no space left on device".to_owned())))
}

impl Objects for Out {
    fn all(&self) -> state::Answer<Result<Kept, Unreadable>> {
        out()
    }

    fn change(&self, _: Vec<Change>, _: Vec<Deed>) -> state::Answer<Result<(), Unreadable>> {
        out()
    }

    fn used(&self, _: Vec<(Arc<str>, Duration)>) -> state::Answer<Result<(), Unreadable>> {
        out()
    }

    fn deeds(&self, _: Deeds) -> state::Answer<Result<Vec<Deed>, Unreadable>> {
        out()
    }

    fn health(&self) -> Option<state::Trouble> {
        Some(state::Trouble { since: Duration::from_secs(5), what: "no space left on device".to_owned() })
    }
}
