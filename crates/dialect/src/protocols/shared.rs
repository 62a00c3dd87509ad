//! What the small protocols have in common: paths, and no streams.

use base::{Code, Endpoint, Fault, Kind, Refusal};
use bytes::Bytes;

use crate::{Decode, Progress};

/// A base URL's path and query taken apart.
#[derive(Debug)]
pub(super) struct Base<'a> {
    segments: Vec<&'a str>,
    query: Option<&'a str>,
}

impl<'a> Base<'a> {
    /// Takes a base apart: doubled and trailing slashes vanish, and so does the path of one of the
    /// protocol's `own` endpoints where somebody wrote the whole URL.
    ///
    /// # Errors
    /// A sentence about characters that no URL may hold.
    pub(super) fn of(base: &'a str, own: &[&str]) -> Result<Self, String> {
        if let Some(odd) = base.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("the base URL holds {odd:?}; write it percent-encoded"));
        }
        let base = base.split('#').next().unwrap_or_default();
        let (path, query) = base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
        let segments = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let mut base = Self { segments, query: query.filter(|query| !query.is_empty()) };
        let _ = base.without(own);
        Ok(base)
    }

    /// Takes the last segment away where it is one of these, and says which it was.
    pub(super) fn without(&mut self, last: &[&str]) -> Option<&'a str> {
        self.segments.pop_if(|segment| last.contains(segment))
    }

    /// The path with `tail` behind it, and the query.
    pub(super) fn join(&self, tail: &str) -> String {
        let mut path = String::new();
        for segment in self.segments.iter().copied().chain([tail]) {
            path.push('/');
            path.push_str(segment);
        }
        if let Some(query) = self.query {
            path.push('?');
            path.push_str(query);
        }
        path
    }
}

/// The sentence for `check` about an endpoint that a protocol does not have.
pub(super) fn no_endpoint(protocol: &str, endpoint: Endpoint) -> String {
    format!("the protocol '{protocol}' has no '{}'; use another protocol for this route", endpoint.tail())
}

/// The same for a caller. Configurations that pass `check` never get here.
pub(super) fn cannot_say(protocol: &str, endpoint: Endpoint) -> Refusal {
    Refusal::new(Code::InvalidRequest, no_endpoint(protocol, endpoint))
}

/// A fault of the same kind.
pub(super) fn cannot_answer(protocol: &str, endpoint: Endpoint) -> Fault {
    Fault::upstream(Kind::BadResponse, no_endpoint(protocol, endpoint))
}

/// The reader of protocols without streams: whatever comes is not theirs.
#[derive(Debug, Default)]
pub(super) struct NoStream(Progress);

impl Decode for NoStream {
    fn feed(&mut self, _: Bytes) -> Bytes {
        self.0.fault.get_or_insert_with(|| Fault::upstream(Kind::BadResponse, "this protocol has no streams"));
        Bytes::new()
    }

    fn finish(&mut self) -> Bytes {
        self.feed(Bytes::new())
    }

    fn progress(&self) -> &Progress {
        &self.0
    }
}
