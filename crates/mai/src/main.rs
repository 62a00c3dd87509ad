//! `mai-gateway`: the commands. Nothing is decided here; each command picks its parts and runs them.

mod calibrate;
mod check;
mod explain;
mod listen;
mod logging;
mod mocking;
mod reload;
mod remote;
mod run;
mod shared;
mod usage;
mod zero;

use std::process::ExitCode;

use clap::Parser as _;
use mai::args;

// Without huge pages (`no_thp`): each thread's first small allocations would fill two megabytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // clap prints help to stdout with code 0 and usage errors to stderr with code 2.
    let args = args::Args::parse();
    match args.command {
        args::Command::Serve(flags) => run::serve(flags),
        args::Command::Check(at) => check::check(&at),
        args::Command::Schema => check::schema(),
        args::Command::Explain(flags) => explain::explain(&flags),
        args::Command::Usage(flags) => usage::usage(&flags),
        args::Command::Calibrate(flags) => calibrate::calibrate(&flags),
        args::Command::Mock(flags) => mocking::mock(&flags),
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
/// 1 bad configuration, or something it needs cannot be had.
const BAD_CONFIG: u8 = 1;
