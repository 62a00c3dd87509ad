//! A document that code or prose points to is there.

use super::Findings;
use crate::tree::{File, Tree};

pub fn check(tree: &Tree, found: &mut Findings) {
    let is_there = |path: &str| tree.files.iter().any(|file| file.path == path);
    for file in tree.files.iter().filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        for (at, path) in cited(file) {
            if !is_there(path) {
                found.add(&file.path, file.line(at), format!("`{path}` is not there; mend the reference"));
            }
        }
        if file.path.ends_with(".md") {
            links(file, tree, found);
        }
    }
}

/// `docs/….md` anywhere.
fn cited(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in file.text.match_indices("docs/") {
        let before = file.text.get(..at).unwrap_or_default();
        let rest = file.text.get(at..).unwrap_or_default();
        let is_path = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.');
        let path = rest.split(|letter| !is_path(letter)).next().unwrap_or_default().trim_end_matches('.');
        // Longer paths and addresses end in `docs/` too.
        if path.ends_with(".md") && !before.ends_with(|letter: char| is_path(letter) || letter == ':') {
            found.push((at, path));
        }
    }
    found
}

/// `](path)`, from where the page stands.
fn links(file: &File, tree: &Tree, found: &mut Findings) {
    for (at, _) in file.text.match_indices("](") {
        let rest = file.text.get(at + 2..).unwrap_or_default();
        let target = rest.split([')', '#', ' ', '\n']).next().unwrap_or_default();
        if target.is_empty() || target.contains(':') {
            continue;
        }
        let path = joined(&file.path, target);
        let is_there = tree.files.iter().any(|other| other.path == path || other.path.starts_with(&format!("{path}/")));
        if !is_there && !path.ends_with(".png") {
            found.add(&file.path, file.line(at), format!("the link to `{target}` leads nowhere; mend it"));
        }
    }
}

fn joined(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_page_that_is_cited_is_there() {
        let files = [
            ("crates/a/src/b.rs", "//! See docs/there.md, docs/gone.md and https://docs.rs/docs/else.md.\n"),
            ("docs/there.md", "[up](../README.md) [out](https://example.com) [gone](gone.md#there)\n"),
            ("README.md", "[docs](docs/) [there](docs/there.md)\n"),
        ];
        let told = told(check, &files);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("crates/a/src/b.rs:1: `docs/gone.md`"));
        assert!(told[1].starts_with("docs/there.md:1: the link to `gone.md`"));
    }
}
