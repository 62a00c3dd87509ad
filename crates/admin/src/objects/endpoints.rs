//! `/admin/v1/providers`, `/admin/v1/routes`, `/admin/v1/clients`: alike for all three.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base::ObjectKind;
use config::Written;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::write::{Asked, How, tagged};
use super::{Changing, Listing, Made, Outcome, Shown, WouldBe, absent};
use crate::caller::{Caller, Operator, Viewer};
use crate::desk::Desk;
use crate::error::{Body, Error};
use crate::etag::{Conditions, etag};
use crate::extract::{Json, Path, Query};
use crate::listing::Page;

/// The objects of a kind, by name.
fn page(written: &Written, kind: ObjectKind, listing: &Listing) -> Page<Shown> {
    let is_wanted = |name: &str| listing.after.as_deref().is_none_or(|after| name > after);
    let mut found: Vec<_> =
        written.objects.iter().filter(|object| object.kind == kind && is_wanted(&object.name)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Page::of_size(found.into_iter().map(Shown::from), listing.limit, Shown::size, |object| object.name.clone())
}

/// One object, or nothing where whoever asks knows it.
fn one(written: &Written, kind: ObjectKind, name: &str, conditions: &Conditions) -> Result<Response, Error> {
    let object = written.object(kind, name).ok_or_else(|| absent(kind, name))?;
    let mut response = tagged(object, &Shown::from(object));
    if conditions.know(&etag(object)) {
        *response.body_mut() = axum::body::Body::empty();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Ok(response)
}

/// The name that a body gives its object, if it gives one.
fn name_in(text: &RawValue) -> Result<Option<String>, Error> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Option<Value>,
    }
    let named: Named = serde_json::from_str(text.get()).map_err(|error| Error::whole(error.to_string()))?;
    match named.name {
        None => Ok(None),
        // Written as any other text of an object.
        Some(Value::String(name)) if !name.is_empty() => Ok(Some(name.replace("$${", "${"))),
        Some(_) => Err(Error::of("name", "`name` must be a text that is not empty")),
    }
}

/// A new object; its name stands in it.
fn new(kind: ObjectKind, text: Box<RawValue>, how: How) -> Result<Asked, Error> {
    let missing = || Error::of("name", format!("`name` is missing: what is the {} called?", kind.word()));
    let name = name_in(&text)?.ok_or_else(missing)?;
    Ok(Asked { kind, name, text: Some(text), how, is_new: true })
}

/// The object of the name in the path; one in the body agrees with it.
fn named(kind: ObjectKind, name: String, text: Box<RawValue>, how: How) -> Result<Asked, Error> {
    if let Some(other) = name_in(&text)?.filter(|other| *other != name) {
        let told = format!("`name` is `{other}`, but the path says `{name}`; leave it out, or write the same");
        return Err(Error::of("name", told));
    }
    Ok(Asked { kind, name, text: Some(text), how, is_new: false })
}

