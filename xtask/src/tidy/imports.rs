//! Which crate may import which: the walls of the house.

use super::Findings;
use crate::tree::{File, Tree};

/// One crate of ours.
struct Room {
    name: &'static str,
    /// What it may import in the code that runs.
    may: &'static [&'static str],
    /// What its tests may import besides.
    tests_may: &'static [&'static str],
}

const fn room(name: &'static str, may: &'static [&'static str], tests_may: &'static [&'static str]) -> Room {
    Room { name, may, tests_may }
}

/// The scripted peers that tests may use.
const PEERS: &[&str] = &["testkit", "mock"];

/// The table; ARCHITECTURE.md says why.
const ROOMS: [Room; 16] = [
    room("base", &[], &[]),
    room("dialect", &["base"], PEERS),
    room("rules", &["base"], PEERS),
    room("semantic", &["base"], &[]),
    room("config", &["base", "dialect", "rules"], PEERS),
    room("state", &["base", "rules"], &[]),
    room("drivers", &["base", "state"], &[]),
    room("gateway", &["base", "dialect", "rules", "semantic", "config", "state"], PEERS),
    room("admin", &["base", "config", "gateway", "state"], PEERS),
    room("mock", &["base"], PEERS),
    room("testkit", &["base", "mock"], &[]),
    room(
        "mai",
        &["base", "dialect", "rules", "semantic", "config", "state", "drivers", "gateway", "admin", "mock"],
        PEERS,
    ),
    room("bench", &["semantic"], &[]),
    room("drill", &["base", "mock", "testkit"], &[]),
    room("fuzz", &["base", "dialect"], &[]),
    room("xtask", &["base", "dialect", "config", "gateway", "admin", "mai"], &[]),
];

pub fn check(tree: &Tree, found: &mut Findings) {
    for file in &tree.files {
        let Some(room) = ROOMS.iter().find(|room| room.name == file.package()) else {
            if file.path.ends_with("Cargo.toml") && file.path != "Cargo.toml" {
                found.add(
                    &file.path,
                    1,
                    "a crate that the import table does not know; give it a row in xtask/src/tidy/imports.rs",
                );
            }
            continue;
        };
        if file.is_rust() {
            sources(file, room, found);
        } else if file.path.ends_with("Cargo.toml") {
            manifest(file, room, found);
        }
    }
}

/// A package and its library may have two names.
fn ours(name: &str) -> Option<&'static str> {
    let name = if matches!(name, "mai-gateway" | "mai_gateway") { "mai" } else { name };
    ROOMS.iter().map(|room| room.name).find(|known| *known == name)
}

fn allowed(room: &Room, other: &str, is_test: bool) -> bool {
    room.name == other || room.may.contains(&other) || (is_test && room.tests_may.contains(&other))
}

fn forbidden(room: &Room, other: &str) -> String {
    let may = if room.may.is_empty() { "no crate of ours".to_owned() } else { room.may.join(", ") };
    format!("`{}` may not import `{other}`, only: {may}; move what is needed to where both may see it", room.name)
}

fn sources(file: &File, room: &Room, found: &mut Findings) {
    for other in ROOMS.iter().map(|room| room.name) {
        for path in [format!("{other}::"), format!("use {other};")] {
            for (at, _) in file.code.match_indices(path.as_str()) {
                let before = file.code.get(..at).unwrap_or_default();
                let inside =
                    before.ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '$'));
                if !inside && !allowed(room, other, file.is_test(at)) && !is_local(file, other) {
                    found.add(&file.path, file.line(at), forbidden(room, other));
                }
            }
        }
    }
}

/// Whether `name` is a module that this very file declares.
fn is_local(file: &File, name: &str) -> bool {
    file.code.contains(&format!("mod {name};")) || file.code.contains(&format!("mod {name} {{"))
}

fn manifest(file: &File, room: &Room, found: &mut Findings) {
    let mut section = "";
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let is_test = section.ends_with("dev-dependencies");
        if !is_test && !section.ends_with("dependencies") {
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        if let Some(other) = ours(name)
            && !allowed(room, other, is_test)
        {
            found.add(&file.path, at + 1, forbidden(room, other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_wall_is_kept_in_use_lines_and_paths() {
        let told = told(
            check,
            &[("crates/rules/src/a.rs", "//! A.\nuse base::Fault;\nuse dialect::Ask;\nfn a() { config::load() }\n")],
        );
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told.iter()
                .any(|line| line.starts_with("crates/rules/src/a.rs:3: `rules` may not import `dialect`, only: base"))
        );
        assert!(told.iter().any(|line| line.starts_with("crates/rules/src/a.rs:4: `rules` may not import `config`")));
    }

    #[test]
    fn modules_comments_and_strings_of_that_name_are_no_import() {
        let text =
            "//! See config::load.\nmod mock;\nfn a() { mock::a(); self::config::b(); let c = \"config::d\"; }\n";
        assert!(told(check, &[("crates/rules/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn tests_may_use_the_scripted_peers_and_the_rest_may_not() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    use testkit::a;\n}\n";
        assert!(told(check, &[("crates/gateway/src/a.rs", text)]).is_empty());
        assert_eq!(told(check, &[("crates/gateway/src/a.rs", "//! A.\nuse testkit::a;\n")]).len(), 1);
    }

    #[test]
    fn a_wall_is_kept_in_manifests() {
        let text = "[package]\nname = \"config\"\n[dependencies]\nbase.workspace = true\ngateway = { path = \"../gateway\" }\n[dev-dependencies]\ntestkit.workspace = true\n";
        let told = told(check, &[("crates/config/Cargo.toml", text)]);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("crates/config/Cargo.toml:5: `config` may not import `gateway`"));
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(told(check, &[("crates/new/Cargo.toml", "")]).len(), 1);
    }
}
