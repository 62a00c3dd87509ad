//! `/admin/v1/clients/{name}/keys`: what a client calls with, made and taken back while the gateway runs. A key is shown
//! once, to whoever has it made; here and in the store it is known by its digest alone.

use std::time::Duration;

use axum::Json as Told;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::ObjectKind;
use config::Home;
use gateway::live::issued_keys::{MOST_KEYS, NewKey, Shown as Issued};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use state::objects::{Change, Deed};
use utoipa::ToSchema;

use crate::caller::{Caller, Operator, Viewer};
use crate::configuring::{Expected, Wish};
use crate::deeds::Done;
use crate::desk::Desk;
use crate::error::{Body, Error};
use crate::extract::{Json, Path, Query};
use crate::listing::{Page, instant, time};
use crate::objects::{Listing, absent, refused};

/// Letters of a note at most.
const LONGEST_NOTE: usize = 200;

/// A key of a client. The key itself is known to its owner alone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct Shown {
    /// Names it; says nothing of the key.
    id: String,
    /// What was written about it.
    note: String,
    /// When it was issued; null of one that is written in the client itself.
    #[schema(format = DateTime)]
    created_at: Option<String>,
    /// The name of the token that issued it.
    created_by: Option<String>,
    /// From then on it is refused; null where it is good until it is revoked.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// When it was used last, to the hour.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// `admin` where it was made here; `file` where it is written in a file, and taken out there.
    #[schema(pattern = "^(file|admin)$")]
    managed_by: &'static str,
    /// Its place in the list.
    #[serde(skip)]
    order: String,
}

impl From<Issued> for Shown {
    fn from(key: Issued) -> Self {
        Self {
            order: format!("{:013}.{}", key.created.as_millis(), key.id),
            id: key.id.to_string(),
            note: key.note.into(),
            created_at: Some(time(key.created)),
            created_by: Some(key.by.into()),
            expires_at: key.expires.map(time),
            // To the hour, in which it may have been made too.
            last_used_at: key.last_used.map(|used| time(used.max(key.created))),
            managed_by: "admin",
        }
    }
}

/// What a new key is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// What it is for: a word to operators.
    #[serde(default)]
    #[schema(max_length = 200)]
    note: Option<String>,
    /// From then on it is refused (RFC 3339; a plain day in UTC counts to its end). Left out, it is good until it is
    /// revoked.
    #[serde(default)]
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// A new key: the only answer that holds it.
#[derive(Serialize, ToSchema)]
#[schema(as = NewKey)]
pub(crate) struct Made {
    /// Names it.
    id: String,
    /// The key, shown this once.
    key: String,
    note: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// A client's keys: those written in it, and those that were issued, the oldest first.
#[utoipa::path(get, path = "/admin/v1/clients/{name}/keys", operation_id = "list_keys", tag = "clients",
    params(("name" = String, Path, description = "The client's name, percent-encoded."), Listing),
    responses(
        (status = 200, description = "A page of them.", body = Page<Shown>),
        (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
    ),
)]
pub(crate) async fn list(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Path(name): Path<String>,
    Query(listing): Query<Listing>,
) -> Result<Response, Error> {
    if listing.after.as_deref().is_some_and(|after| !is_place(after)) {
        return Err(Error::of("after", "`after` must be `next` of the page before"));
    }
    let aside = desk.aside.clone();
    let look = move || {
        let issued = issued(&desk, &name)?;
        let mut keys = written(&desk, &name);
        keys.extend(issued.into_iter().map(Shown::from));
        keys.retain(|key| listing.after.as_ref().is_none_or(|after| key.order > *after));
        Ok(Told(Page::of(keys, listing.limit, |key| key.order.clone())).into_response())
    };
    aside.look(look).await?
}

/// Whether it is a key's place in the list: a number of one that is written in the client, else when it was made, and
/// its id.
fn is_place(after: &str) -> bool {
    let is_number =
        |text: &str, digits: usize| text.len() == digits && text.bytes().all(|digit| digit.is_ascii_digit());
    match after.split_once('.') {
        None => is_number(after, 5),
        Some((created, id)) => is_number(created, 13) && !id.is_empty(),
    }
}

