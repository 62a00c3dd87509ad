//! The drill: incidents in compressed time against the real binary, and whether its promises to callers hold meanwhile.
//!
//! Everything runs over loopback: scripted upstreams in this process, the gateway as a child, callers that judge what they get. README.md
//! tells the incidents and how to read the table.

mod callers;
mod configuration;
mod evidence;
mod figures;
mod incident;
mod incidents;
mod judge;
mod options;
mod play;
mod process;
mod report;
mod upstreams;

use std::io::{self, Write as _};
use std::process::ExitCode;

use options::Options;
use play::Report;

/// A command line that is not understood.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.split_first() {
        Some((word, rest)) if word == "tied" => process::become_tied(rest).map(|()| true),
        _ => Options::parse(&words).and_then(|options| drill(&options)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            say(&error.to_string());
            BAD_USAGE.into()
        }
        Err(error) => {
            say(&format!("drill: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every promise was kept.
fn drill(options: &Options) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Report { text, is_kept } = runtime.block_on(async {
        tokio::select! {
            report = play::run(options) => report,
            // What was started is dropped, and so stopped.
            _ = tokio::signal::ctrl_c() => Err(io::Error::other("interrupted")),
        }
    })?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(is_kept)
}

/// One line on stderr. A closed stderr is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
