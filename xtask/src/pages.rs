//! The pages of docs/reference, each made from the table in the code that it describes.

mod admin_api;
mod cli;
mod errors;
mod headers;
mod metrics;

use std::path::Path;

use crate::diff::diff;
use crate::tree::Tree;

const FOLDER: &str = "docs/reference";

/// A page's name and text.
type Page = (&'static str, String);

fn pages(tree: &Tree) -> [Page; 7] {
    [
        ("configuration.md", config::reference_markdown()),
        ("config.schema.json", ended(config::schema())),
        ("metrics.md", metrics::page()),
        ("errors.md", errors::page(tree)),
        ("headers.md", headers::page()),
        ("cli.md", cli::page()),
        ("admin-api.md", admin_api::page()),
    ]
}

/// Writes what is stale, and says what.
///
/// # Errors
/// Those of the file system.
pub fn write(root: &Path, tree: &Tree) -> std::io::Result<String> {
    std::fs::create_dir_all(root.join(FOLDER))?;
    let mut written = Vec::new();
    for (name, text) in pages(tree) {
        if stands(tree, name) != Some(text.as_str()) {
            std::fs::write(root.join(FOLDER).join(name), text)?;
            written.push(format!("{FOLDER}/{name}"));
        }
    }
    Ok(if written.is_empty() { "the pages are current".to_owned() } else { written.join("\n") })
}

/// Every page that is not what the code says, with the difference.
#[must_use]
pub fn stale(tree: &Tree) -> Vec<String> {
    pages(tree)
        .into_iter()
        .filter_map(|(name, text)| {
            let stands = stands(tree, name).unwrap_or_default();
            (stands != text)
                .then(|| format!("{FOLDER}/{name} is stale; `make docs` writes it\n{}", diff(stands, &text)))
        })
        .collect()
}

fn stands<'a>(tree: &'a Tree, name: &str) -> Option<&'a str> {
    let path = format!("{FOLDER}/{name}");
    tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
}

fn ended(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// The first lines of a page.
fn head(title: &str, source: &str) -> String {
    format!("# {title}\n\n<!-- Generated from {source}: change it there. -->\n")
}

/// A table in Markdown.
fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let rule = vec!["---".to_owned(); columns.len()];
    let escaped = |row: Vec<String>| row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>();
    let rows: String = rows.into_iter().map(|row| line(&escaped(row))).collect();
    format!("\n{}{}{rows}", line(&columns), line(&rule))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Several names, each as code.
fn codes<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn a_bar_in_a_cell_does_not_end_it() {
        let made = table(&["a", "b"], [vec!["x|y".to_owned(), "z".to_owned()]]);
        assert_eq!(made, "\n| a | b |\n| --- | --- |\n| x\\|y | z |\n");
    }

    #[test]
    fn a_page_that_the_code_does_not_make_is_stale() {
        let empty = Tree { files: Vec::new() };
        assert_eq!(stale(&empty).len(), pages(&empty).len());
        let written = |(name, text): Page| File::new(format!("{FOLDER}/{name}"), text);
        // What is in force is read from the sources, so both trees have none.
        let current = Tree { files: pages(&empty).into_iter().map(written).collect() };
        assert!(stale(&current).is_empty());
    }
}
