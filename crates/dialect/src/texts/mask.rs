//! What is blanked in texts that are kept.

use regex::{Regex, RegexBuilder};

/// What stands in the place of what is blanked.
pub const BLANK: &str = "[masked]";
/// Patterns take no more memory than this once they are compiled, bytes each.
const PATTERN_MAX: usize = 1 << 20;

/// Keys as the usual services and this gateway make them, and whatever is sent as one.
const KEYS: &str = r"(?i)\bbearer\s+[a-z0-9._~+/=-]{6,}|\bsk-[a-z0-9_-]{6,}|\bmai-[a-z0-9_-]{32,}";

/// Patterns whose matches are blanked: keys, and what else is configured.
#[derive(Clone, Debug)]
pub struct Mask(Vec<Regex>);

impl Default for Mask {
    /// Keys alone.
    fn default() -> Self {
        Self(Regex::new(KEYS).into_iter().collect())
    }
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// Which one, counted from 0.
    pub at: usize,
    /// What is wrong with it, in one line.
    pub why: String,
}

impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(Regex::as_str).eq(other.0.iter().map(Regex::as_str))
    }
}

impl Mask {
    /// Compiles patterns.
    ///
    /// # Errors
    /// Every one that is none, or that matches an empty text: it would blank everything.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<BadPattern>> {
        let Self(mut good) = Self::default();
        let mut bad = Vec::new();
        for (at, pattern) in patterns.into_iter().enumerate() {
            match RegexBuilder::new(pattern).size_limit(PATTERN_MAX).build() {
                Ok(regex) if regex.is_match("") => {
                    bad.push(BadPattern {
                        at,
                        why: "it matches an empty text; make it match what is to be blanked".to_owned(),
                    });
                }
                Ok(regex) => good.push(regex),
                // Its lines draw the place; the last one says what is wrong.
                Err(error) => {
                    let why = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
                    bad.push(BadPattern { at, why });
                }
            }
        }
        if bad.is_empty() { Ok(Self(good)) } else { Err(bad) }
    }

    /// The text without these secrets, without keys, and without what the patterns match.
    #[must_use]
    pub fn blank<'a>(&self, mut text: String, secrets: impl Iterator<Item = &'a str>) -> String {
        for secret in secrets.filter(|secret| secret.len() >= SHORTEST) {
            if text.contains(secret) {
                text = text.replace(secret, BLANK);
            }
        }
        for pattern in &self.0 {
            if pattern.is_match(&text) {
                text = pattern.replace_all(&text, BLANK).into_owned();
            }
        }
        text
    }
}

/// A shorter secret is a word.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(mask: &Mask, text: &str) -> String {
        mask.blank(text.to_owned(), ["hunter2secret"].into_iter())
    }

    #[test]
    fn keys_are_blanked_whatever_is_configured() {
        let mask = Mask::default();
        assert_eq!(blanked(&mask, "use sk-proj-Ab12_34, please"), "use [masked], please");
        assert_eq!(blanked(&mask, "Authorization: Bearer eyJhbGciOi.J9"), "Authorization: [masked]");
        assert_eq!(blanked(&mask, "mai-Xy_-56789abcdef0123456789abcdef01 and hunter2secret"), "[masked] and [masked]");
        assert_eq!(blanked(&mask, "ask-me task-force mai-gateway"), "ask-me task-force mai-gateway");
    }

    #[test]
    fn patterns_blank_what_they_match() {
        let mask = Mask::new(["[a-z.]+@[a-z.]+", r"\d{4}-\d{4}"]).unwrap();
        assert_eq!(blanked(&mask, "anna@example.org has 1234-5678 你好"), "[masked] has [masked] 你好");
    }

    #[test]
    fn every_pattern_that_is_none_is_named() {
        let bad = Mask::new(["ok", "(", "x*"]).unwrap_err();
        assert_eq!(bad.iter().map(|bad| bad.at).collect::<Vec<_>>(), [1, 2]);
        assert!(bad.iter().all(|bad| !bad.why.is_empty() && !bad.why.contains('\n')));
    }
}
