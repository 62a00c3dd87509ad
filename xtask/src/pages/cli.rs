//! cli.md: the program's own help.

use clap::{Arg, Command, CommandFactory as _};
use mai::args::{Args, WHICH_GATEWAY};

use super::head;

/// Columns of the help text.
const WIDTH: usize = 100;

pub fn page() -> String {
    let mut program = quiet(Args::command()).term_width(WIDTH);
    program.build();
    let mut page = head("Command line", "the help texts in crates/mai/src/args.rs and crates/mai/src/args/");
    page.push_str("\nA flag beats its environment variable, which beats the configuration file.\n");
    page.push_str(
        "\nEvery command that asks a running gateway has the options that stand under \
         *Which gateway* at `mai-gateway usage`; they are not repeated here.\n",
    );
    sections(&mut page, &mut program);
    page
}

/// A command, then those below it.
fn sections(page: &mut String, command: &mut Command) {
    let is_told_elsewhere = |arg: &Arg| arg.get_help_heading() == Some(WHICH_GATEWAY);
    if command.get_name() != "usage" {
        *command = command.clone().mut_args(|arg| if is_told_elsewhere(&arg) { arg.hide(true) } else { arg });
    }
    section(page, command);
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        sections(page, below);
    }
}

/// Without the values that this machine's environment happens to have.
fn quiet(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(quiet)
}

fn section(page: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n")));
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn every_command_has_its_section() {
        let page = page();
        for command in ["serve", "check", "schema", "explain", "mock", "keys new", "routes put"] {
            assert!(page.contains(&format!("\n## mai-gateway {command}\n")), "{command}");
        }
        assert!(page.contains("[env: MAI_CONFIG]"), "{page}");
    }
}
