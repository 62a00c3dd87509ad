//! The steps of one request know nothing of each other: `serve` alone knows them and their order.

use super::Findings;
use super::graph::Graph;
use crate::tree::Tree;

const FOLDER: &str = "crates/gateway/src";

/// What every step may import: no step of the story, but what the story is told with.
const SUPPORT: &[&str] = &[
    "alerts",
    "bodies",
    "cache",
    "caller",
    "embeddings",
    "limits",
    "live",
    "net",
    "permit",
    "quota",
    "records",
    "reply",
    "running",
    "semantic_cache",
    "trail",
    "upstream",
    "webhooks",
    "worker",
];

/// A step, and the steps that it may import all the same, each with its reason.
const STEPS: &[(&str, &[(&str, &str)])] = &[
    ("identify", &[]),
    ("understand", &[]),
    ("shape", &[]),
    ("models", &[]),
    ("admit", &[]),
    ("recall", &[("consult", "how a question is put to an embeddings route decides what it may be compared with")]),
    ("inputs", &[]),
    (
        "consult",
        &[
            ("shape", "its calls keep to their routes' parameters"),
            ("inputs", "a question's vector is stored as every input's is"),
            ("plan", "each of its calls has a plan of its own"),
            ("pursue", "each is pursued by itself"),
            ("attempt", "what it gets is what attempts land"),
        ],
    ),
    ("stake", &[]),
    ("plan", &[]),
    ("attempt", &[]),
    ("pursue", &[("attempt", "an attempt is one try of the pursuit: its child")]),
    (
        "batch",
        &[
            ("plan", "each part has a plan of its own"),
            ("pursue", "each part is pursued by itself"),
            ("attempt", "the parts' answers are what attempts land"),
        ],
    ),
    ("relay", &[("attempt", "it takes over the stream that an attempt has opened")]),
    ("mirror", &[("attempt", "a copy is one try, of which nobody waits for the answer")]),
    ("degrade", &[]),
    ("refuse", &[]),
    ("background::probe", &[]),
    ("background::webhook_delivery", &[]),
    ("background::telemetry_export", &[]),
    (
        "explain",
        &[
            ("understand", "it tells the same story up to the plan, and sends nothing"),
            ("shape", "what would be changed is part of that story"),
            ("recall", "so is the key that its answer would be stored under"),
        ],
    ),
];

/// Those that know the steps.
const SPINE: [(&str, &[&str]); 2] = [
    // It hands requests to the spine.
    ("worker", &["serve"]),
    // A reply's body may be a stream in passage.
    ("reply", &["relay"]),
];

/// The folder whose modules are steps of their own, that know nothing of each other.
const BACKGROUND: &str = "background";

/// What the tables call a module: its first part, with the second where that is a step by itself.
fn name(module: &[String]) -> Option<String> {
    let parts = if module.first()? == BACKGROUND { 2 } else { 1 };
    Some(module.iter().take(parts).cloned().collect::<Vec<_>>().join("::"))
}

pub fn check(tree: &Tree, found: &mut Findings) {
    for reference in Graph::of(tree, FOLDER).references() {
        let (Some(from), Some(to)) = (name(&reference.from), name(&reference.to)) else { continue };
        if from == to || from == "serve" || SUPPORT.contains(&to.as_str()) {
            continue;
        }
        let (path, line) = (&reference.file.path, reference.file.line(reference.at));
        if let Some((_, may)) = STEPS.iter().find(|(name, _)| *name == from) {
            if !may.iter().any(|(name, _reason)| *name == to) {
                found.add(
                    path,
                    line,
                    format!("the step `{from}` imports the step `{to}`; let `serve` hand over what is needed, or move it to a module below both"),
                );
            }
        } else if SUPPORT.contains(&from.as_str()) {
            if !SPINE.iter().any(|(name, may)| *name == from && may.contains(&to.as_str())) {
                found.add(path, line, format!("`{from}` serves every step and may import none, but imports `{to}`"));
            }
        } else {
            found.add(
                path,
                line,
                format!("`{from}` is neither step nor support; give it a row in xtask/src/tidy/steps.rs"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_step_that_imports_a_step_is_found() {
        let told = told(
            check,
            &[
                ("crates/gateway/src/plan.rs", "use crate::live::A;\nuse crate::{caller, identify::B};"),
                ("crates/gateway/src/live.rs", ""),
                ("crates/gateway/src/caller/mod.rs", ""),
                ("crates/gateway/src/identify.rs", "//! I."),
            ],
        );
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("crates/gateway/src/plan.rs:2: the step `plan` imports the step `identify`"));
    }

    #[test]
    fn what_runs_in_the_background_knows_nothing_of_its_like() {
        let files = [
            ("crates/gateway/src/background/mod.rs", "//! B."),
            ("crates/gateway/src/background/probe.rs", "use super::telemetry_export::A;\nuse crate::live::B;"),
            ("crates/gateway/src/background/telemetry_export.rs", "//! E."),
            ("crates/gateway/src/live.rs", "//! L."),
        ];
        let told = told(check, &files);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("the step `background::probe` imports the step `background::telemetry_export`"));
    }

    #[test]
    fn children_and_the_spine_may() {
        let files = [
            ("crates/gateway/src/serve.rs", "use crate::plan::a;"),
            ("crates/gateway/src/pursue.rs", "use crate::attempt::b;"),
            ("crates/gateway/src/attempt.rs", "//! A."),
            ("crates/gateway/src/plan.rs", "//! P."),
        ];
        assert!(told(check, &files).is_empty());
    }

    #[test]
    fn support_imports_no_step_and_a_new_module_needs_a_row() {
        let files = [
            ("crates/gateway/src/live.rs", "use crate::plan::a;"),
            ("crates/gateway/src/new.rs", "use crate::plan::a;"),
            ("crates/gateway/src/plan.rs", "//! P."),
        ];
        let told = told(check, &files);
        assert!(told[0].contains("`live` serves every step") && told[1].contains("`new` is neither"), "{told:?}");
    }
}
