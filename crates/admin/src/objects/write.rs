//! One object is made, replaced or removed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::{Object, ObjectKind, Secret};
use config::{Home, WrittenObject};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use state::objects::Change;

use super::refusals::{absent, changed_since, in_use, refused};
use super::{Changing, Made, Outcome, Shown, WouldBe};
use crate::caller::{Caller, Operator};
use crate::configuring::{Changed, Expected, NotChanged, Wish};
use crate::deeds::of_objects;
use crate::desk::Desk;
use crate::error::{Error, Told};
use crate::etag::{Conditions, etag};
use crate::extract::Query;

/// What stays as it is in a path (RFC 3986, section 2.3).
const IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a change is made.
pub(crate) struct How {
    /// Only say what would become of it.
    is_dry: bool,
    /// What must be true before.
    conditions: Conditions,
}

impl<S: Send + Sync> FromRequestParts<S> for How {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let Query(changing) = Query::<Changing>::from_request_parts(parts, state).await?;
        let conditions = Conditions::from_request_parts(parts, state).await?;
        Ok(Self { is_dry: changing.dry_run, conditions })
    }
}

/// A change that somebody asks for.
pub(super) struct Asked {
    pub kind: ObjectKind,
    pub name: String,
    /// What is to be there, as JSON in the configuration's own form; none where nothing is to be.
    pub text: Option<Box<RawValue>>,
    pub how: How,
    /// Whether it must not be there yet.
    pub is_new: bool,
}

impl Asked {
    /// Makes the change, or says what would become of it.
    pub async fn carry_out(self, desk: &Desk, caller: &Caller<Operator>) -> Result<Response, Error> {
        let written = desk.configuring.written();
        let expected = self.expected(written.object(self.kind, &self.name))?;
        let changes = vec![(expected, self.change())];
        let wish = Wish { changes, deed: of_objects(caller), dry_run: self.how.is_dry };
        match desk.configuring.change(wish).await {
            Ok(changed) => self.answer(&changed),
            Err(why) => Err(self.refused(why)),
        }
    }

    /// What must be true. Whoever sets no condition means whatever is there when the change is made.
    fn expected(&self, current: Option<&WrittenObject>) -> Result<Expected, Error> {
        if let Some(WrittenObject { home: Home::File(place), .. }) = current {
            return Err(refused(NotChanged::InFile(place.clone()), self.kind, &self.name));
        }
        if self.text.is_none() && current.is_none() {
            return Err(absent(self.kind, &self.name));
        }
        if self.is_new && current.is_some() {
            return Err(refused(NotChanged::Unexpected(Expected::Absent), self.kind, &self.name));
        }
        let conditions = &self.how.conditions;
        conditions.allow(current.map(etag).as_deref())?;
        Ok(match current.map(|current| &current.home) {
            Some(_) if conditions.want_any() => Expected::Present,
            Some(Home::Admin { revision, .. }) if conditions.are_some() => Expected::Revision(*revision),
            None if self.is_new || conditions.are_some() => Expected::Absent,
            _ if self.text.is_none() => Expected::Present,
            _ => Expected::Whatever,
        })
    }

    /// Why it was not made.
    fn refused(&self, why: NotChanged) -> Error {
        match why {
            // What held when it was looked at held no more when it was to be made.
            NotChanged::Unexpected(_) if self.how.conditions.are_some() => changed_since(self.kind, &self.name),
            NotChanged::Unsound(problems) if self.text.is_none() => in_use(self.kind, &self.name, &problems),
            why => refused(why, self.kind, &self.name),
        }
    }

    fn change(&self) -> Change {
        let name: Arc<str> = self.name.as_str().into();
        match &self.text {
            None => Change::Remove(self.kind, name),
            Some(text) => Change::Put(Object {
                kind: self.kind,
                name,
                written: Secret::new(text.get()),
                // Whoever makes the change counts and dates it.
                revision: 0,
                changed: Duration::ZERO,
            }),
        }
    }

    fn answer(&self, changed: &Changed) -> Result<Response, Error> {
        let warnings: Vec<Told> = changed.warnings.iter().map(Told::from).collect();
        let before = changed.before.object(self.kind, &self.name);
        let now = changed.written.object(self.kind, &self.name);
        let would = match (&self.text, before) {
            (None, _) => "delete",
            (Some(_), Some(before)) if now.is_some_and(|now| etag(now) == etag(before)) => "nothing",
            (Some(_), Some(_)) => "replace",
            (Some(_), None) => "create",
        };
        let missing = || Error::Internal("what was written is not there; please report this".to_owned());
        if self.how.is_dry {
            let object = if self.text.is_none() { before } else { now };
            let object = Shown::from(object.ok_or_else(missing)?);
            return Ok(axum::Json(Outcome::WouldBe(WouldBe { would, object, warnings })).into_response());
        }
        if self.text.is_none() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let now = now.ok_or_else(missing)?;
        let status = if would == "create" { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = (status, tagged(now, &Outcome::Made(Made { object: now.into(), warnings }))).into_response();
        if status == StatusCode::CREATED {
            let name = utf8_percent_encode(&self.name, IN_A_PATH);
            let location = HeaderValue::try_from(format!("/admin/v1/{}/{name}", self.kind.list()));
            if let Ok(location) = location {
                response.headers_mut().insert(header::LOCATION, location);
            }
        }
        Ok(response)
    }
}

/// An answer with the tag of the object that it shows.
pub(super) fn tagged(object: &WrittenObject, body: &impl serde::Serialize) -> Response {
    let mut response = axum::Json(body).into_response();
    if let Ok(tag) = HeaderValue::try_from(etag(object)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
