//! What is written down of calls that have ended: metrics, the access log, traces, and texts where they are kept.

pub mod access_log;
pub mod content;
pub mod metrics;
pub mod pending;
pub mod repeats;
pub mod telemetry;
