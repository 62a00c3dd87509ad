//! No input panics, hangs or grows without bound.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::{load_text, problems, sound};
use crate::{Source, load, yaml};

#[test]
fn aliases_and_merge_keys_work() {
    let loaded = sound(
        "providers:\n  - &base { name: a, base_url: http://a, pool: &pool { idle_timeout: 5s } }\n  - { <<: *base, name: b }\n  - { name: c, base_url: http://c, pool: *pool }\n",
    );
    let idle: Vec<u64> =
        loaded.snapshot.providers.iter().map(|provider| provider.pool.idle_timeout.as_secs()).collect();
    assert_eq!(idle, [5, 5, 5]);
    assert_eq!(&*loaded.snapshot.providers[1].name, "b");
}

#[test]
fn an_alias_bomb_is_refused_in_bounded_memory() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let problems = problems(&text);
    assert!(problems.contains("anchors and aliases expand to more than 16 MiB"), "{problems}");
}

#[test]
fn an_alias_inside_its_own_anchor_is_refused() {
    assert_eq!(
        problems("a: &a [*a]\n"),
        "gateway.yaml:1:8: this alias stands inside its own anchor; write the value out"
    );
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000), "? ".repeat(100_000)] {
        problems(&text);
    }
    let levels = |count: usize| format!("params: {}{}", "[".repeat(count), "]".repeat(count));
    assert!(problems(&levels(64)).contains("nested deeper than 64 levels"));
    assert!(!problems(&levels(63)).contains("nested deeper"));
}

#[test]
fn more_values_than_memory_is_for_are_refused() {
    let read = |most: usize, text: &str| match yaml::parse_within(most, text, &"gateway.yaml".into()) {
        Ok(_) => String::new(),
        Err(problems) => problems[0].to_string(),
    };
    let lists = format!("a: [{}]", ["[]"; 100].join(","));
    assert_eq!(read(102, &lists), "", "with the list itself, and the whole");
    assert!(read(101, &lists).contains("the text holds more than 101 values; divide it into several"));
    let mappings = format!("a: [{}]", ["{k: }"; 50].join(","));
    assert_eq!((read(102, &mappings).as_str(), read(101, &mappings).is_empty()), ("", false), "keys are none");
}

#[test]
fn a_text_of_empty_lists_as_large_as_may_be_is_refused() {
    let text = format!("a: [{}]", ["[]"; (8 << 20) / 3 - 2].join(","));
    assert!(problems(&text).contains("the text holds more than 1000000 values"));
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let text = "#".repeat((8 << 20) + 1);
    assert_eq!(problems(&text), "gateway.yaml: the text is larger than 8 MiB");
}

/// Words from which mostly sound configurations and their near misses are made.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "providers",
            "routes",
            "clients",
            "name",
            "base_url",
            "upstreams",
            "upstream",
            "url",
            "provider",
            "model",
            "match",
            "path",
            "keys",
            "timeout",
            "attempt",
            "limit",
            "qps",
            "cache",
            "semantic",
            "split",
            "when",
            "to",
            "headers",
            "${X}",
            "${X:-1}",
            "$${",
            "${",
            "http://a/v1",
            "/v1/embeddings",
            "1",
            "0.5",
            "3s",
            "10MiB",
            "null",
            "~",
            "true",
            "\"",
            "'",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            ": ",
            "- ",
            "\n",
            "\n  ",
            "\n    ",
            "&a ",
            "*a",
            "<<: *a",
            "!!str ",
            "|\n",
            ">-\n",
            "#",
            "---\n",
            "? ",
            "%YAML 1.2\n",
            "知识库",
            "\u{feff}",
            "\t",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_of_any_kind_does_not_panic(words in prop::collection::vec(word(), 0..60)) {
        let _ = load_text(&words.concat(), &[("X", "x")]);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "(?s).{0,200}") {
        let _ = load_text(&text, &[]);
    }
}

#[test]
fn arbitrary_bytes_in_a_file_do_not_panic() {
    let folder = super::files::Folder::new("bytes");
    let path = folder.path().join("gateway.yaml");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..200 {
        let bytes = prop::collection::vec(any::<u8>(), 0..200).new_tree(&mut runner).unwrap().current();
        std::fs::write(&path, bytes).unwrap();
        let _ = load(&Source::Path(path.clone()), &|_| None, &super::hasher());
    }
}
