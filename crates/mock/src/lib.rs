//! The scripted upstream behind `mai-gateway mock`, demos and tests.
//!
//! Without a scenario it is a pleasant server: chat and completions in OpenAI's form that stream
//! word by word, embeddings whose nearness follows the texts', rerank in the forms of Cohere, Jina,
//! Voyage and TEI, and Ollama's own chat and embeddings. A [`Scenario`] makes it fail in all the ways
//! that model servers do, to the byte. `README.md` beside this crate documents the format.
//!
//! HTTP/1.1 is spoken by hand here, not through a library: a mock must be able to say what no sound
//! server says, in exactly the writes it was told.

mod answer;
mod coding;
mod link;
mod listen;
mod log;
mod playbook;
mod reply;
mod request;
mod scenario;
mod serve;
mod take;
mod units;
mod words;
mod written;
mod yaml;

/// The most numbers that a vector has.
pub const MAX_DIMENSIONS: usize = 65_536;

pub use answer::Strict;
pub use link::Link;
pub use listen::Running;
pub use log::{Call, End, Log};
pub use reply::{At, Body, Coding, Cut, Due, Framing, How, Knobs, Latency, Reply, Slices, Step, Vectors, sse_event};
pub use request::Request;
pub use scenario::{Limit, Rule, Scenario, ScenarioError, When, Window};
pub use serve::Mock;
