//! What the small protocols have in common: endpoints that they lack, and no streams.

use base::{Code, Endpoint, Fault, Kind, Refusal};
use bytes::Bytes;

use crate::{Decode, Progress};

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
