//! The bench: the gateway beside nginx as a plain reverse proxy and a bare hyper relay, in the same interleaved rounds.
//!
//! `bench run`, or options alone, starts everything on free loopback ports, loads it, and prints ratios first. The other words of the command
//! line are the programs that it starts: the scripted upstream, the relay, and `tied`, which ties a program's life to its parent's.

mod book;
mod caches;
mod clock;
mod figures;
mod limits;
mod load;
mod measure;
mod nearest;
mod options;
mod process;
mod profile;
mod records;
mod relay;
mod report;
mod rounds;
mod saturate;
mod spread;
mod streams;
mod target;
mod upstream;
mod vectors;
mod wire;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Options alone mean `run`.
    let (command, rest) = match words.split_first() {
        Some((command, rest)) if !command.starts_with("--") => (command.as_str(), rest),
        _ => ("run", words.as_slice()),
    };
    let outcome = match command {
        "run" => options::Options::parse(rest).and_then(|options| rounds::run(&options)),
        "caches" => options::Options::parse(rest).and_then(|options| caches::run(&options)),
        "limits" => options::Options::parse(rest).and_then(|options| limits::run(&options)),
        "records" => options::Options::parse(rest).and_then(|options| records::run(&options)),
        "nearest" => nearest::run(rest),
        "profile" => options::Options::parse(rest).and_then(|options| profile::run(&options)),
        "upstream" => port(rest, 0).and_then(upstream::serve),
        "relay" => port(rest, 0).and_then(|listen| relay::serve(listen, port(rest, 1)?)),
        "tied" => process::become_tied(rest),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, options::USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            say(&error.to_string());
            ExitCode::from(2)
        }
        Err(error) => {
            say(&format!("bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The port written as word `at`.
fn port(words: &[String], at: usize) -> io::Result<u16> {
    words
        .get(at)
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "upstream PORT | relay PORT UPSTREAM_PORT"))
}

/// One line of progress on stderr. A closed stderr is no reason to stop measuring.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
