//! The modules of one crate and who refers to whom, read from `crate::` and `super::` paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{File, Tree};

/// A module's path below its crate's root; empty for the root.
pub type Module = Vec<String>;

/// One reference from a module to another.
#[derive(Debug)]
pub struct Reference<'a> {
    /// Where it stands.
    pub file: &'a File,
    /// In bytes.
    pub at: usize,
    /// Who refers.
    pub from: Module,
    /// To whom.
    pub to: Module,
}

/// The modules of one crate.
pub struct Graph<'a> {
    files: BTreeMap<Module, &'a File>,
    /// Names that a module passes on from the modules below it.
    passed_on: BTreeMap<(Module, String), Module>,
}

impl<'a> Graph<'a> {
    /// The modules below `folder`, such as `crates/gateway/src`, tests left out.
    #[must_use]
    pub fn of(tree: &'a Tree, folder: &str) -> Self {
        let mut files = BTreeMap::new();
        for file in tree.rust() {
            let below = file.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/'));
            if let Some(path) = below.and_then(|path| path.strip_suffix(".rs"))
                && file.length() > 0
            {
                files.insert(module(path), file);
            }
        }
        let mut graph = Self { files, passed_on: BTreeMap::new() };
        graph.passed_on = graph.find_passed_on();
        graph
    }

    /// Every reference to another module of the crate outside tests. One from a module to those
    /// below it, or to those above it, is none: they are one family.
    #[must_use]
    pub fn references(&self) -> Vec<Reference<'a>> {
        let mut found = Vec::new();
        for (from, file) in &self.files {
            for (at, path) in paths(&file.code) {
                if file.is_test(at) {
                    continue;
                }
                let Some(to) = self.resolve(from, &path) else { continue };
                if !to.starts_with(from) && !from.starts_with(&to) {
                    found.push(Reference { file, at, from: from.clone(), to });
                }
            }
        }
        found
    }

    fn find_passed_on(&self) -> BTreeMap<(Module, String), Module> {
        let mut passed_on = BTreeMap::new();
        for (module, file) in &self.files {
            for (at, _) in file.code.match_indices("pub use ") {
                for mut path in expanded(file.code.get(at + 8..).unwrap_or_default()) {
                    path.retain(|part| part != "self");
                    let (Some(name), Some(below)) = (path.pop(), path.first()) else { continue };
                    let child: Module = module.iter().chain([below]).cloned().collect();
                    if self.files.contains_key(&child) {
                        passed_on.insert((module.clone(), name), child);
                    }
                }
            }
        }
        passed_on
    }

    /// The module that a path leads to; `None` for what is no module of this crate.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<Module> {
        let mut parts = path.iter();
        let mut at = match parts.next()?.as_str() {
            "crate" => Module::new(),
            "super" => from.split_last()?.1.to_vec(),
            _ => return None,
        };
        for part in parts {
            if part == "super" {
                at.pop()?;
                continue;
            }
            let below: Module = at.iter().chain([part]).cloned().collect();
            if self.files.contains_key(&below) {
                at = below;
            } else {
                return Some(self.passed_on.get(&(at.clone(), part.clone())).cloned().unwrap_or(at));
            }
        }
        Some(at)
    }
}

/// `a/b/mod` and `a/b` are the module `a::b`; `lib` and `main` are the root.
fn module(path: &str) -> Module {
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" | "mod" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// Every path that begins with `crate` or `super`, lists in braces spread out.
fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code.get(..at).unwrap_or_default();
            if !before.ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':')) {
                found.extend(expanded(code.get(at..).unwrap_or_default()).into_iter().map(|path| (at, path)));
            }
        }
    }
    found
}

/// The paths that `text` begins with: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(text: &str) -> Vec<Vec<String>> {
    spread(text).0
}

fn spread(text: &str) -> (Vec<Vec<String>>, &str) {
    let mut prefix = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        rest = rest.get(name.len()..).unwrap_or_default();
        if !name.is_empty() {
            prefix.push(name);
        }
        let Some(tail) = rest.strip_prefix("::") else { return (vec![prefix], rest) };
        rest = tail;
        if let Some(list) = rest.strip_prefix('{') {
            return spread_list(&prefix, list);
        }
        if let Some(tail) = rest.strip_prefix('*') {
            return (vec![prefix], tail);
        }
        if !rest.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
            return (vec![prefix], rest);
        }
    }
}

fn spread_list<'a>(prefix: &[String], list: &'a str) -> (Vec<Vec<String>>, &'a str) {
    let mut found = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\n', '\t']);
        if let Some(tail) = rest.strip_prefix('}') {
            return (found, tail);
        }
        let (below, tail) = spread(rest);
        found.extend(below.into_iter().map(|path| prefix.iter().cloned().chain(path).collect()));
        // Past ` as name`, to the next of the list.
        let Some(next) = tail.find([',', '}']) else { return (found, "") };
        rest = tail.get(next..).unwrap_or_default();
    }
}

/// One way round through each knot of `edges`.
#[must_use]
pub fn cycles<T: Ord + Clone>(edges: &BTreeMap<T, BTreeSet<T>>) -> Vec<Vec<T>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in edges.keys() {
        if !seen.contains(start)
            && let Some(way) = way_back(start, edges)
        {
            seen.extend(way.iter().cloned());
            found.push(way);
        }
    }
    found
}

/// The shortest way from `start` back to it.
fn way_back<T: Ord + Clone>(start: &T, edges: &BTreeMap<T, BTreeSet<T>>) -> Option<Vec<T>> {
    let mut ways = std::collections::VecDeque::from([vec![start.clone()]]);
    let mut been = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| edges.get(last)).into_iter().flatten() {
            if next == start {
                return Some(way);
            }
            if been.insert(next.clone()) {
                ways.push_back(way.iter().chain([next]).cloned().collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_spread_out() {
        let told = |text| expanded(text).iter().map(|path| path.join("::")).collect::<Vec<_>>();
        assert_eq!(
            told("crate::a::{b, c::{d, E as F}, g}; h"),
            ["crate::a::b", "crate::a::c::d", "crate::a::c::E", "crate::a::g"]
        );
        assert_eq!(told("crate::a::b::<T>()"), ["crate::a::b"]);
        assert_eq!(told("crate::a::*;"), ["crate::a"]);
        assert_eq!(told("crate::{\n    a,\n    b,\n};"), ["crate::a", "crate::b"]);
    }

    #[test]
    fn references_lead_to_the_module_that_has_the_thing() {
        let tree = Tree {
            files: [
                ("crates/a/src/lib.rs", "mod b; mod c; pub use b::B;"),
                ("crates/a/src/b.rs", "use crate::c::d::D; use crate::c;"),
                ("crates/a/src/c/mod.rs", "pub mod d;"),
                ("crates/a/src/c/d.rs", "use crate::B; use super::E; use super::super::b::f;"),
            ]
            .map(|(path, text)| File::new(path, text))
            .into(),
        };
        let told: Vec<String> = Graph::of(&tree, "crates/a/src")
            .references()
            .iter()
            .map(|reference| format!("{} {}", reference.from.join("::"), reference.to.join("::")))
            .collect();
        assert_eq!(told, ["b c::d", "b c", "c::d b", "c::d b"]);
    }

    #[test]
    fn a_knot_is_told_once() {
        let edges = |pairs: &[(&'static str, &'static str)]| {
            let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (from, to) in pairs {
                edges.entry(from).or_default().insert(to);
            }
            edges
        };
        assert_eq!(cycles(&edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])), [vec!["a", "b", "c"]]);
        assert!(cycles(&edges(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    }
}
