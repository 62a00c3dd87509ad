//! `${VAR}`, `${VAR:-default}` and `$${`.

use super::{load_text, problems};

const VARIABLES: &[(&str, &str)] = &[
    ("HOST", "api.example.com"),
    ("KEY", "sk-from-variable"),
    ("MANY", "64"),
    ("EMPTY", ""),
    ("LEVEL", "debug"),
    ("WAIT", "5s"),
    ("BAD", "leak-me"),
];

fn fault(text: &str) -> String {
    load_text(text, VARIABLES).expect_err("must not be sound").to_string()
}

#[test]
fn variables_stand_anywhere_in_text() {
    let text = r#"
environment: "${NOPE:-staging}-${MANY}"
log_level: ${LEVEL}
shutdown_grace: ${WAIT}
providers:
  - name: cloud
    base_url: "https://${HOST}:${PORT:-8443}/v1"
    api_key: ${KEY}
    pool: { max_connections: "${MANY}" }
"#;
    let snapshot = load_text(text, VARIABLES).unwrap().snapshot;
    assert_eq!(snapshot.general.environment, "staging-64");
    assert_eq!(snapshot.general.log_level, "debug");
    assert_eq!(snapshot.general.shutdown_grace.as_secs(), 5);
    let cloud = &snapshot.providers[0];
    assert_eq!((cloud.origin.host.as_str(), cloud.origin.port), ("api.example.com", 8443));
    assert_eq!(cloud.keys[0].secret.expose(), "sk-from-variable");
    assert_eq!(cloud.pool.max_connections, 64);
}

#[test]
fn an_escaped_dollar_is_literal() {
    let snapshot = load_text("data_dir: 'a$${b}$c$'", &[]).unwrap().snapshot;
    assert_eq!(snapshot.general.data_dir.to_str(), Some("a${b}$c$"));
}

#[test]
fn a_default_also_replaces_an_empty_variable_and_may_be_empty_itself() {
    let environment = |text: &str| load_text(text, VARIABLES).unwrap().snapshot.general.environment;
    assert_eq!(environment("environment: '${EMPTY:-x}'"), "x");
    assert_eq!(environment("environment: 'a${NOPE:-}b'"), "ab");
    assert_eq!(environment("environment: 'a${NOPE:-:-}b'"), "a:-b");
}

#[test]
fn a_missing_variable_is_named_with_its_place_and_told_once() {
    assert_eq!(
        problems("max_body: ${NOPE}\nclients:\n  - name: c\n    keys: ['${A_KEY}', \"${B_KEY}\"]\n"),
        "gateway.yaml:1:11: max_body: the variable NOPE is not set; set it, or write `${NOPE:-default}`\n\
         gateway.yaml:4:12: clients[c].keys[0]: the variable A_KEY is not set; set it, or write `${A_KEY:-default}`\n\
         gateway.yaml:4:24: clients[c].keys[1]: the variable B_KEY is not set; set it, or write `${B_KEY:-default}`"
    );
}

#[test]
fn what_is_no_variable_is_not_repeated() {
    let text = fault("environment: '${sk-secret}'");
    assert!(text.contains("is not a variable's name") && !text.contains("sk-secret"), "{text}");
    assert_eq!(
        fault("environment: '${HOST'"),
        "gateway.yaml:1:14: environment: `${` has no `}`; write `$${` for a literal `${`"
    );
    assert!(fault("environment: '${HOST:-${KEY}}'").contains("holds another variable"));
}

#[test]
fn values_of_variables_are_never_printed() {
    for text in [
        "max_body: ${BAD}",
        "shutdown_grace: ${BAD}",
        "log_level: ${BAD}",
        "listen: ${BAD}",
        "providers: [{ name: a, base_url: '${BAD}' }]",
        "providers: [{ name: a, base_url: 'http://a/v1', protocol: '${BAD}' }]",
        "providers: [{ name: '${BAD}', base_url: x }]",
        "routes: [{ name: r, match: { path: '${BAD}' }, upstreams: [{ provider: '${BAD}' }], split: [{ when: { percent: 1 }, to: '${BAD}' }] }]",
        "tls: { cert: '${BAD}', key: '${BAD}' }",
        "environment: '${EMPTY}'",
    ] {
        let printed = fault(text);
        assert!(!printed.contains("leak-me"), "{printed}");
    }
}

#[test]
fn an_empty_key_from_a_variable_is_refused() {
    assert_eq!(
        fault("providers: [{ name: a, base_url: http://a, api_key: '${EMPTY}' }]"),
        "gateway.yaml:1:53: providers[a].api_key: is empty (its variable is set, but to nothing)"
    );
}
