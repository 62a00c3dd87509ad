//! The head of an answer: a value while it comes about, a map of headers once it is written.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{ATTEMPTS, CACHE, CACHE_ID, OVERHEAD, REQUEST_ID, REQUESTS_LEFT, ROUTE, TOKENS_LEFT, UPSTREAM};

/// What an answer's head says beside what the trail knows.
#[derive(Debug)]
pub struct AnswerHead {
    pub(crate) upstream: Option<HeaderValue>,
    pub(crate) content_type: HeaderValue,
    pub(crate) more: Vec<(HeaderName, HeaderValue)>,
}

impl AnswerHead {
    /// That of an answer which is the gateway's own.
    #[must_use]
    pub const fn of(content_type: HeaderValue) -> Self {
        Self { upstream: None, content_type, more: Vec::new() }
    }

    /// That of an upstream's answer.
    #[must_use]
    pub fn by(self, upstream: HeaderValue) -> Self {
        Self { upstream: Some(upstream), ..self }
    }

    /// One header more; a name that stands there already is replaced.
    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.more.push((name, value));
    }
}

/// Which groups of headers come together in a head, in the order of [`in_groups`].
pub type Groups = [bool; 5];

/// Headers that stand in every head, and come first.
const ALWAYS: [HeaderName; 3] = [header::CONTENT_TYPE, REQUEST_ID, OVERHEAD];

/// Headers that come together, or not at all.
fn in_groups() -> [Vec<HeaderName>; 5] {
    let [requests, tokens] = [REQUESTS_LEFT, TOKENS_LEFT].map(Vec::from);
    [vec![UPSTREAM], vec![ROUTE, ATTEMPTS], vec![CACHE, CACHE_ID], requests, tokens]
}

/// The names of a head with these groups.
fn names(groups: Groups) -> impl Iterator<Item = HeaderName> {
    let there = in_groups().into_iter().zip(groups).filter(|(_, is_there)| *is_there);
    ALWAYS.into_iter().chain(there.flat_map(|(names, _)| names))
}

/// Heads with names in place and no values: one for each set of groups of headers.
///
/// A name that is put into a map is hashed letter by letter, and its place looked for, which costs more than all else
/// that is done for a header. A copy of a map costs neither.
#[derive(Debug)]
pub struct Blanks([HeaderMap; 32]);

impl Default for Blanks {
    fn default() -> Self {
        Self(std::array::from_fn(|which| {
            let groups = std::array::from_fn(|at| which >> at & 1 == 1);
            names(groups).map(|name| (name, HeaderValue::from_static(""))).collect()
        }))
    }
}

impl Blanks {
    /// A head whose values are to be put in with `values_mut`: those of every head, then those of the groups.
    #[must_use]
    pub fn copy(&self, groups: Groups) -> HeaderMap {
        let which = groups.iter().rev().fold(0, |which, is_there| which << 1 | usize::from(*is_there));
        self.0.get(which).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(which: usize) -> Groups {
        std::array::from_fn(|at| which >> at & 1 == 1)
    }

    #[test]
    fn values_that_are_put_in_one_after_the_other_stand_beneath_their_names() {
        let blanks = Blanks::default();
        for groups in (0..32).map(groups) {
            let mut headers = blanks.copy(groups);
            let names: Vec<_> = names(groups).collect();
            assert_eq!(headers.len(), names.len());
            for (value, name) in headers.values_mut().zip(&names) {
                *value = HeaderValue::from_str(name.as_str()).unwrap();
            }
            assert!(names.iter().all(|name| headers.get(name).unwrap() == name.as_str()), "{groups:?}");
        }
    }

    #[test]
    fn what_is_put_into_one_head_is_not_in_the_next() {
        let blanks = Blanks::default();
        let mut first = blanks.copy(groups(31));
        first.values_mut().for_each(|value| *value = HeaderValue::from_static("of the first"));
        assert!(blanks.copy(groups(31)).values().all(HeaderValue::is_empty));
    }
}