/// Issues a key, which is good from now on.
///
/// It is shown in this answer and nowhere else.
#[utoipa::path(post, path = "/admin/v1/clients/{name}/keys", operation_id = "issue_key", tag = "clients",
    security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The client's name, percent-encoded.")),
    responses(
        (status = 201, description = "The key.", body = Made),
        (status = 503, description = "`objects_unavailable`: it cannot be kept, and there is no key; or, as the message \
            says then, it is not known whether it was kept: nobody has it, so revoke it where it is listed.", body = Body),
    ),
)]
pub(crate) async fn issue(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path(name): Path<String>,
    Json(wanted): Json<Wanted>,
) -> Result<Response, Error> {
    let now = desk.live.steady_wall();
    let note = wanted.note.unwrap_or_default();
    if note.chars().count() > LONGEST_NOTE || note.chars().any(char::is_control) {
        return Err(Error::of("note", format!("`note` must be one line of at most {LONGEST_NOTE} letters")));
    }
    if let Some(why) = base::illegible(&note) {
        return Err(Error::of("note", format!("`note` {why}: write it in letters that are seen")));
    }
    let expires = wanted.expires_at.map(|written| instant("expires_at", &written, true)).transpose()?;
    if expires.is_some_and(|expires| expires <= now) {
        return Err(Error::of("expires_at", "`expires_at` is over already; write a time to come"));
    }
    if desk.live.issued.count() >= MOST_KEYS {
        return Err(Error::whole(format!("there are {MOST_KEYS} issued keys, and no more may be; revoke some first")));
    }
    let new = NewKey::make().map_err(|_| Error::Internal("the system gives no random bytes".to_owned()))?;
    let kept = new.kept(name.as_str().into(), (&caller.name, &note), (now, expires));
    let done = Done::to(path(&name, &new.id), "issue").with(told(&kept.id, &kept.note, kept.expires));
    let deed = done.by(&caller);
    change(&desk, &name, Change::Issue(kept), (Expected::Whatever, deed)).await?;
    let made = Made {
        id: new.id.to_string(),
        key: new.key.expose().to_owned(),
        note,
        created_at: time(now),
        expires_at: expires.map(time),
    };
    let mut response = (StatusCode::CREATED, Told(made)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Takes a key back for good.
///
/// Calls that run go on; the next one is refused.
#[utoipa::path(delete, path = "/admin/v1/clients/{name}/keys/{id}", operation_id = "revoke_key", tag = "clients",
    security(("token" = ["operator"])),
    params(
        ("name" = String, Path, description = "The client's name, percent-encoded."),
        ("id" = String, Path, description = "The key's `id`."),
    ),
    responses(
        (status = 204, description = "It is good no more."),
        (status = 409, description = "`managed_by_file`: it is written in a file, and taken out there.", body = Body),
        (status = 503, description = "`objects_unavailable`: it cannot be written down, and the key is still good; or, as \
            the message says then, that is not known: list them again.", body = Body),
    ),
)]
pub(crate) async fn revoke(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    if let Some(key) = written(&desk, &name).into_iter().find(|key| key.id == id) {
        return Err(is_written(&desk, &name, &key));
    }
    let key = issued(&desk, &name)?.into_iter().find(|key| *key.id == *id);
    let key = key.ok_or_else(|| Error::NotFound(format!("the client `{name}` has no key `{id}`")))?;
    let before = told(&key.id, &key.note, key.expires);
    let done = Done { before: Some(before), ..Done::to(path(&name, &id), "revoke") };
    let deed = done.by(&caller);
    change(&desk, &name, Change::Revoke(key.id), (Expected::Whatever, deed)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(desk: &Desk, client: &str, change: Change, (expected, deed): (Expected, Deed)) -> Result<(), Error> {
    let wish = Wish { changes: vec![(expected, change)], deed, dry_run: false };
    let changed = desk.configuring.change(wish).await;
    changed.map(drop).map_err(|why| refused(why, ObjectKind::Client, client))
}

/// A key's path below `/admin/v1`, as the audit log names it.
fn path(client: &str, id: &str) -> String {
    format!("clients/{client}/keys/{id}")
}

/// What the audit log says of a key.
fn told(id: &str, note: &str, expires: Option<Duration>) -> Value {
    json!({ "id": id, "note": note, "expires_at": expires.map(time) })
}

/// The keys that were issued for a client. One that is gone may have some left, which can be taken back.
fn issued(desk: &Desk, name: &str) -> Result<Vec<Issued>, Error> {
    let keys = desk.live.issued.of(name);
    if keys.is_empty() && desk.live.running().snapshot.client_named(name).is_none() {
        return Err(absent(ObjectKind::Client, name));
    }
    Ok(keys)
}

/// The keys that are written in a client itself. They have no names but their numbers.
fn written(desk: &Desk, name: &str) -> Vec<Shown> {
    let written = desk.configuring.written();
    let is_of_file =
        written.object(ObjectKind::Client, name).is_some_and(|object| matches!(object.home, Home::File(_)));
    let shown = |number: usize| Shown {
        id: format!("written_{number}"),
        note: String::new(),
        created_at: None,
        created_by: None,
        expires_at: None,
        last_used_at: None,
        managed_by: if is_of_file { "file" } else { "admin" },
        order: format!("{number:05}"),
    };
    (1..=desk.live.running().snapshot.keys.count_of(name)).map(shown).collect()
}

/// Why a key that is written in a client cannot be revoked by its own.
fn is_written(desk: &Desk, name: &str, key: &Shown) -> Error {
    let written = desk.configuring.written();
    match written.object(ObjectKind::Client, name).map(|object| &object.home) {
        Some(Home::File(place)) => {
            let what = format!("the key `{}` is one of the `keys` of the client `{name}`, which", key.id);
            Error::ManagedByFile(config::not_changed_here(&what, place, "take it out there"))
        }
        _ => Error::of(
            "id",
            format!("the key `{}` is one of the `keys` of the client `{name}`; PUT the client without it", key.id),
        ),
    }
}
