//! The crate as its users see it: bytes in, bytes out.
//!
//! `cfg(test)` says nothing new here, but tells the linter that helpers may unwrap as tests may.

#[cfg(test)]
mod embeddings;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod ollama;
#[cfg(test)]
mod rerank;
#[cfg(test)]
mod support;
#[cfg(test)]
mod whole;
