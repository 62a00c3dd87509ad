//! The operator's log on standard error, and the mask before it.
//!
//! No part of the gateway puts a credential into a log line. The mask is the second lock: whatever
//! a line holds, known secrets and what looks like a bearer token are blotted out before it is
//! written.

use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use base::Secret;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Registry, fmt, reload};

/// Secrets that are in use now.
#[derive(Clone, Debug, Default)]
pub struct Mask(Arc<RwLock<Vec<Secret>>>);

impl Mask {
    /// Replaces the set: what a configuration holds of keys, tokens and credentials in plain text.
    /// Callers' keys are not among them: only their hashes are kept.
    pub fn set<'a>(&self, secrets: impl Iterator<Item = &'a str>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = secrets.map(Secret::new).collect();
    }

    /// The text without them.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<&str> = secrets.iter().map(Secret::expose).filter(|secret| secret.len() >= 4).collect();
        let mut out = dialect::errors::scrub(text, &known, &[]);
        drop(secrets);
        blot_bearers(&mut out);
        out
    }
}

/// Blots out what follows the word `bearer`.
fn blot_bearers(text: &mut String) {
    const WORD: &str = "bearer ";
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.to_ascii_lowercase().find(WORD)) {
        let start = from + at + WORD.len();
        let length = text
            .get(start..)
            .map_or(0, |rest| rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len()));
        text.replace_range(start..start + length, "[secret]");
        from = start;
    }
}

#[derive(Clone, Debug)]
struct Sink(Mask);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let masked = self.0.apply(&String::from_utf8_lossy(bytes));
        io::stderr().lock().write_all(masked.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// How much is logged; a reload may change it.
pub struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// `level` is error, warn, info, debug or trace.
    pub fn set(&self, level: &str) {
        // The subscriber lives as long as the process, so this cannot fail.
        let _ = self.0.reload(filter(level));
    }
}

fn filter(level: &str) -> LevelFilter {
    level.parse().unwrap_or(LevelFilter::INFO)
}

/// Starts the log. `level` is error, warn, info, debug or trace.
pub fn start(level: &str, mask: Mask) -> Level {
    let (level, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer().with_ansi(false).with_target(false).with_writer(Sink(mask));
    // A second start, as in tests, keeps the first.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(level).with(lines));
    Level(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_and_bearer_tokens_are_blotted_out() {
        let mask = Mask::default();
        mask.set(["sk-provider-1"].into_iter());
        let text = mask.apply("key sk-provider-1 and Authorization: Bearer abc.def, done");
        assert!(!text.contains("sk-provider-1") && !text.contains("abc.def"), "{text}");
        assert!(text.ends_with("done"));
    }
}
