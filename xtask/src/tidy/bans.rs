//! Calls that only few places may make, each place with its reason, and names that say nothing.

use super::Findings;
use crate::tree::Tree;

/// One ban.
struct Ban {
    /// What may not stand in code.
    words: &'static [&'static str],
    /// Why, and what to do.
    instead: &'static str,
    /// The beginnings of paths where it may, and why.
    except: &'static [(&'static str, &'static str)],
}

const BANS: [Ban; 4] = [
    Ban {
        words: &["tokio::spawn", "task::spawn", "spawn_local"],
        instead: "a bare task outlives its request and nobody hears of its end; await the work where it belongs, or put it into a JoinSet that its owner holds",
        except: &[
            (
                "crates/gateway/src/worker.rs",
                "gives every worker's tasks their runtime; those who ask for one stand below",
            ),
            (
                "crates/admin/src/lib.rs",
                "a change that has begun, brought to its end where its caller leaves; every wait in it has a deadline",
            ),
            (
                "crates/mai/src/configuration.rs",
                "a reload or a change that has begun, brought to its end where its asker leaves; every wait in it has a deadline",
            ),
            ("crates/mai/src/run.rs", "the process's own background work: ends with the process"),
            ("crates/mock/", "the scripted upstream: its listener holds the tasks"),
            ("crates/testkit/", "never in a release"),
            ("bench/", "never in a release"),
        ],
    },
    Ban {
        words: &["set_off"],
        instead: "a worker's own task outlives the connection that began it; await the work where it belongs, or say in this list how the task ends",
        except: &[
            (
                "crates/gateway/src/worker.rs",
                "a connection's task, which ends with the connection and counts itself; the worker's sweeps and its delayed writes, which end with the worker",
            ),
            (
                "crates/gateway/src/serve/lead.rs",
                "a flight's task: ends with its answer, or when its last rider leaves",
            ),
            (
                "crates/gateway/src/serve/vectors.rs",
                "the task of an embeddings call: ends with its answer, or when nobody waits for any vector of it",
            ),
            (
                "crates/gateway/src/serve/joining.rs",
                "what a call owes whose time is over: ends with the joint call that it went with",
            ),
            (
                "crates/gateway/src/consult/vector.rs",
                "the call for a question's vector: ends with its deadline, or when nobody waits for it",
            ),
            (
                "crates/gateway/src/consult/verdict.rs",
                "the call for a verdict on two questions: ends with its deadline, or when nobody waits for it",
            ),
            ("crates/gateway/src/mirror.rs", "a copy of a call: ends with its deadline, and a route has few at a time"),
        ],
    },
    Ban {
        words: &["unbounded_channel", "UnboundedSender", "unbounded", "std::sync::mpsc::channel"],
        instead: "every queue names its bound",
        except: &[],
    },
    Ban {
        words: &["env::var", "env::var_os", "env::vars"],
        instead: "the environment is read in config and in the binary only; take the value as an argument",
        except: &[
            ("crates/config/", "reads the variables of a configuration"),
            ("crates/mai/", "the binary"),
            ("bench/", "a program of its own"),
        ],
    },
];

/// Words in a type's or module's name that say nothing of what it is.
const EMPTY_NAMES: [&str; 3] = ["manager", "helper", "util"];

pub fn check(tree: &Tree, found: &mut Findings) {
    for file in tree.rust() {
        for ban in &BANS {
            if ban.except.iter().any(|(path, _reason)| file.path.starts_with(path)) {
                continue;
            }
            for word in ban.words {
                for at in file.uses(word) {
                    found.add(&file.path, file.line(at), format!("`{word}`: {}", ban.instead));
                }
            }
        }
        names(file, found);
    }
}

fn names(file: &crate::tree::File, found: &mut Findings) {
    for keyword in ["struct", "enum", "trait", "mod", "type"] {
        for at in file.uses(keyword) {
            let rest = file.code.get(at + keyword.len()..).unwrap_or_default().trim_start();
            let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            let lower = name.to_ascii_lowercase();
            if let Some(word) = EMPTY_NAMES.iter().find(|word| lower.contains(*word)) {
                found.add(
                    &file.path,
                    file.line(at),
                    format!("`{name}`: `{word}` says nothing; name it for what it is (a noun) or does (a verb)"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_bare_task_needs_a_place_that_may_have_it() {
        let text = "fn a() { tokio::spawn(b); }";
        let found = told(check, &[("crates/gateway/src/pursue.rs", text)]);
        assert!(found[0].starts_with("crates/gateway/src/pursue.rs:1: `tokio::spawn`"), "{found:?}");
        assert!(told(check, &[("crates/gateway/src/worker.rs", text)]).is_empty());
        assert!(told(check, &[("crates/gateway/tests/it/a.rs", text)]).is_empty());
    }

    #[test]
    fn a_workers_own_task_needs_such_a_place_too() {
        let text = "fn a() { set_off(b); }";
        assert_eq!(told(check, &[("crates/gateway/src/pursue.rs", text)]).len(), 1);
        assert!(told(check, &[("crates/gateway/src/consult/vector.rs", text)]).is_empty());
    }

    #[test]
    fn queues_have_bounds_and_the_environment_has_readers() {
        assert_eq!(told(check, &[("crates/admin/src/a.rs", "let a = mpsc::unbounded_channel();")]).len(), 1);
        assert_eq!(told(check, &[("crates/admin/src/a.rs", "let a = std::env::var(b);")]).len(), 1);
        assert!(told(check, &[("crates/config/src/a.rs", "let a = std::env::var(b);")]).is_empty());
        assert!(told(check, &[("crates/admin/src/a.rs", "// env::var\nlet a = \"env::var\";")]).is_empty());
    }

    #[test]
    fn a_name_says_what_a_thing_is() {
        let found = told(check, &[("crates/admin/src/a.rs", "mod utils;\nstruct PoolManager;\nstruct Pool;")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
