//! Which state of a thing somebody has seen, and which one a change is meant for (RFC 9110, sections 8.8.3 and 13.1).

use std::hash::Hasher as _;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use config::{Home, WrittenObject};

use crate::error::Error;

/// The tag of an object as it is now: its revision, or for one of a file what it says as a number.
#[must_use]
pub fn etag(object: &WrittenObject) -> String {
    match &object.home {
        Home::Admin { revision, .. } => format!("\"{revision}\""),
        Home::File(_) => {
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(object.shown.to_string().as_bytes());
            format!("\"file-{:016x}\"", hasher.finish())
        }
    }
}

/// What a caller asks to be true before anything is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`
    matches: Option<Tags>,
    /// `If-None-Match`
    matches_none: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: whatever there is.
    Any,
    /// Some, each with its quotes, weak ones left out where they cannot match.
    These(Vec<String>),
}

impl Tags {
    fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, Error> {
        let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
        let wrong =
            || Error::of(name.as_str(), format!("`{name}` must be `*`, or tags in quotes as `etag` gives them"));
        let written = lines.map_err(|_| wrong())?.join(",");
        let words: Vec<&str> = written.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return Ok(None);
        }
        if words == ["*"] {
            return Ok(Some(Self::Any));
        }
        let is_tag = |word: &&str| {
            let tag = word.strip_prefix("W/").unwrap_or(word);
            tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')
        };
        if !words.iter().all(is_tag) {
            return Err(wrong());
        }
        Ok(Some(Self::These(words.into_iter().map(str::to_owned).collect())))
    }

    /// Whether one of them is that of what is there. `is_weak` also takes those marked as weak.
    fn contain(&self, current: Option<&str>, is_weak: bool) -> bool {
        let Some(current) = current else { return false };
        let same = |tag: &String| tag == current || (is_weak && tag.strip_prefix("W/") == Some(current));
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(same),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        Ok(Self {
            matches: Tags::of(&parts.headers, &header::IF_MATCH)?,
            matches_none: Tags::of(&parts.headers, &header::IF_NONE_MATCH)?,
        })
    }
}

impl Conditions {
    /// Whether a change may be made to what is there with this tag, if anything is.
    ///
    /// # Errors
    /// 412.
    pub fn allow(&self, current: Option<&str>) -> Result<(), Error> {
        let failed = |why: &str| Err(Error::PreconditionFailed(why.to_owned()));
        if self.matches.as_ref().is_some_and(|tags| !tags.contain(current, false)) {
            return failed(match current {
                Some(_) => "it has been changed since: read it again, and make the change to what it says now",
                None => "there is nothing of this name to change",
            });
        }
        if self.matches_none.as_ref().is_some_and(|tags| tags.contain(current, true)) {
            return failed("it is there already");
        }
        Ok(())
    }

    /// Whether a change is meant for one state alone, so that another one made meanwhile forbids it.
    #[must_use]
    pub const fn are_some(&self) -> bool {
        self.matches.is_some() || self.matches_none.is_some()
    }

    /// Whether whatever is there may be changed, as long as something is: `If-Match: *`, and nothing else.
    #[must_use]
    pub fn want_any(&self) -> bool {
        self.matches == Some(Tags::Any) && self.matches_none.is_none()
    }

    /// Whether whoever reads knows what is there with this tag.
    #[must_use]
    pub fn know(&self, current: &str) -> bool {
        self.matches_none.as_ref().is_some_and(|tags| tags.contain(Some(current), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(written: &[(&str, &str)]) -> Result<Conditions, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in written {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        Ok(Conditions {
            matches: Tags::of(&headers, &header::IF_MATCH)?,
            matches_none: Tags::of(&headers, &header::IF_NONE_MATCH)?,
        })
    }

    #[test]
    fn a_change_is_made_to_the_state_that_it_is_meant_for() {
        let may = |written: &[(&str, &str)], current| conditions(written).unwrap().allow(current).is_ok();
        for (name, value, there, other, none) in [
            ("if-match", "\"3\"", true, false, false),
            ("if-match", "\"1\", \"3\"", true, false, false),
            ("if-match", "*", true, true, false),
            ("if-match", "W/\"3\"", false, false, false),
            ("if-none-match", "*", false, false, true),
            ("if-none-match", "W/\"3\"", false, true, true),
        ] {
            let seen = [Some("\"3\""), Some("\"4\""), None].map(|current| may(&[(name, value)], current));
            assert_eq!(seen, [there, other, none], "{name}: {value}");
        }
        assert!(may(&[], None) && may(&[], Some("\"3\"")));
        assert!(may(&[("if-match", "\"1\""), ("if-match", "\"3\"")], Some("\"3\"")), "two lines are one list");
    }

    #[test]
    fn a_tag_without_quotes_is_a_mistake_and_no_condition_that_fails() {
        for wrong in ["3", "\"3", "*, \"3\""] {
            assert!(matches!(conditions(&[("if-match", wrong)]), Err(Error::Invalid { .. })), "{wrong}");
        }
    }
}
