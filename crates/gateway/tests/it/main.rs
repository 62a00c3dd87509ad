//! Stories: the whole gateway but its sockets, on a scripted network and a paused clock.
//!
//! `cfg(test)` says nothing new here, but tells the linter that helpers may unwrap as tests may.

#[cfg(test)]
mod batch_queue;
mod breakers;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod caches;
mod choice;
#[cfg(test)]
mod chunks;
#[cfg(test)]
mod decisions;
#[cfg(test)]
mod degrading;
#[cfg(test)]
mod drills;
#[cfg(test)]
mod embeddings;
#[cfg(test)]
mod exposition;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod flights;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod http;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod issued;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod leaving;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod main_job;
#[cfg(test)]
mod mirrors;
#[cfg(test)]
mod parameters;
#[cfg(test)]
mod passing;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod removals;
#[cfg(test)]
mod repeats;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod rerank;
#[cfg(test)]
mod semantic;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod spending;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod storms;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod unicode;
#[cfg(test)]
mod vectors;
#[cfg(test)]
mod waits;
#[cfg(test)]
mod webhooks;
