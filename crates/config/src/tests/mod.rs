//! The whole way from text to a snapshot or to its problems.

mod caches;
mod export;
mod faults;
mod files;
mod hostile;
mod large;
mod limits;
mod names;
mod objects;
mod pages;
mod quota;
mod resilience;
mod secrets;
mod sound;
mod telemetry;
mod variables;
mod webhooks;

use base::KeyHasher;

use crate::{ConfigErrors, Loaded, Source, load};

fn hasher() -> KeyHasher {
    KeyHasher::new(&[7; 64])
}

/// Loads text with these variables set.
fn load_text(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, ConfigErrors> {
    let env = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    load(&Source::Text { name: "gateway.yaml".into(), text: text.into() }, &env, &hasher())
}

/// Loads text that must be sound.
fn sound(text: &str) -> Loaded {
    load_text(text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The problems of text that must not be sound, one a line.
fn problems(text: &str) -> String {
    load_text(text, &[]).expect_err("must not be sound").to_string()
}

/// The warnings of sound text, one a line.
fn warnings(text: &str) -> String {
    sound(text).warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Asserts that text has exactly these problems, as they are printed.
#[track_caller]
fn assert_problems(text: &str, expected: &str) {
    assert_eq!(problems(text), expected, "\n--- of ---\n{text}");
}
