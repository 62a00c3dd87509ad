//! Stories: the whole gateway but its sockets, on a scripted network and a paused clock.

mod chunks;
mod embeddings;
mod main_job;
mod parameters;
mod rerank;
mod stage;
mod streams;
