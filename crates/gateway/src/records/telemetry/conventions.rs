//! OpenTelemetry's conventions, as far as spans and metrics share them: HTTP of semantic-conventions 1.42, and
//! generative AI of semantic-conventions-genai, in development.

use std::time::Duration;

use base::{Attempt, AttemptOutcome, Endpoint, Outcome, Record, Usage};

use super::otlp::Attributes;
use super::peers::Peer;

/// Which conventions names keep to; those of generative AI have no schema of their own yet.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.42.0";

/// Seconds, of `http.server.request.duration`.
pub const REQUEST_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Seconds, of `gen_ai.client.operation.duration` and `…time_to_first_chunk`.
pub const OPERATION_BOUNDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Tokens, of `gen_ai.client.token.usage`.
pub const TOKEN_BOUNDS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// `gen_ai.operation.name`; where the conventions have none for it, the endpoint's own word.
pub const fn operation(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Chat | Endpoint::Responses => "chat",
        Endpoint::Completions => "text_completion",
        Endpoint::Embeddings => "embeddings",
        Endpoint::Rerank => "rerank",
        Endpoint::Moderations => "moderation",
        Endpoint::AudioSpeech => "speech",
        Endpoint::AudioTranscriptions => "transcription",
        Endpoint::AudioTranslations => "translation",
        Endpoint::ImagesGenerations | Endpoint::ImagesEdits | Endpoint::ImagesVariations => "generate_content",
    }
}

/// `http.route`
pub fn route(tail: &str) -> String {
    format!("/v1/{tail}")
}

/// `http.response.status_code`: none for a caller who left before one was sent.
pub fn status(record: &Record) -> Option<u16> {
    Some(record.status).filter(|status| *status != base::CALLER_GONE)
}

/// `error.type` of a request that has failed by this side's fault; a caller's mistake is none (HTTP, "Status").
pub fn error(record: &Record) -> Option<&'static str> {
    let has_failed = record.status >= 500 || matches!(record.outcome, Outcome::UpstreamCut | Outcome::GatewayFailed);
    has_failed.then(|| record.outcome.as_str())
}

/// The try whose answer the caller has got: the last of the request's own that went well, or else the last.
pub fn winner(attempts: &[Attempt]) -> Option<&Attempt> {
    let own = || attempts.iter().rev().filter(|attempt| !attempt.is_anothers);
    own().find(|attempt| attempt.outcome == AttemptOutcome::Ok).or_else(|| own().next())
}

/// What each upstream used, by its label.
pub fn used(record: &Record) -> impl Iterator<Item = (&str, Usage)> {
    let answer = record.upstream.as_deref().zip(record.usage).filter(|_| record.spending.is_empty());
    let spent = record.spending.each().filter_map(|spent| Some((spent.upstream.as_deref()?, spent.usage)));
    answer.into_iter().chain(spent)
}

/// Puts down who is asked.
pub fn put_peer(attributes: &mut Attributes, peer: Option<&Peer>) {
    attributes
        .text("gen_ai.provider.name", peer.map(|peer| peer.system))
        .text("gen_ai.request.model", peer.map(|peer| &*peer.model))
        .text("server.address", peer.map(|peer| &*peer.address))
        .integer("server.port", peer.map(|peer| peer.port.into()));
}

/// From the Unix epoch, in nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
