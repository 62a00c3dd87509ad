//! Every package says what it is, takes the workspace's lints, and so forbids `unsafe`.

use super::Findings;
use crate::tree::Tree;

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
    }
    if let Some(root) = tree.files.iter().find(|file| file.path == "Cargo.toml")
        && !root.text.contains("unsafe_code = \"forbid\"")
    {
        found.add(&root.path, 1, "`[workspace.lints.rust]` must hold `unsafe_code = \"forbid\"`");
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
    fn the_lints_forbid_unsafe() {
        assert_eq!(told(check, &[("Cargo.toml", "[workspace]\n")]).len(), 1);
    }
}
