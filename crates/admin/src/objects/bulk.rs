//! `/admin/v1/config`, `/admin/v1/export`, `/admin/v1/import`: all of it at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base::{Object, ObjectKind, Secret};
use config::{Home, Pieces, Role, Written, not_changed_here};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::objects::Change;
use utoipa::{IntoParams, ToSchema};

use super::{path, refused};
use crate::caller::{Caller, Operator, Viewer};
use crate::configuring::{Expected, NotChanged, Wish};
use crate::deeds::Done;
use crate::desk::Desk;
use crate::error::{Body, Error, Store, Told};
use crate::etag::etag;
use crate::extract::{Query, whole};

/// Bytes of an import at most.
const LARGEST: usize = 8 << 20;

/// What is in force, files and objects made here together, as one file would say it. Secrets are `[secret]`.
#[utoipa::path(get, path = "/admin/v1/config", tag = "configuration", responses(
    (status = 200, description = "The configuration.", body = Object),
    (status = 503, description = "`busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn config(_: Caller<Viewer>, State(desk): State<Desk>) -> Result<Response, Error> {
    let written = desk.configuring.written();
    desk.aside.look(move || axum::Json(written.config()).into_response()).await
}

/// What an export holds.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Exporting {
    /// With the `sha256:` of clients' keys, which takes the role `admin`.
    #[serde(default)]
    #[param(required = false)]
    key_hashes: bool,
}

/// Everything as a file, with which it is made anew elsewhere.
///
/// Credentials of providers stand in it as variables.
#[utoipa::path(get, path = "/admin/v1/export", tag = "configuration", params(Exporting), responses(
    (status = 200, description = "A configuration file.", body = Object, content_type = "text/yaml"),
    (status = 503, description = "`objects_unavailable`: they cannot be read; or `busy`: too many questions that take long are asked at a time.", body = Body),
))]
pub(crate) async fn export(
    caller: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(exporting): Query<Exporting>,
) -> Result<Response, Error> {
    if exporting.key_hashes {
        caller.at_least(Role::Admin)?;
    }
    let make = desk.configuring.export(exporting.key_hashes).await;
    let make = make.map_err(|why| Error::Unavailable(Store::Objects, why.to_string()))?;
    let text = desk.aside.look(make).await?;
    Ok(([(header::CONTENT_TYPE, "text/yaml; charset=utf-8")], text).into_response())
}

/// How an import is made.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Importing {
    /// Only say what would become of it; nothing changes.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
    /// Objects that were made here may be replaced; without it all must be new.
    #[serde(default)]
    #[param(required = false)]
    replace: bool,
}

/// What an import came to, or would come to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Imported {
    /// Such as `routes/rag-chat`.
    created: Vec<String>,
    /// Likewise.
    replaced: Vec<String>,
    /// Likewise: those that said the same already, and stay as they are.
    unchanged: Vec<String>,
    /// What it is well to know.
    warnings: Vec<Told>,
}

