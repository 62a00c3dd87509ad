//! The whole way from text to a snapshot or to its problems.

mod sound;

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
#[expect(dead_code, reason = "soon")]
fn problems(text: &str) -> String {
    load_text(text, &[]).expect_err("must not be sound").to_string()
}
