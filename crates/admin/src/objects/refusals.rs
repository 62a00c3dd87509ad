//! Why objects were not changed, for the caller.

use std::collections::BTreeSet;

use base::ObjectKind;
use config::{Problem, not_changed_here};

use super::path;
use crate::configuring::{Expected, NotChanged};
use crate::error::{Error, Store, Told};

/// Objects that are named in one message at most; all of them stand in the problems.
const MOST_NAMED: usize = 10;

/// Why a change was not made, for the caller.
pub(crate) fn refused(why: NotChanged, kind: ObjectKind, name: &str) -> Error {
    let word = kind.word();
    match why {
        NotChanged::InFile(place) => {
            Error::ManagedByFile(not_changed_here(&format!("the {word} `{name}`"), &place, "change it there"))
        }
        NotChanged::Unexpected(Expected::Absent) => {
            Error::AlreadyExists(format!("there is a {word} `{name}` already; PUT replaces it"))
        }
        NotChanged::Unexpected(Expected::Present) => absent(kind, name),
        NotChanged::Unexpected(_) => changed_since(kind, name),
        NotChanged::Unsound(problems) => Error::InvalidConfig {
            message: "the configuration that would come of it is not sound; nothing has changed".to_owned(),
            problems: problems.iter().map(Told::from).collect(),
        },
        NotChanged::Unkept(why) => {
            Error::Unavailable(Store::Objects, format!("nothing has changed, for it cannot be kept: {why}"))
        }
        NotChanged::Unknown(why) => Error::Unavailable(
            Store::Objects,
            format!("whether this was kept is not known; it comes into force where it was, so read it again: {why}"),
        ),
    }
}

pub(crate) fn absent(kind: ObjectKind, name: &str) -> Error {
    Error::NotFound(format!("there is no {} `{name}`", kind.word()))
}

pub(super) fn changed_since(kind: ObjectKind, name: &str) -> Error {
    Error::PreconditionFailed(format!(
        "the {} `{name}` has been changed since: read it again, and make the change to what it says now",
        kind.word()
    ))
}

/// Why an object is not removed: others name it.
pub(super) fn in_use(kind: ObjectKind, name: &str, problems: &[Problem]) -> Error {
    let user = |problem: &Problem| problem.object.as_deref().map(|(kind, name)| path(*kind, name));
    let users: BTreeSet<String> = problems.iter().filter_map(user).collect();
    if users.is_empty() {
        return refused(NotChanged::Unsound(problems.to_vec()), kind, name);
    }
    let word = kind.word();
    let mut named: Vec<String> = users.iter().take(MOST_NAMED).map(|user| format!("`{user}`")).collect();
    if let more @ 1.. = users.len().saturating_sub(MOST_NAMED) {
        named.push(format!("{more} more"));
    }
    let needs = format!("still needs the {word} `{name}`: name another one here, or remove this");
    let told = |problem: &Problem| {
        let told = Told::from(problem);
        if problem.is_of_a_missing(kind, name) { Told { message: needs.clone(), ..told } } else { told }
    };
    Error::InvalidConfig {
        message: format!(
            "the {word} `{name}` is in use: {} would not be sound without it. Change or remove those first; nothing has \
             changed",
            named.join(", ")
        ),
        problems: problems.iter().map(told).collect(),
    }
}
