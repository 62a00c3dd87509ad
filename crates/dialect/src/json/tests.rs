//! What the scanner accepts, what it hands out, and what edits do.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn value(text: &str) -> Value<'_> {
    parse(text.as_bytes()).unwrap()
}

#[test]
fn members_come_in_order_with_their_places() {
    let text = r#" { "a" : 1 , "b\u00e9" : [ {"x":null} , "]" ], "a":"z" } "#;
    let mut seen = Vec::new();
    let root = scan(text.as_bytes(), |member| {
        let raw = text.get(member.key_span.range()).unwrap();
        seen.push((member.key.to_string(), raw.to_owned(), member.value.raw().to_owned()));
    })
    .unwrap();
    assert_eq!(root.raw(), text.trim());
    let expected = [("a", "\"a\"", "1"), ("bé", "\"b\\u00e9\"", r#"[ {"x":null} , "]" ]"#), ("a", "\"a\"", "\"z\"")];
    assert_eq!(seen, expected.map(|(key, raw, value)| (key.to_owned(), raw.to_owned(), value.to_owned())));
    assert_eq!(root.members().count(), 3);
    assert_eq!(root.get("bé").unwrap().elements().map(Value::kind).collect::<Vec<_>>(), [Kind::Object, Kind::String]);
}

#[test]
fn what_is_inside_of_named_members_is_shown_on_the_way() {
    let text = r#"{"a":[{"x":1},2,[{"y":3}],{"z":{"deep":4}}],"b":{"x":5},"o":{"q":6},"a":7}"#;
    let mut seen = String::new();
    scan_opening(text.as_bytes(), &["a", "o"], |within, member| {
        let within = within.unwrap_or("-");
        seen.push_str(&format!("{within}.{}={};", member.key, member.value.raw()));
    })
    .unwrap();
    assert_eq!(
        seen,
        r#"a.x=1;a.z={"deep":4};-.a=[{"x":1},2,[{"y":3}],{"z":{"deep":4}}];-.b={"x":5};o.q=6;-.o={"q":6};-.a=7;"#
    );
}

#[test]
fn accessors_answer_for_their_own_kind_only() {
    assert_eq!(value("true").as_bool(), Some(true));
    assert_eq!(value("18446744073709551615").as_u64(), Some(u64::MAX));
    for not_whole in ["18446744073709551616", "-1", "1.0", "1e3", "\"1\"", "null"] {
        assert_eq!(value(not_whole).as_u64(), None, "{not_whole}");
    }
    assert_eq!(value("1.5e1").as_f64(), Some(15.0));
    assert_eq!(value(r#""a\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude42""#).as_str().unwrap(), "a\"\\/\u{8}\u{c}\n\r\tAé🙂");
    assert!(value("null").is_null());
    for empty in ["[ ]", "{\n}", "\"\""] {
        assert!(value(empty).is_empty(), "{empty}");
    }
    for full in ["[0]", "{\"\":0}", "\" \"", "0", "null"] {
        assert!(!value(full).is_empty(), "{full}");
    }
}

#[test]
fn half_a_surrogate_pair_is_json_but_no_text() {
    for lone in [r#""\ud83d""#, r#""\ude00x""#, r#""\ud83d\ud83d""#, r#""\ud83d\n""#] {
        assert_eq!(value(lone).as_str(), None, "{lone}");
        assert!(value(lone).as_str_lossy().unwrap().starts_with('\u{fffd}'));
        assert_eq!(value(lone).raw(), lone);
    }
    assert_eq!(value(r#""\ud83d\ud83d\ude42""#).as_str_lossy().unwrap(), "\u{fffd}🙂");
}

#[test]
fn errors_say_where_and_why() {
    for (text, at, reason) in [
        ("", 0, "expected a value"),
        ("{\"a\":1", 6, "expected a comma or '}'"),
        ("[1 2]", 3, "expected a comma or ']'"),
        ("[1,]", 3, "expected a value"),
        ("{\"a\":1,}", 7, "expected a member's name in double quotes"),
        ("{\"a\" 1}", 5, "expected a colon"),
        ("\"abc", 4, "the string does not end"),
        ("\"a\nb\"", 2, "a control character inside a string must be escaped"),
        ("\"\\x\"", 2, "unknown escape"),
        ("\"\\u12g4\"", 5, "expected four hexadecimal digits"),
        ("01", 1, "a number must not begin with 0"),
        ("1.", 2, "expected a digit"),
        ("{} x", 3, "something follows the document"),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap_err(), Error { at, reason }, "{text}");
    }
    assert_eq!(parse(b"\"\xe4\xbd\"").unwrap_err(), Error { at: 1, reason: "invalid UTF-8" });
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH).as_bytes()).is_ok());
    assert_eq!(parse(nested(DEPTH + 1).as_bytes()).unwrap_err().reason, "nested too deeply");
    assert!(parse("{\"a\":".repeat(100_000).as_bytes()).is_err());
    for inside in ["{\"b\":", "[", "[{\"b\":"] {
        let close: String = inside.chars().rev().filter_map(|open| "]}".chars().nth("[{".find(open)?)).collect();
        for depth in DEPTH - inside.matches(['[', '{']).count()..=DEPTH {
            let text = format!("{{\"a\":{inside}{}{close}}}", nested(depth));
            let opened = scan_opening(text.as_bytes(), &["a"], |_, _| {});
            assert_eq!(opened.err(), parse(text.as_bytes()).err(), "{inside} {depth}");
        }
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(value("\u{feff}{}").span(), Span { start: 3, end: 5 });
}

#[test]
fn no_edit_is_no_copy() {
    let body = Bytes::from_static(b"{}");
    assert_eq!(Patch::new().apply(&body).as_ptr(), body.as_ptr());
}

#[test]
fn untouched_text_survives_to_the_byte() {
    let body =
        Bytes::from_static(b"{ \"n\" : 0.50 ,\n\t\"model\":\"a\", \"big\":123456789012345678901234567890,\"z\":null }");
    let root = parse(&body).unwrap();
    let mut patch = Patch::new();
    patch.replace(root.get("model").unwrap().span(), "\"b\"");
    patch.insert_into(root, "stream_options", "{}");
    assert_eq!(
        patch.apply(&body),
        "{ \"n\" : 0.50 ,\n\t\"model\":\"b\", \"big\":123456789012345678901234567890,\"z\":null,\"stream_options\":{} }"
    );
}

#[test]
fn a_member_leaves_with_exactly_one_comma() {
    for (text, keys, left) in [
        (r#"{"a":1}"#, "a", "{}"),
        (r#"{ "a":1 }"#, "a", "{  }"),
        (r#"{"a":1, "b":2}"#, "a", r#"{"b":2}"#),
        (r#"{"a":1 , "b":2 }"#, "b", r#"{"a":1  }"#),
        (r#"{"a":1,"b":2,"c":3}"#, "b", r#"{"a":1,"c":3}"#),
        (r#"{"x":1,"a":1,"b":2}"#, "ab", r#"{"x":1}"#),
        (r#"{"a":1,"b":2}"#, "ab", "{}"),
        (r#"{"a":1,"x":2,"b":3}"#, "ab", r#"{"x":2}"#),
    ] {
        let body = Bytes::from_static(text.as_bytes());
        let mut patch = Patch::new();
        for member in parse(&body).unwrap().members().filter(|member| keys.contains(&*member.key)) {
            patch.remove(&member);
        }
        assert_eq!(patch.apply(&body), left, "{text}");
    }
}

fn json_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just("\"a\":"),
        Just("\"b\""),
        Just("0"),
        Just("-"),
        Just("12"),
        Just("."),
        Just("e"),
        Just("+"),
        Just("null"),
        Just("true"),
        Just("false"),
        Just(" "),
        Just("\n"),
        Just("\\n"),
        Just("\\u00e9"),
        Just("é"),
        Just("\u{1}"),
        Just("\u{c}"),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Tree;
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Tree::from),
        ".{0,40}".prop_map(Tree::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
            proptest::collection::vec((".{0,6}", inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn same(ours: Value<'_>, theirs: &serde_json::Value) -> bool {
    use serde_json::Value as Tree;
    match theirs {
        Tree::Null => ours.is_null(),
        Tree::Bool(flag) => ours.as_bool() == Some(*flag),
        Tree::Number(number) => ours.raw() == number.to_string() || ours.as_f64() == number.as_f64(),
        Tree::String(text) => ours.as_str().as_deref() == Some(text),
        Tree::Array(items) => {
            ours.elements().count() == items.len()
                && ours.elements().zip(items).all(|(ours, theirs)| same(ours, theirs))
        }
        Tree::Object(members) => {
            ours.members().count() == members.len()
                && ours
                    .members()
                    .all(|member| members.get(&*member.key).is_some_and(|theirs| same(member.value, theirs)))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn accepts_what_serde_json_accepts(text in json_like()) {
        prop_assert_eq!(parse(text.as_bytes()).is_ok(), serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn opening_changes_no_judgement(inside in json_like(), tree in tree()) {
        for text in [format!("{{\"a\":{inside}}}"), format!("{{\"a\":{tree}}}")] {
            let mut shown = Vec::new();
            let opened = scan_opening(text.as_bytes(), &["a"], |within, member| {
                if within.is_some() {
                    shown.push((member.key_span, member.value.span()));
                }
            });
            prop_assert_eq!(opened.err(), parse(text.as_bytes()).err(), "{}", text);
            let Ok(root) = opened else { continue };
            let found: Vec<_> = root.members().filter(|member| member.key == "a").flat_map(|member| {
                let objects = member.value.elements().chain([member.value]);
                objects.flat_map(Value::members).map(|member| (member.key_span, member.value.span())).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(shown, found);
        }
    }

    #[test]
    fn any_bytes_are_judged_alike(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(parse(&bytes).is_ok(), serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }

    #[test]
    fn reads_what_serde_json_writes(tree in tree(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
        prop_assert!(same(parse(text.as_bytes()).unwrap(), &tree));
    }

    #[test]
    fn quotes_any_text(text in "\\PC{0,80}|[\\x00-\\x40]{0,80}") {
        let json = quoted(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text.as_str());
        prop_assert_eq!(value(&json).as_str().unwrap(), text);
    }

    #[test]
    fn edits_equal_the_same_edits_on_a_tree(
        members in proptest::collection::vec(("[a-f]", tree()), 0..6), choice in any::<u32>(), pretty in any::<bool>(),
        added in proptest::collection::vec("[x-z]", 0..3),
    ) {
        let mut tree: serde_json::Map<String, serde_json::Value> = members.into_iter().collect();
        let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
        let body = Bytes::from(text);
        let root = parse(&body).unwrap();
        let mut patch = Patch::new();
        for (index, member) in root.members().enumerate() {
            match choice >> (2 * index) & 3 {
                0 => {
                    patch.remove(&member);
                    tree.shift_remove(&*member.key);
                }
                1 => {
                    patch.replace(member.value.span(), "[1]");
                    tree.insert(member.key.to_string(), serde_json::json!([1]));
                }
                _ => {}
            }
        }
        let distinct: std::collections::BTreeSet<String> = added.into_iter().collect();
        for key in distinct {
            patch.insert_into(root, &key, "true");
            tree.insert(key, true.into());
        }
        let edited = patch.apply(&body);
        let read: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&edited).unwrap();
        prop_assert_eq!(read.keys().collect::<Vec<_>>(), tree.keys().collect::<Vec<_>>());
        prop_assert_eq!(read, tree);
    }
}
