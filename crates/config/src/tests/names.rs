//! Names of objects, by the same rules wherever they are written; and keys that open one port alone.

use std::time::Duration;

use base::{Object, ObjectKind, Secret};
use serde_json::json;

use super::{hasher, load_text, problems};
use crate::{Added, ConfigErrors, Files, Loaded, Overrides, Source};

/// Names that are refused, and what is said of them.
const REFUSED: [(&str, &str); 13] = [
    (".", "stands for a folder in paths"),
    ("..", "stands for a folder in paths"),
    ("a\u{7}", "holds U+0007, a control character"),
    ("\u{200b}", "holds U+200B, an invisible character"),
    ("a\u{200b}b", "holds U+200B, an invisible character"),
    ("\u{feff}a", "holds U+FEFF, an invisible character"),
    ("a\u{202e}b", "holds U+202E, a character that turns the direction of text"),
    ("a\u{a0}b", "holds U+00A0, a blank of a kind"),
    (" a", "with blanks around it"),
    ("a ", "with blanks around it"),
    ("cafe\u{301}", "holds U+0301 where one letter says the same; write it in Unicode's form NFC"),
    ("a${H}", "holds `${`, which would be read as a variable"),
    ("\u{212b}", "holds U+212B where one letter says the same"),
];

/// A file without objects.
const NOTHING: &str = "environment: test";

/// With one object of the admin API.
fn with(file: &str, kind: ObjectKind, name: &str, written: &str) -> Result<Loaded, ConfigErrors> {
    let source = Source::Text { name: "gateway.yaml".into(), text: file.into() };
    let object =
        Object { kind, name: name.into(), written: Secret::new(written), revision: 1, changed: Duration::ZERO };
    Files::read(&source, Overrides::default(), &|_| None).unwrap().with(Added { objects: &[object] }, &hasher())
}

/// A text in quotes, its letters beyond ASCII as escapes.
fn escaped(text: &str) -> String {
    let letter = |letter: char| match u32::from(letter) {
        0x20..0x7f => letter.to_string(),
        code => format!("\\u{code:04x}"),
    };
    format!("\"{}\"", text.chars().map(letter).collect::<String>())
}

#[test]
fn a_name_that_deceives_is_refused_in_files_and_objects_alike_and_its_letter_is_named() {
    for (name, told) in REFUSED {
        // A file would read a variable.
        let written = escaped(&name.replace("${", "$${"));
        let file = problems(&format!("clients: [{{ name: {written} }}]"));
        assert!(file.contains("].name: is a name ") && file.contains(told), "{name:?} in a file: {file}");
        assert!(file.lines().all(|line| base::illegible(line).is_none()), "shown as what it is: {file:?}");
        let object = with(NOTHING, ObjectKind::Client, name, "{}").unwrap_err().to_string();
        assert!(object.contains("].name: is a name ") && object.contains(told), "{name:?} of an object: {object}");
        let list = format!("routes: [{{ name: a, upstreams: [{{ provider: {written} }}] }}]");
        assert!(problems(&list).contains(told), "{name:?} where it is named");
    }
}

#[test]
fn names_as_people_write_them_are_good() {
    for name in ["问答", "知识库 问答", "team/chat 1", "café", "Zürich", "...", ".env", "a$b", "{x}", "チーム", "🙂"]
    {
        let written = json!(name);
        assert!(load_text(&format!("clients: [{{ name: {written} }}]"), &[]).is_ok(), "{name}");
        assert!(with(NOTHING, ObjectKind::Client, name, "{}").is_ok(), "{name}");
    }
}

#[test]
fn the_version_of_a_knowledge_base_can_be_said_in_a_header_too() {
    let text = |version: &str| {
        let version = json!(version);
        format!(
            "providers: [{{ name: a, base_url: http://a/v1 }}]\nroutes: [{{ name: r, upstreams: [{{ provider: a }}], \
             cache: {{ mode: exact, kb_version: {version} }} }}]"
        )
    };
    assert!(load_text(&text("版本 7"), &[]).is_ok());
    for wrong in ["\u{0}", "a\nb", " ", "a ", &"a".repeat(201)] {
        let told = problems(&text(wrong));
        assert!(told.contains("routes[r].cache.kb_version: "), "{wrong:?}: {told}");
    }
}

/// A token of the admin port.
const TOKEN: &str = "admin: { tokens: [{ name: otto, role: viewer, token: token-of-otto-17 }] }\n";

#[test]
fn an_admin_token_is_no_key_of_a_client_however_both_are_written() {
    let hash = format!("sha256:{}", hex(&Secret::new("token-of-otto-17").sha256()));
    let hashed = TOKEN.replace("token-of-otto-17", &hash);
    for (file, key) in [(TOKEN, "token-of-otto-17"), (TOKEN, &hash), (&hashed, "token-of-otto-17"), (&hashed, &hash)] {
        let told = problems(&format!("{file}clients: [{{ name: app, keys: [sk-other, {key}] }}]"));
        assert!(told.contains("clients[app].keys[1]: is also an admin token"), "{told}");
        assert!(told.contains("it is the admin token `otto`"), "{told}");
        assert!(!told.contains("token-of-otto-17"), "neither is printed: {told}");
        let told = with(file, ObjectKind::Client, "app", &json!({ "keys": [key] }).to_string()).unwrap_err();
        let told = told.to_string();
        assert!(told.starts_with("admin API: clients/app:1:10: clients[app].keys[0]: is also"), "{told}");
        assert!(!told.contains("otto"), "whose it is, is told to readers of the files alone: {told}");
    }
    let other = "clients: [{ name: app, keys: [sk-other] }]";
    assert!(load_text(&format!("{TOKEN}{other}"), &[]).is_ok());
    let other = other.replace("sk-other", "sk-other-than-his");
    let told = load_text(&other, &[("MAI_ADMIN_TOKEN", "sk-other-than-his")]).unwrap_err().to_string();
    assert!(told.contains("it is the admin token `MAI_ADMIN_TOKEN`"), "{told}");
}

#[test]
fn an_admin_token_that_is_short_is_refused_and_a_client_has_so_many_keys_and_no_more() {
    for short in ["a", "fifteen-letters"] {
        let told = problems(&TOKEN.replace("token-of-otto-17", short));
        assert!(told.contains("admin.tokens[otto].token: is shorter than 16 characters"), "{told}");
        assert!(!told.contains(short) || short == "a", "{told}");
        let told = load_text("environment: a", &[("MAI_ADMIN_TOKEN", short)]).unwrap_err().to_string();
        assert!(told.contains("MAI_ADMIN_TOKEN: is shorter than 16 characters"), "{told}");
    }
    assert!(load_text(&TOKEN.replace("token-of-otto-17", "sixteen-letters!"), &[]).is_ok());
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|at| format!("sk-{at}")).collect();
        format!("clients: [{{ name: app, keys: [{}] }}]", keys.join(", "))
    };
    assert!(load_text(&keys(1_000), &[]).is_ok());
    assert!(problems(&keys(1_001)).contains("clients[app].keys: holds more than 1000 keys"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
