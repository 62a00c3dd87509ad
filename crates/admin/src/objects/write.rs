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

use super::{Changing, Made, Outcome, Shown, WouldBe, absent, path, refused};
use crate::caller::{Caller, Operator};
use crate::configuring::{Changed, Expected, NotChanged, Wish};
use crate::deeds::Done;
use crate::desk::Desk;
use crate::error::{Error, Told};
use crate::etag::{Conditions, etag};
use crate::extract::Query;

/// What stays as it is in a path (RFC 3986, section 2.3).
const IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How often a change is tried anew that others came before, where nobody said which state it is meant for.
const TRIES: usize = 5;

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
        let mut tries = 0;
        loop {
            let written = desk.configuring.written();
            let current = written.object(self.kind, &self.name);
            let (expected, would) = self.plan(current)?;
            let done = Done {
                action: would,
                object: path(self.kind, &self.name),
                before: current.map(|current| current.shown.clone()),
                after: None,
            };
            let wish =
                Wish { changes: vec![(expected, self.change())], deed: done.by(caller), dry_run: self.how.is_dry };
            tries += 1;
            match desk.configuring.change(wish).await {
                Ok(changed) => return self.answer(would, current, &changed),
                // Somebody was faster. What is asked for is asked for still.
                Err(NotChanged::Unexpected(_)) if !self.is_particular() && tries < TRIES => {}
                Err(why) => return Err(refused(why, self.kind, &self.name)),
            }
        }
    }

    /// Whether it is meant for one state alone.
    const fn is_particular(&self) -> bool {
        self.is_new || self.how.conditions.are_some()
    }

    /// What must be true, and what is done then.
    fn plan(&self, current: Option<&WrittenObject>) -> Result<(Expected, &'static str), Error> {
        if let Some(WrittenObject { home: Home::File(place), .. }) = current {
            return Err(refused(NotChanged::InFile(place.clone()), self.kind, &self.name));
        }
        if self.text.is_none() && current.is_none() {
            return Err(absent(self.kind, &self.name));
        }
        if self.is_new && current.is_some() {
            return Err(refused(NotChanged::Unexpected(Expected::Absent), self.kind, &self.name));
        }
        self.how.conditions.allow(current.map(etag).as_deref())?;
        let expected = match current.map(|current| &current.home) {
            Some(Home::Admin { revision, .. }) => Expected::Revision(*revision),
            _ => Expected::Absent,
        };
        let would = match (&self.text, current) {
            (None, _) => "delete",
            (Some(_), Some(_)) => "replace",
            (Some(_), None) => "create",
        };
        Ok((expected, would))
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

    fn answer(
        &self,
        would: &'static str,
        before: Option<&WrittenObject>,
        changed: &Changed,
    ) -> Result<Response, Error> {
        let warnings: Vec<Told> = changed.warnings.iter().map(Told::from).collect();
        let now = changed.written.object(self.kind, &self.name);
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
