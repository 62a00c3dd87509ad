//! No two modules of a crate import each other, directly or in a round.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::graph::{Graph, Module, cycles};
use crate::tree::{File, Tree};

/// References that close a round and are meant: where, from, to, and why.
const MEANT: [(&str, &str, &str, &str); 4] = [
    (
        "crates/gateway/src",
        "worker",
        "serve",
        "the door hands each request to the spine, whose steps are told who works",
    ),
    ("crates/gateway/src", "reply", "relay", "a reply's body may be a stream in passage"),
    (
        "crates/dialect/src",
        "ask",
        "embeddings",
        "an ask holds the view of its endpoint, which stands beside the rest of it",
    ),
    ("crates/dialect/src", "ask", "rerank", "as embeddings"),
];

pub fn check(tree: &Tree, found: &mut Findings) {
    let folders = tree.manifests().filter_map(|manifest| manifest.path.strip_suffix("Cargo.toml"));
    for folder in folders {
        let folder = format!("{folder}src");
        check_crate(&Graph::of(tree, &folder), &folder, found);
    }
}

/// Modules are compared where their paths part: two files of a folder, two folders of a crate.
fn check_crate(graph: &Graph<'_>, folder: &str, found: &mut Findings) {
    let mut levels: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut places: BTreeMap<(Module, String, String), (&File, usize)> = BTreeMap::new();
    for reference in graph.references() {
        let shared = reference.from.iter().zip(&reference.to).take_while(|(a, b)| a == b).count();
        let (Some(from), Some(to)) = (reference.from.get(shared), reference.to.get(shared)) else { continue };
        let level: Module = reference.from.iter().take(shared).cloned().collect();
        if level.is_empty()
            && MEANT.iter().any(|(at, a, b, _reason)| (*at, *a, *b) == (folder, from.as_str(), to.as_str()))
        {
            continue;
        }
        places.entry((level.clone(), from.clone(), to.clone())).or_insert((reference.file, reference.at));
        levels.entry(level).or_default().entry(from.clone()).or_default().insert(to.clone());
    }
    for (level, edges) in &levels {
        for knot in cycles(edges) {
            let last = (knot.last(), knot.first());
            let (Some(from), Some(to)) = last else { continue };
            let Some((file, at)) = places.get(&(level.clone(), from.clone(), to.clone())) else { continue };
            let round = knot.iter().chain([to]).cloned().collect::<Vec<_>>().join(" -> ");
            found.add(
                &file.path,
                file.line(*at),
                format!("modules import each other: {round}; move what they share below both"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "");

    #[test]
    fn a_round_is_found_where_it_closes() {
        let told = told(
            check,
            &[
                MANIFEST,
                ("crates/a/src/b.rs", "use crate::c::C;"),
                ("crates/a/src/c.rs", "use crate::d::D;"),
                ("crates/a/src/d.rs", "\nuse crate::b::B;"),
            ],
        );
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("crates/a/src/d.rs:2: modules import each other: b -> c -> d -> b"), "{told:?}");
    }

    #[test]
    fn a_family_is_no_round_but_its_members_may_make_one() {
        let family =
            [MANIFEST, ("crates/a/src/b/mod.rs", "use crate::b::c::C;"), ("crates/a/src/b/c.rs", "use super::B;")];
        assert!(told(check, &family).is_empty());
        let siblings =
            [MANIFEST, ("crates/a/src/b/c.rs", "use super::d::D;"), ("crates/a/src/b/d.rs", "use super::c::C;")];
        assert_eq!(told(check, &siblings).len(), 1);
    }
}
