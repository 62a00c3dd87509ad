//! The house rules that a machine can keep, beside those of rustc and clippy (`clippy.toml` and the
//! lints in the workspace's `Cargo.toml`). Each rule is data with reasons where it has exceptions.

mod bans;
mod citations;
mod graph;
mod imports;
mod manifests;
mod modules;
mod sizes;
mod steps;
mod words;

use std::fmt;

use crate::tree::Tree;

/// A broken rule: where, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// What the rules have found so far.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, what: what.into() });
    }
}

/// A rule looks at the tree and says what it finds.
type Rule = fn(&Tree, &mut Findings);

const RULES: [Rule; 8] = [
    sizes::check,
    imports::check,
    steps::check,
    modules::check,
    bans::check,
    words::check,
    manifests::check,
    citations::check,
];

/// Everything that every rule finds, in the order of files and lines.
#[must_use]
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Findings::default();
    for rule in RULES {
        rule(tree, &mut found);
    }
    found.0.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    found.0
}

#[cfg(test)]
mod tests {
    use super::{Findings, Rule};
    use crate::tree::{File, Tree};

    /// What `rule` says about a tree of these files.
    pub fn told(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(*path, *text)).collect();
        let mut found = Findings::default();
        rule(&Tree { files }, &mut found);
        found.0.iter().map(ToString::to_string).collect()
    }
}
