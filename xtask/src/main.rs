//! `cargo run -p xtask -- docs|check|tidy`: writes the reference pages from the code, and keeps the
//! house rules that a machine can keep. The rules and their reasons are in [`tidy`].

mod diff;
mod pages;
mod tidy;
mod tree;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  docs    write docs/reference anew from the code
  check   fail when a page of docs/reference is stale or a house rule is broken
  tidy    the house rules alone";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let tree = match tree::Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => return failed(&format!("the sources cannot be read: {error}")),
    };
    match command.as_str() {
        "docs" => match pages::write(root, &tree) {
            Ok(written) => succeeded(&written),
            Err(error) => failed(&format!("the pages cannot be written: {error}")),
        },
        "check" => verdict([pages::stale(&tree), found(&tree)].concat()),
        "tidy" => verdict(found(&tree)),
        _ => {
            say(USAGE);
            ExitCode::from(2)
        }
    }
}

fn found(tree: &tree::Tree) -> Vec<String> {
    tidy::findings(tree).iter().map(ToString::to_string).collect()
}

fn verdict(problems: Vec<String>) -> ExitCode {
    match problems.len() {
        0 => succeeded("the pages are current and the house rules hold"),
        count => failed(&format!("{}\n\n{count} to mend", problems.join("\n"))),
    }
}

fn succeeded(text: &str) -> ExitCode {
    say(text);
    ExitCode::SUCCESS
}

fn failed(text: &str) -> ExitCode {
    say(text);
    ExitCode::FAILURE
}

/// One line on standard error; a closed pipe is no reason to fail.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
