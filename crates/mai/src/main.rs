//! `mai-gateway`: the commands. Nothing is decided here; each command picks its parts and runs them.

mod breakers;
mod cache;
mod calibrate;
mod check;
mod configuration;
mod descriptors;
mod explain;
mod files;
mod holdings;
mod keys;
mod listen;
mod logging;
mod memory;
mod misuse;
mod mocking;
mod objects;
mod reload;
mod remote;
mod requests;
mod run;
mod shared;
mod table;
mod usage;
mod watched;
mod when;
mod zero;

use std::process::ExitCode;

use base::ObjectKind;
use clap::Parser as _;
use mai::args;
use remote::Trouble;
use serde_json::Value;

// Without huge pages (`no_thp`): each thread's first small allocations would fill two megabytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return misuse::told(&error),
    };
    match args.command {
        args::Command::Serve(flags) => run::serve(flags),
        args::Command::Check(at) => check::check(&at),
        args::Command::Schema => check::schema(),
        args::Command::Explain(flags) => explain::explain(&flags),
        args::Command::Usage(flags) => ended(usage::usage(&flags)),
        args::Command::Keys(verb) => ended(keys::keys(&verb)),
        args::Command::Routes(verb) => ended(objects::objects(ObjectKind::Route, &verb)),
        args::Command::Providers(verb) => ended(objects::objects(ObjectKind::Provider, &verb)),
        args::Command::Clients(verb) => ended(objects::objects(ObjectKind::Client, &verb)),
        args::Command::Export(flags) => ended(objects::export(&flags, None)),
        args::Command::Import(flags) => ended(objects::import(&flags, None)),
        args::Command::Cache(verb) => ended(cache::cache(&verb)),
        args::Command::Breakers(verb) => ended(breakers::breakers(&verb)),
        args::Command::Requests(verb) => ended(requests::requests(&verb)),
        args::Command::Audit(flags) => ended(requests::audit(&flags)),
        args::Command::Drills(verb) => ended(breakers::drills(&verb)),
        args::Command::Calibrate(flags) => calibrate::calibrate(&flags),
        args::Command::Mock(flags) => mocking::mock(&flags),
    }
}

/// How a command ends that has asked a running gateway.
fn ended(done: Result<(), Trouble>) -> ExitCode {
    match done {
        Ok(()) => CLEAN.into(),
        Err(trouble) => {
            complain(trouble.to_string());
            if trouble.is_usage { BAD_USAGE.into() } else { BAD_CONFIG.into() }
        }
    }
}

/// A field of an answer as text for people; `-` where there is none.
fn text(of: &Value, name: &str) -> String {
    match of.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// One line on standard output; a closed pipe is no reason to fail.
fn say(text: impl AsRef<str>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout().lock(), "{}", text.as_ref());
}

/// One line on standard error.
fn complain(text: impl AsRef<str>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
}

/// 0 clean stop.
const CLEAN: u8 = 0;
/// 1 bad configuration, something it needs cannot be had, or a gateway that refuses.
const BAD_CONFIG: u8 = 1;
/// 2 bad usage that only shows once the command runs.
const BAD_USAGE: u8 = 2;
