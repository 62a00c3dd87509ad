//! `check` and `schema`, and where a configuration is looked for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base::KeyHasher;
use config::{Loaded, Source};

use crate::{BAD_CONFIG, CLEAN, complain, say};
use mai::args::ConfigAt;

/// Where a configuration is looked for when nobody names one.
const USUAL: &str = "/etc/mai-gateway";

/// The environment, as the configuration sees it.
#[expect(clippy::disallowed_methods, reason = "the binary's one reading of the environment")]
pub fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The path that was named, or the usual one where something is there.
#[must_use]
pub fn source(at: &ConfigAt) -> Option<Source> {
    let usual = || Path::new(USUAL).exists().then(|| PathBuf::from(USUAL));
    // A variable that is set to nothing counts as not set.
    at.config.clone().filter(|path| !path.as_os_str().is_empty()).or_else(usual).map(Source::Path)
}

/// That there is none, and what to do.
pub fn none() -> String {
    format!("no configuration: name one with --config PATH or MAI_CONFIG, or put one into {USUAL}")
}

fn shown(source: &Source) -> String {
    match source {
        Source::Path(path) => path.display().to_string(),
        Source::Text { name, .. } => name.clone(),
    }
}

/// `mai-gateway check`
pub fn check(at: &ConfigAt) -> ExitCode {
    let Some(source) = source(at) else {
        complain(none());
        return BAD_CONFIG.into();
    };
    match config::load(&source, &env, &KeyHasher::new(&[0; 64])) {
        Ok(Loaded { snapshot, warnings, .. }) => {
            // Sound in form is not yet usable: the certificate and its key must fit.
            if let Some(Err(problem)) = snapshot.general.tls.as_ref().map(gateway::net::server_config) {
                say(format!("{}: {problem}", shown(&source)));
                return BAD_CONFIG.into();
            }
            for warning in warnings {
                complain(format!("{warning}"));
            }
            say(config::summary(&snapshot));
            CLEAN.into()
        }
        Err(errors) => {
            for problem in errors.problems {
                say(problem.to_string());
            }
            BAD_CONFIG.into()
        }
    }
}

/// `mai-gateway schema`
pub fn schema() -> ExitCode {
    say(config::schema().trim_end());
    CLEAN.into()
}
