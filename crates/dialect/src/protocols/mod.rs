//! One file a provider protocol.
pub mod azure;
pub mod cohere;
pub mod jina;
pub mod ollama;
pub mod openai;
mod shared;
pub mod tei;
pub mod voyage;