/// The endpoints of one kind.
macro_rules! endpoints {
    (
        $module:ident: $kind:ident, schemas $new:literal $schema:literal, all at $all:literal, one at $one:literal,
        named $list:literal $create:literal $get:literal $put:literal $delete:literal
    ) => {
        pub(crate) mod $module {
            use super::*;

            /// All of them, by name: those of files, and those made here.
            #[utoipa::path(get, path = $all, operation_id = $list, tag = "configuration", params(Listing), responses(
                (status = 200, description = "A page of them.", body = Page<Shown>),
                (status = 503, description = "`busy`: too many questions that take long are asked at a time.",
                    body = Body),
            ))]
            pub(crate) async fn list(
                _: Caller<Viewer>,
                State(desk): State<Desk>,
                Query(listing): Query<Listing>,
            ) -> Result<Response, Error> {
                let written = desk.configuring.written();
                let look = move || axum::Json(page(&written, ObjectKind::$kind, &listing)).into_response();
                desk.aside.look(look).await
            }

            /// One of them.
            #[utoipa::path(get, path = $one, operation_id = $get, tag = "configuration",
                params(
                    ("name" = String, Path, description = "Its name, percent-encoded."),
                    ("If-None-Match" = Option<String>, Header, description = "Tags that are known already."),
                ),
                responses(
                    (status = 200, description = "What it says.", body = Shown,
                        headers(("etag" = String, description = "Names this state of it."))),
                    (status = 304, description = "It has one of these tags."),
                    (status = 503, description = "`busy`: too many questions that take long are asked at a time.",
                        body = Body),
                ),
            )]
            pub(crate) async fn get(
                _: Caller<Viewer>,
                State(desk): State<Desk>,
                Path(name): Path<String>,
                conditions: Conditions,
            ) -> Result<Response, Error> {
                let written = desk.configuring.written();
                desk.aside.look(move || one(&written, ObjectKind::$kind, &name, &conditions)).await?
            }

            /// Makes one, which is written as in a file, and is in force for every call that begins later.
            ///
            /// Variables (`${VAR}`) are refused: the gateway's environment is not read through this API.
            #[utoipa::path(post, path = $all, operation_id = $create, tag = "configuration",
                security(("token" = ["operator"])),
                params(
                    Changing,
                    ("If-None-Match" = Option<String>, Header, description = "`*` says what holds anyhow: it must be new."),
                ),
                request_body(content = ref($new)),
                responses(
                    (status = 201, description = "It is in force.", body = Made, headers(
                        ("etag" = String, description = "Names this state of it."),
                        ("location" = String, description = "Where it is."),
                    )),
                    (status = 200, description = "Of a dry run: what would become of it.", body = WouldBe),
                    (status = 409, description = "`already_exists`, or `managed_by_file`.", body = Body),
                    (status = 412, description = "`precondition_failed`.", body = Body),
                    (status = 422, description = "`invalid_config`: the configuration that would come of it is not \
                        sound.", body = Body),
                    (status = 503, description = "`objects_unavailable`: it cannot be kept, and nothing has changed; or, as \
                        the message says then, it is not known whether it was kept.", body = Body),
                ),
            )]
            pub(crate) async fn create(
                caller: Caller<Operator>,
                State(desk): State<Desk>,
                how: How,
                Json(text): Json<Box<RawValue>>,
            ) -> Result<Response, Error> {
                new(ObjectKind::$kind, text, how)?.carry_out(&desk, &caller).await
            }

            /// Makes one, or puts it in the place of the one of its name.
            ///
            /// `[secret]` at a place where a secret stood keeps that secret, unless it would be sent to another address
            /// than before: then it is written out. The name may be left out of the body.
            #[utoipa::path(put, path = $one, operation_id = $put, tag = "configuration",
                security(("token" = ["operator"])),
                params(
                    ("name" = String, Path, description = "Its name, percent-encoded."),
                    Changing,
                    ("If-Match" = Option<String>, Header, description = "Tags of the states that it may replace."),
                    ("If-None-Match" = Option<String>, Header, description = "`*`: it must be new."),
                ),
                request_body(content = ref($schema)),
                responses(
                    (status = 200, description = "It is in force; or, of a dry run, what would become of it.",
                        body = Outcome,
                        headers(("etag" = String, description = "Names this state of it."))),
                    (status = 201, description = "It was made, and is in force.", body = Made, headers(
                        ("etag" = String, description = "Names this state of it."),
                        ("location" = String, description = "Where it is."),
                    )),
                    (status = 409, description = "`managed_by_file`: it is written in a file, and changed there.",
                        body = Body),
                    (status = 412, description = "`precondition_failed`: it has been changed since.", body = Body),
                    (status = 422, description = "`invalid_config`: the configuration that would come of it is not \
                        sound.", body = Body),
                    (status = 503, description = "`objects_unavailable`: it cannot be kept, and nothing has changed; or, as \
                        the message says then, it is not known whether it was kept.", body = Body),
                ),
            )]
            pub(crate) async fn put(
                caller: Caller<Operator>,
                State(desk): State<Desk>,
                Path(name): Path<String>,
                how: How,
                Json(text): Json<Box<RawValue>>,
            ) -> Result<Response, Error> {
                named(ObjectKind::$kind, name, text, how)?.carry_out(&desk, &caller).await
            }

            /// Removes one that was made here.
            ///
            /// Calls that run go on as they began.
            #[utoipa::path(delete, path = $one, operation_id = $delete, tag = "configuration",
                security(("token" = ["operator"])),
                params(
                    ("name" = String, Path, description = "Its name, percent-encoded."),
                    Changing,
                    ("If-Match" = Option<String>, Header, description = "Tags of the states that may be removed."),
                ),
                responses(
                    (status = 204, description = "It is gone."),
                    (status = 200, description = "Of a dry run: what would become of it.", body = WouldBe),
                    (status = 409, description = "`managed_by_file`: it is written in a file, and removed there.",
                        body = Body),
                    (status = 412, description = "`precondition_failed`: it has been changed since.", body = Body),
                    (status = 422, description = "`invalid_config`: others still need it; `problems` says which.", body = Body),
                    (status = 503, description = "`objects_unavailable`: it cannot be kept, and nothing has changed; or, as \
                        the message says then, it is not known whether it was kept.", body = Body),
                ),
            )]
            pub(crate) async fn delete(
                caller: Caller<Operator>,
                State(desk): State<Desk>,
                Path(name): Path<String>,
                how: How,
            ) -> Result<Response, Error> {
                let asked = Asked { kind: ObjectKind::$kind, name, text: None, how, is_new: false };
                asked.carry_out(&desk, &caller).await
            }
        }
    };
}

endpoints! {
    providers: Provider, schemas "#/components/schemas/NewProvider" "#/components/schemas/Provider",
    all at "/admin/v1/providers", one at "/admin/v1/providers/{name}",
    named "list_providers" "create_provider" "get_provider" "put_provider" "delete_provider"
}

endpoints! {
    routes: Route, schemas "#/components/schemas/NewRoute" "#/components/schemas/Route",
    all at "/admin/v1/routes", one at "/admin/v1/routes/{name}",
    named "list_routes" "create_route" "get_route" "put_route" "delete_route"
}

endpoints! {
    clients: Client, schemas "#/components/schemas/NewClient" "#/components/schemas/Client",
    all at "/admin/v1/clients", one at "/admin/v1/clients/{name}",
    named "list_clients" "create_client" "get_client" "put_client" "delete_client"
}
