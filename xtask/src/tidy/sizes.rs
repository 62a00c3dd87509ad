//! Small files, small functions, few arguments, and a first line that says what a file is for.

use super::Findings;
use crate::tree::{File, Tree};

const MOST_LINES: usize = 500;
const MOST_FUNCTION_LINES: usize = 70;
const MOST_ARGUMENTS: usize = 5;

pub fn check(tree: &Tree, found: &mut Findings) {
    for file in tree.rust() {
        let length = file.length();
        if length > MOST_LINES {
            found.add(
                &file.path,
                1,
                format!("{length} lines without tests; split the file so that each part has at most {MOST_LINES}"),
            );
        }
        if !begins_with_purpose(&file.text) {
            found.add(&file.path, 1, "begin the file with `//!` and what it is for");
        }
        functions(file, found);
    }
}

fn functions(file: &File, found: &mut Findings) {
    for function in file.functions().into_iter().filter(|function| !file.is_test(function.at)) {
        let line = file.line(function.at);
        let lines = file.line(function.end) - line + 1;
        let name = &function.name;
        if lines > MOST_FUNCTION_LINES {
            found.add(
                &file.path,
                line,
                format!("`{name}` has {lines} lines; take steps out of it until it has at most {MOST_FUNCTION_LINES}"),
            );
        }
        if function.arguments > MOST_ARGUMENTS && !is_excused(file, line) {
            found.add(
                &file.path,
                line,
                format!(
                    "`{name}` has {} arguments; give those that belong together a type: at most {MOST_ARGUMENTS}",
                    function.arguments
                ),
            );
        }
    }
}

/// Whether the attribute before the function on `line` gives clippy a reason for its arguments.
fn is_excused(file: &File, line: usize) -> bool {
    let before = line.checked_sub(2).and_then(|before| file.text.lines().nth(before));
    before.is_some_and(|attribute| attribute.trim_start().starts_with("#[expect(clippy::too_many_arguments, reason"))
}

/// Inner attributes may stand before it.
fn begins_with_purpose(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["))
        .is_some_and(|line| line.strip_prefix("//!").is_some_and(|purpose| !purpose.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    fn lines(count: usize) -> String {
        "    a();\n".repeat(count)
    }

    #[test]
    fn a_long_file_is_to_be_split_and_its_tests_do_not_count() {
        let functions = format!("fn a() {{\n{}}}\n", lines(48)).repeat(10);
        assert!(told(check, &[("a.rs", &format!("//! A.\n{functions}"))])[0].starts_with("a.rs:1: 501 lines"));
        let tested = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{functions}\n}}\n");
        assert!(told(check, &[("a.rs", &tested)]).is_empty());
    }

    #[test]
    fn a_long_function_is_found_where_it_begins() {
        let text = format!("//! A.\n\nfn a() {{\n{}}}\n", lines(69));
        assert!(told(check, &[("a.rs", &text)])[0].starts_with("a.rs:3: `a` has 71 lines"));
        let text = format!("//! A.\nfn a() {{\n{}}}\n", lines(68));
        assert!(told(check, &[("a.rs", &text)]).is_empty());
    }

    #[test]
    fn six_arguments_are_one_too_many() {
        let told = told(check, &[("a.rs", "//! A.\nfn a(&self, b: u8, c: u8, d: u8, e: u8, f: u8) {}\n")]);
        assert!(told[0].starts_with("a.rs:2: `a` has 6 arguments"));
    }

    #[test]
    fn a_reason_that_clippy_takes_is_taken_here() {
        let function = "fn a(&self, b: u8, c: u8, d: u8, e: u8, f: u8) {}";
        let text = format!("//! A.\n#[expect(clippy::too_many_arguments, reason = \"one row\")]\n{function}\n");
        assert!(told(check, &[("a.rs", &text)]).is_empty());
    }

    #[test]
    fn every_file_says_what_it_is_for() {
        assert_eq!(told(check, &[("a.rs", "use b;\n")]).len(), 1);
        assert_eq!(told(check, &[("a.rs", "//!\nuse b;\n")]).len(), 1);
        assert!(told(check, &[("a.rs", "#![no_main]\n\n//! A.\n")]).is_empty());
    }
}
