//! What story tests are made of; never in a release.
//!
//! | piece | for |
//! | --- | --- |
//! | [`Wire`] | a network inside the process: named hosts, each a scripted [`mock`], no sockets |
//! | [`Script`] | what a host does, call by call |
//! | [`Caller`] | a client that sees every byte, every event and how a connection ends |
//! | [`chat`], [`embeddings`], [`rerank`] | requests that read like sentences |
//! | [`sse`] | events taken apart for assertions |
//! | [`Storm`] | seeded chance, one paused clock a seed |
//!
//! ```
//! use std::time::Duration;
//! use testkit::{Caller, Reply, Script, Wire, chat};
//!
//! testkit::story(async {
//!     let net = Wire::new();
//!     let a = net.host("a:80", Script::new().on_call(1, Reply::status(503)).then(Reply::say(["Hel", "lo"])));
//!     let mut caller = Caller::on(net.connect("a:80").await.unwrap());
//!     assert_eq!(caller.ask(&chat("rag-chat").user("Hi")).await.status, 503);
//!     assert_eq!(caller.ask(&chat("rag-chat").user("Hi").stream()).await.said(), "Hello");
//!     assert_eq!(a.calls().len(), 2);
//! });
//! ```
#![expect(clippy::panic, clippy::expect_used, reason = "a failed expectation here is a failed test")]

mod ask;
mod caller;
mod pipe;
pub mod sse;
mod storm;
mod wire;

pub use ask::{Ask, chat, embeddings, get, rerank};
pub use caller::{Answer, Caller, Ended};
pub use mock::{At, Body, Call, End, How, Knobs, Latency, Log, Reply, Request, Rule, Scenario, Step, Strict, When};
pub use pipe::{Stream, pair};
pub use storm::{Storm, storms, story};
pub use wire::{Door, Host, Script, Wire};
