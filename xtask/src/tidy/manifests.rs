//! Every package says what it is, takes the workspace's lints (and so forbids `unsafe`), and depends
//! on nothing that it does not use.

use super::Findings;
use crate::tree::{File, Tree};

/// Packages whose library has another name.
const LIBRARIES: [(&str, &str); 1] = [("mai-gateway", "mai")];

pub fn check(tree: &Tree, found: &mut Findings) {
    for manifest in tree.manifests() {
        let lints = after(&manifest.text, "[lints]");
        if lints.is_none_or(|lints| !lints.trim_start().starts_with("workspace = true")) {
            found.add(&manifest.path, 1, "add `[lints]` with `workspace = true`: the lints forbid `unsafe` and more");
        }
        let has_words = |line: &str| {
            line.strip_prefix("description = \"").is_some_and(|words| words.trim_end_matches('"').len() > 3)
        };
        if !manifest.text.lines().any(has_words) {
            found.add(&manifest.path, 1, "add a `description`: one line that says what the crate is for");
        }
        dependencies(manifest, tree, found);
    }
    if let Some(root) = tree.files.iter().find(|file| file.path == "Cargo.toml")
        && !root.text.contains("unsafe_code = \"forbid\"")
    {
        found.add(&root.path, 1, "`[workspace.lints.rust]` must hold `unsafe_code = \"forbid\"`");
    }
}

fn dependencies(manifest: &File, tree: &Tree, found: &mut Findings) {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let sources: Vec<&File> = tree.rust().filter(|file| file.path.starts_with(folder)).collect();
    let mut section = "";
    for (at, line) in manifest.text.lines().enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let package = line.split(['.', '=', ' ', '#']).next().unwrap_or_default();
        if !section.ends_with("dependencies") || package.is_empty() {
            continue;
        }
        let name = LIBRARIES.iter().find(|(known, _)| *known == package).map_or(package, |(_, name)| name);
        let name = name.replace('-', "_");
        if !sources.iter().any(|file| file.mentions(&name)) {
            found.add(&manifest.path, at + 1, format!("nothing uses `{package}`; take it out"));
        }
    }
}

fn after<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    text.split_once(heading).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_package_takes_the_lints_and_says_what_it_is() {
        let sound = "[package]\ndescription = \"Nouns and seams\"\n[lints]\nworkspace = true\n";
        assert!(told(check, &[("crates/a/Cargo.toml", sound)]).is_empty());
        assert_eq!(told(check, &[("crates/a/Cargo.toml", "[package]\ndescription = \"\"\n")]).len(), 2);
    }

    #[test]
    fn a_dependency_is_used() {
        let manifest = "[package]\ndescription = \"Nouns and seams\"\n[lints]\nworkspace = true\n[dependencies]\nused-one.workspace = true\nunused = \"1\"\n";
        let found =
            told(check, &[("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", "use used_one::B; // unused")]);
        assert_eq!(found, ["crates/a/Cargo.toml:7: nothing uses `unused`; take it out"]);
    }

    #[test]
    fn the_lints_forbid_unsafe() {
        assert_eq!(told(check, &[("Cargo.toml", "[workspace]\n")]).len(), 1);
    }
}