/// Makes the providers, routes and clients of a file, YAML or JSON: all of them or none.
///
/// Each object leaves a row of its own in the audit log, with what was there before and what is there since, and the
/// import one more; what is imported as it is already leaves none. What is long is cut there: to 64 KiB, and of objects that come by the thousand to less, so that all
/// texts of an import take some 16 MiB.
///
/// Variables (`${VAR}`) are refused: the gateway's environment is not read through this API. The command
/// `mai-gateway import` fills them in from its own.
#[utoipa::path(post, path = "/admin/v1/import", tag = "configuration", security(("token" = ["operator"])),
    params(Importing),
    request_body(content((Object = "text/yaml"), (Object = "application/json")), description = "At most 8 MiB."),
    responses(
        (status = 200, description = "All of it is in force; or, of a dry run, what would become of it.",
            body = Imported),
        (status = 409, description = "`already_exists`, or `managed_by_file`.", body = Body),
        (status = 422, description = "`invalid_config`: the configuration that would come of it is not sound.",
            body = Body),
        (status = 503, description = "`objects_unavailable`: it cannot be kept, and nothing has changed; or, as the message \
            says then, it is not known whether it was kept; or `busy`: too much that takes long is asked at a time.", body = Body),
    ),
)]
pub(crate) async fn import(
    caller: Caller<Operator>,
    State(desk): State<Desk>,
    Query(importing): Query<Importing>,
    request: Request,
) -> Result<axum::Json<Imported>, Error> {
    let body = whole(request.into_body(), LARGEST).await?;
    let pieces = desk.aside.change(move || pieces(&body)).await??;
    let written = desk.configuring.written();
    let warnings = left_out(&pieces);
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for piece in pieces.pieces {
        let (kind, name) = (piece.kind, piece.name);
        match written.object(kind, &name).map(|object| &object.home) {
            Some(Home::File(place)) => return Err(refused(NotChanged::InFile(place.clone()), kind, &name)),
            Some(Home::Admin { .. }) if !importing.replace => {
                let told = format!("there is a {} `{name}` already; `replace=true` replaces it", kind.word());
                return Err(Error::AlreadyExists(told));
            }
            Some(Home::Admin { .. }) | None => {}
        }
        // Whoever replaces means whatever is there when the change is made.
        let expected = if importing.replace { Expected::Whatever } else { Expected::Absent };
        changes.push((expected, put(kind, &name, &piece.config)));
        names.push((kind, name));
    }
    let deed = Done::to("config", "import").by(&caller);
    let changed = desk.configuring.change(Wish { changes, deed, dry_run: importing.dry_run }).await;
    let changed = changed.map_err(|why| match why {
        NotChanged::Unexpected(_) => Error::AlreadyExists(
            "one of the objects was made meanwhile, and nothing was imported; `replace=true` replaces it".to_owned(),
        ),
        NotChanged::InFile(place) => {
            Error::ManagedByFile(not_changed_here("one of the objects", &place, "change it there"))
        }
        why => refused(why, ObjectKind::Route, ""),
    })?;
    let warnings = warnings.into_iter().chain(changed.warnings.iter().map(Told::from)).collect();
    Ok(axum::Json(Imported::over((&changed.before, &changed.written), &names, warnings)))
}

impl Imported {
    /// What becomes of these objects between one state and the next.
    fn over((before, after): (&Written, &Written), names: &[(ObjectKind, String)], warnings: Vec<Told>) -> Self {
        let mut came = Self { created: Vec::new(), replaced: Vec::new(), unchanged: Vec::new(), warnings };
        for (kind, name) in names {
            let [was, is] = [before, after].map(|written| written.object(*kind, name).map(etag));
            let list = match was {
                None => &mut came.created,
                Some(_) if was == is => &mut came.unchanged,
                Some(_) => &mut came.replaced,
            };
            list.push(path(*kind, name));
        }
        came
    }
}

fn put(kind: ObjectKind, name: &str, config: &Value) -> Change {
    let (name, written): (Arc<str>, _) = (name.into(), Secret::new(config.to_string()));
    Change::Put(Object { kind, name, written, revision: 0, changed: Duration::ZERO })
}

/// The objects of a file's text.
fn pieces(body: &Bytes) -> Result<Pieces, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::whole("the body is not UTF-8"))?;
    // Defaults of variables are no less read from nowhere: whoever wrote them would think that the variable was looked at.
    let variables = Mutex::new(Vec::new());
    let note = |name: &str| {
        variables.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        None
    };
    let read = config::pieces("import", text, None, &note);
    let unsound = |problems| {
        Err(Error::InvalidConfig { message: "this cannot be imported; nothing has changed".to_owned(), problems })
    };
    let variables = variables.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !variables.is_empty() {
        let told = |name: &String| Told {
            path: String::new(),
            message: format!(
                "`${{{name}}}` is a variable, and the gateway's environment is not read through this API; write the \
                 value itself, or let `mai-gateway import` fill it in"
            ),
            place: None,
        };
        return unsound(variables.iter().map(told).collect());
    }
    match read {
        Ok(pieces) if pieces.pieces.is_empty() => {
            Err(Error::whole("there is nothing to import: write the objects below `providers`, `routes` or `clients`"))
        }
        Ok(pieces) => Ok(pieces),
        Err(errors) => unsound(errors.problems.iter().map(Told::from).collect()),
    }
}

fn left_out(pieces: &Pieces) -> Vec<Told> {
    let told = |key: &String| Told {
        path: key.clone(),
        message: "is left out: only providers, routes and clients are imported".to_owned(),
        place: None,
    };
    pieces.others.iter().map(told).collect()
}
