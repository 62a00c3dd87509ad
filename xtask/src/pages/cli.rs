//! cli.md: the program's own help.

use clap::{Command, CommandFactory as _};
use mai::args::Args;

use super::head;

/// Columns of the help text.
const WIDTH: usize = 100;

pub fn page() -> String {
    let mut program = quiet(Args::command()).term_width(WIDTH);
    program.build();
    let mut page = head("Command line", "the help texts in crates/mai/src/args.rs");
    page.push_str("\nA flag beats its environment variable, which beats the configuration file.\n");
    section(&mut page, &mut program);
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| *name != "help") {
        if let Some(command) = program.find_subcommand_mut(name) {
            section(&mut page, command);
        }
    }
    page
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
        for command in ["serve", "check", "schema", "explain", "mock"] {
            assert!(page.contains(&format!("\n## mai-gateway {command}\n")), "{command}");
        }
        assert!(page.contains("[env: MAI_CONFIG]"), "{page}");
    }
}
