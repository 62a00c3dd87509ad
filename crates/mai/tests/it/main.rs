//! The program as operators and callers meet it: the real binary, real sockets, real signals.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap here is a failed test")]

mod caches;
mod calibrate;
mod commands;
mod desk;
mod drain;
mod hostile;
mod http;
mod keys;
mod leaks;
mod levers;
mod limits;
mod names;
mod objects;
mod operating;
mod ports;
mod probes;
mod process;
mod program;
mod records;
mod reload;
mod scarcity;
mod tls;
mod usage;
mod webhooks;
mod zero;
