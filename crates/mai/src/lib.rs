//! The command line of `mai-gateway` as a library: its help texts are its reference page.

pub mod args;
