//! A command that is not written as it must be: what is wrong with it, in few lines.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, Error};
use mai::args::Args;

use crate::{BAD_USAGE, CLEAN, complain, say};

/// Prints help where it was asked for, else what is wrong.
pub fn told(error: &Error) -> ExitCode {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            say(text.trim_end());
            CLEAN.into()
        }
        // No command, or half of one: what there is to choose from.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            complain(text.trim_end());
            BAD_USAGE.into()
        }
        _ => {
            complain(mended(&text, std::env::args_os().skip(1)));
            BAD_USAGE.into()
        }
    }
}

/// clap's own words without its line of usage, which names every option that has a value, be it out of the environment, and
/// leaves out what is missing; with what each missing argument is, and the help of this very command.
fn mended(text: &str, words: impl Iterator<Item = OsString>) -> String {
    let (name, command) = meant(words);
    let paragraphs = text.split("\n\n").map(str::trim_end);
    let paragraphs = paragraphs.filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"));
    let mut lines: Vec<String> = paragraphs.flat_map(str::lines).map(|line| explained(line, &command)).collect();
    lines.push(format!("See `{name} --help`."));
    lines.join("\n")
}

/// The command that was meant: as far as its words are known.
fn meant(words: impl Iterator<Item = OsString>) -> (String, Command) {
    let mut command = Args::command();
    // Before that an argument does not know how it is shown.
    command.build();
    let mut name = command.get_name().to_owned();
    for word in words {
        let Some(next) = command.find_subcommand(&word) else { break };
        name = format!("{name} {}", next.get_name());
        command = next.clone();
    }
    (name, command)
}

/// A line that is an argument alone, with what the argument is; one of several of which one is missing, as people write that.
fn explained(line: &str, command: &Command) -> String {
    // An argument that may be missing stands in other brackets.
    let bare = |text: &str| text.trim().trim_matches(['<', '>', '[', ']']).to_owned();
    let argument = command.get_arguments().find(|argument| bare(&argument.to_string()) == bare(line));
    let choice =
        line.trim().strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|rest| rest.contains('|'));
    match (argument.and_then(clap::Arg::get_help), choice) {
        (Some(help), _) => format!("{line}  {help}"),
        (None, Some(choice)) => format!("  {}", choice.replace('|', " or ")),
        (None, None) => line.to_owned(),
    }
}
