//! Configuration: what was written, and what it means.
//!
//! A configuration passes through four forms:
//!
//! 1. text, in one file or a folder of them ([`Source`]);
//! 2. a tree of values that remember where they stand, variables filled in;
//! 3. the same tree, held against the table of keys: unknown keys, wrong forms, missing values;
//! 4. the [`Snapshot`], compiled and immutable, which is all that the gateway ever sees.
//!
//! [`load`] goes all the way and collects every problem on it. [`Files`] stop behind the second form, so that objects of
//! the admin API can be put to them ([`Files::with`]), today's and tomorrow's. The table of keys also yields the JSON
//! Schema ([`schema`]) and the reference page ([`reference_markdown`]).

mod added;
mod address;
mod caching;
mod callers;
mod check;
mod compile;
mod destination;
mod disk;
mod export;
mod files;
mod list;
mod node;
mod objects;
mod pieces;
mod problem;
mod reference;
mod scalar;
mod schema;
mod secrets;
mod shape;
mod shown;
mod snapshot;
mod sources;
mod table;
mod telemetry;
mod twin;
mod units;
mod unmask;
mod variables;
mod view;
mod webhook;
mod whole;
mod written;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use base::{KeyHasher, Secret};

pub use added::{Added, ClientKey};
pub use caching::{CacheBounds, CacheMode, CacheScope, Caching, MultiTurn, Overruled, Semantic, Verify};
pub use callers::{Callers, Comers};
pub use destination::Destination;
pub use disk::{Disk, unreadable};
pub use export::as_yaml;
pub use files::Files;
pub use list::{List, Walk};
pub use objects::says_the_same;
pub use pieces::{Piece, Pieces, pieces};
pub use problem::{BUILT_IN, ConfigErrors, Place, Problem, not_changed_here, place_of};
pub use reference::reference_markdown;
pub use schema::schema;
pub use snapshot::*;
pub use sources::Source;
pub use telemetry::Telemetry;
pub use units::{duration, is_too_long};
pub use unmask::unmask;
pub use webhook::{Occasion, SigningKey, Webhook};
pub use whole::Whole;
pub use written::{Home, MASKED, Written, WrittenObject};

/// Settings that beat the file: flags, and the environment where no flag was given.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--listen`, `MAI_LISTEN`
    pub listen: Option<String>,
    /// `--admin-listen`, `MAI_ADMIN_LISTEN`
    pub admin_listen: Option<String>,
    /// `--data-dir`, `MAI_DATA_DIR`
    pub data_dir: Option<String>,
    /// `--log-level`, `MAI_LOG_LEVEL`
    pub log_level: Option<String>,
    /// `MAI_ADMIN_TOKEN`: one more admin token, of role admin.
    pub admin_token: Option<Secret>,
}

impl Overrides {
    /// Fills what no flag gave from the environment. A variable that is set to nothing counts as
    /// not set.
    #[must_use]
    pub fn or_env(self, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let env = |name| env(name).filter(|value| !value.is_empty());
        Self {
            listen: self.listen.or_else(|| env("MAI_LISTEN")),
            admin_listen: self.admin_listen.or_else(|| env("MAI_ADMIN_LISTEN")),
            data_dir: self.data_dir.or_else(|| env("MAI_DATA_DIR")),
            log_level: self.log_level.or_else(|| env("MAI_LOG_LEVEL")),
            admin_token: self.admin_token.or_else(|| env("MAI_ADMIN_TOKEN").map(Secret::new)),
        }
    }
}

/// A sound configuration.
#[derive(Debug)]
pub struct Loaded {
    /// What it means.
    pub snapshot: Snapshot,
    /// What it is well to know: above all, keys that are not in force in this version.
    pub warnings: Vec<Problem>,
    /// Every file and folder to watch, certificates and the like included.
    pub files: Vec<PathBuf>,
    /// The files as they were read, with what they name: a sound state of them.
    pub sound: Files,
    /// Everything that was written, secrets and all.
    pub whole: Whole,
}

/// Loads a configuration; the environment overrides what [`Overrides`] says it does.
///
/// # Errors
/// Every problem at once.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>, keys: &KeyHasher) -> Result<Loaded, ConfigErrors> {
    load_with(source, Overrides::default(), env, keys)
}

/// Loads a configuration under the flags of the command line, which beat the environment.
///
/// # Errors
/// Every problem at once.
pub fn load_with(
    source: &Source,
    flags: Overrides,
    env: &dyn Fn(&str) -> Option<String>,
    keys: &KeyHasher,
) -> Result<Loaded, ConfigErrors> {
    Files::read(source, flags, env)?.with(Added::default(), keys)
}

/// The one line that `check` prints for a sound configuration.
#[must_use]
pub fn summary(snapshot: &Snapshot) -> String {
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut line = format!(
        "sound: {}, {}, {}",
        count(snapshot.providers.len(), "provider"),
        count(snapshot.routes.len(), "route"),
        count(snapshot.clients.len(), "client")
    );
    if !snapshot.not_in_force.is_empty() {
        line.push_str(&format!("; {} not in force yet", count(snapshot.not_in_force.len(), "key")));
    }
    line
}

/// In the order of the text, and no more than a person reads.
fn errors(mut problems: Vec<Problem>, files: Vec<PathBuf>) -> ConfigErrors {
    sort(&mut problems);
    // A variable that is not set is told once, and not again as the number that it is not.
    problems.dedup_by(|later, first| later.place == first.place && later.path == first.path);
    if problems.len() > check::MOST_PROBLEMS {
        problems.truncate(check::MOST_PROBLEMS);
        let place = problems.last().map_or_else(|| Place::whole(""), |last| last.place.clone());
        problems.push(Problem::new(&place, "", "there are more problems; mend these first"));
    }
    ConfigErrors { problems, files }
}

fn sort(problems: &mut [Problem]) {
    problems.sort_by(|a, b| {
        (&a.place.file, a.place.line, a.place.column).cmp(&(&b.place.file, b.place.line, b.place.column))
    });
}
