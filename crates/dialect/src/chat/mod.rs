//! What generates text, in OpenAI's form: chat completions, legacy completions, responses.
//!
//! Requests are patched, whole answers are judged and stay the bytes that came, streams are read
//! chunk by chunk and passed on as slices.

mod answer;
mod choices;
mod chunks;
pub mod images;
pub mod prompt;
mod request;
mod shape;
mod typed;
pub mod usage;
mod whole;

pub use answer::{answer, pass};
pub use chunks::Chunks;
pub use request::encode;
pub use typed::Typed;

use base::Fault;

use crate::errors;
use crate::json::Value;

/// Finish reasons that stand for a failure of the upstream: Mistral and OpenRouter, DeepSeek,
/// Zhipu.
const FAILED: &[&str] = &["error", "insufficient_system_resource", "network_error"];

/// The fault behind a finish reason that is none.
fn failed_finish(reason: Value<'_>) -> Option<Fault> {
    let reason = reason.as_escaped()?;
    FAILED
        .contains(&reason)
        .then(|| errors::bad_response(format!("the upstream gave up its answer: finish_reason is '{reason}'")))
}

#[cfg(test)]
mod tests;
