//! A document that code or prose points to is there.

use std::collections::BTreeSet;

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

/// `](path)` and `](path#heading)`, from where the page stands.
fn links(file: &File, tree: &Tree, found: &mut Findings) {
    for (at, _) in file.text.match_indices("](") {
        let rest = file.text.get(at + 2..).unwrap_or_default();
        let target = rest.split([')', ' ', '\n']).next().unwrap_or_default();
        if target.is_empty() || target.contains(':') {
            continue;
        }
        let (to, heading) = target.split_once('#').map_or((target, None), |(to, heading)| (to, Some(heading)));
        let path = if to.is_empty() { file.path.clone() } else { joined(&file.path, to) };
        let is_there = tree.files.iter().any(|other| other.path == path || other.path.starts_with(&format!("{path}/")));
        if !is_there && !path.ends_with(".png") {
            found.add(&file.path, file.line(at), format!("the link to `{to}` leads nowhere; mend it"));
        }
        let page = tree.files.iter().find(|other| other.path == path && path.ends_with(".md"));
        if let (Some(page), Some(heading)) = (page, heading)
            && !anchors(&page.text).contains(heading)
        {
            found.add(&file.path, file.line(at), format!("`{path}` has no heading `#{heading}`; mend the link"));
        }
    }
}

/// What a link may name of a page: its headings, as GitHub makes anchors of them; of several alike the second ends in `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        let Some(heading) = heading.strip_prefix(' ').filter(|_| line.starts_with('#') && !is_code) else { continue };
        let kept =
            heading.trim().chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let free = (1..).map(|count| format!("{anchor}-{count}")).find(|next| !known.contains(next));
        match known.contains(&anchor) {
            true => known.extend(free),
            false => drop(known.insert(anchor)),
        }
    }
    known
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

    #[test]
    fn a_link_to_a_heading_finds_it() {
        let page = "[ok](#how-it-is-named-1) [ok](b.md#二-b_2) [gone](#lost) [code](b.md#no-heading)\n\n## How `it` is named?\n\n## How it is named\n";
        let other = "# 二 (B_2)\n\n```sh\n# no heading\n```\n";
        let told = told(check, &[("docs/a.md", page), ("docs/b.md", other)]);
        assert_eq!(
            told,
            [
                "docs/a.md:1: `docs/a.md` has no heading `#lost`; mend the link",
                "docs/a.md:1: `docs/b.md` has no heading `#no-heading`; mend the link"
            ]
        );
    }
}
