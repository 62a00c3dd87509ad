//! One file a provider protocol.
pub mod azure;
mod base_url;
pub mod cohere;
pub mod jina;
pub mod ollama;
pub mod openai;
mod shared;
pub mod tei;
pub mod voyage;
