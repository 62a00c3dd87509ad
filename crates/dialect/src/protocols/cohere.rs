//! placeholder
use crate::{Answer, Ask, Decode, Dialect, Encoded, Place, Progress, Refused, Target};
use base::{Code, Endpoint, Fault, Kind, Refusal};
use bytes::Bytes;

/// placeholder
#[derive(Debug)]
pub struct Cohere;
impl Dialect for Cohere {
    fn speaks(&self, _: Endpoint) -> bool {
        true
    }
    fn path(&self, base: &str, place: &Place<'_>) -> Result<String, String> {
        Ok(format!("{}/{}", base.trim_end_matches('/'), place.endpoint.tail()))
    }
    fn encode(&self, _: &Ask, _: &Target<'_>) -> Result<Encoded, Refusal> {
        Err(Refusal::new(Code::InternalError, "placeholder"))
    }
    fn answer(&self, _: &Ask, _: &Target<'_>, _: &http::HeaderMap, _: Bytes) -> Result<Answer, Fault> {
        Err(Fault::upstream(Kind::BadResponse, "placeholder"))
    }
    fn fault(&self, _: &Ask, _: &Refused<'_>) -> Fault {
        Fault::upstream(Kind::Status, "placeholder")
    }
    fn decoder(&self, _: &Ask, _: &Target<'_>) -> Box<dyn Decode> {
        Box::new(Nothing(Progress::default()))
    }
}
struct Nothing(Progress);
impl Decode for Nothing {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        chunk
    }
    fn finish(&mut self) -> Bytes {
        Bytes::new()
    }
    fn progress(&self) -> &Progress {
        &self.0
    }
}
