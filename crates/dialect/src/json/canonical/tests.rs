//! Spellings that are one document, and documents that are not one.

use proptest::prelude::*;

use super::*;

fn form(document: &str) -> Result<Vec<u8>, Unfit> {
    let mut out = Vec::new();
    let mut sink = |piece: &[u8]| out.extend_from_slice(piece);
    let mut canonical = Canonical::new(&mut sink);
    canonical.document(document.as_bytes(), |_| false)?;
    canonical.finish();
    Ok(out)
}

fn are_one(spellings: &[&str]) {
    let first = form(spellings[0]).unwrap();
    for other in spellings {
        assert_eq!(form(other).unwrap(), first, "{} and {other}", spellings[0]);
    }
}

fn all_differ(documents: &[&str]) {
    for (at, one) in documents.iter().enumerate() {
        for other in &documents[at + 1..] {
            assert_ne!(form(one).unwrap(), form(other).unwrap(), "{one} and {other}");
        }
    }
}

#[test]
fn the_order_of_members_white_space_and_escapes_do_not_matter() {
    are_one(&[
        r#"{"a":1,"b":{"c":[1,{"x":null,"y":"é"}],"d":true}}"#,
        r#" { "b" : {"d":true , "c":[ 1 ,{"y":"\u00e9","x":null}]},"a":1 } "#,
        "\u{feff}{\"\\u0061\":1,\"b\":{\"d\":true,\"c\":[1,{\"\\u0079\":\"\\u00E9\",\"x\":null}]}}",
    ]);
    are_one(&[r#""🙂/""#, r#""\ud83d\ude42\/""#, r#""\uD83D\uDE42\u002f""#]);
}

#[test]
fn numbers_are_one_where_they_are_one_decimal() {
    are_one(&["0.5", "0.50", "5e-1", "0.05E1", "50e-2", "500.0E-3", "0.5e+0", "0.5e-0"]);
    are_one(&["100", "1e2", "100.0", "1.00e+2", "0.1E3", "10000e-2"]);
    are_one(&["0", "0.0", "-0", "-0.0", "0e5", "0.000e-7", "0e99999999999999999999999999"]);
    are_one(&["1e400", "10e399", "0.1e401"]);
    are_one(&["9007199254740993", "9007199254740993.0", "9.007199254740993e15"]);
    all_differ(&["0.5", "-0.5", "0.05", "5", "50", "55", "505", "5.5", "0.55", "0.505"]);
    all_differ(&["9007199254740993", "9007199254740992", "0.1", "0.1000000000000000055511151231257827"]);
    all_differ(&["1e400", "1e401", "1e-400", "0"]);
}

#[test]
fn what_decides_stays() {
    all_differ(&[
        "null",
        "true",
        "false",
        "0",
        r#""""#,
        "[]",
        "{}",
        r#""null""#,
        r#""0""#,
        "[null]",
        "[[]]",
        "[{}]",
        r#"{"":null}"#,
        r#"{"a":null}"#,
        r#"{"a":{}}"#,
        r#"{"a":[]}"#,
    ]);
    all_differ(&["[1,2]", "[2,1]", "[12]", "[1,[2]]", "[[1],2]", "[[1,2]]", "[1,2,null]"]);
    all_differ(&[
        r#"{"a":"b","c":"d"}"#,
        r#"{"a":"d","c":"b"}"#,
        r#"{"a":"b"}"#,
        r#"{"a":"bc","":"d"}"#,
        r#"{"ab":"c"}"#,
        r#"{"a":"b","c":"d","e":null}"#,
        r#"{"A":"b","c":"d"}"#,
    ]);
    all_differ(&[r#"["a","b"]"#, r#"["ab"]"#, r#"["ab",""]"#, r#"["","ab"]"#, r#"["a\u0000b"]"#]);
    // Unicode's two spellings of one letter are two texts to a model.
    all_differ(&[r#""é""#, r#""e\u0301""#]);
}

#[test]
fn names_that_begin_alike_keep_their_order() {
    are_one(&[
        r#"{"presence_penalty":1,"presence_penalties":2,"presence":3,"presence\u0000":4}"#,
        r#"{"presence\u0000":4,"presence":3,"presence_penalties":2,"presence_penalty":1}"#,
    ]);
}

#[test]
fn members_that_are_left_out_leave_no_trace() {
    let without = |document: &str| {
        let mut out = Vec::new();
        let mut sink = |piece: &[u8]| out.extend_from_slice(piece);
        let mut canonical = Canonical::new(&mut sink);
        canonical.document(document.as_bytes(), |name| name == "user").unwrap();
        canonical.finish();
        out
    };
    assert_eq!(without(r#"{"user":{"a":1,"a":2},"b":1,"\u0075ser":2}"#), without(r#"{"b":1}"#));
    // Only at the top.
    assert_ne!(without(r#"{"b":{"user":1}}"#), without(r#"{"b":{}}"#));
}

#[test]
fn what_readers_would_not_agree_about_has_no_form() {
    for (document, why) in [
        (r#"{"a":1,"a":1}"#, Unfit::Doubled),
        (r#"{"a":1,"b":2,"\u0061":3}"#, Unfit::Doubled),
        (r#"{"b":[{"same_beginning":1,"x":2,"same_beginning":1}]}"#, Unfit::Doubled),
        (r#"["\ud83d"]"#, Unfit::NotText),
        (r#"{"\ude42":1}"#, Unfit::NotText),
        ("1e99999999999999999999", Unfit::Number),
        ("10e9223372036854775807", Unfit::Number),
        ("0.1e-9223372036854775808", Unfit::Number),
        ("", Unfit::Invalid),
        ("{", Unfit::Invalid),
        ("{}{}", Unfit::Invalid),
        ("[1,]", Unfit::Invalid),
        ("nul", Unfit::Invalid),
    ] {
        assert_eq!(form(document), Err(why), "{document}");
    }
}

#[test]
fn depth_and_number_are_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(form(&nested(CANONICAL_DEPTH)).is_ok());
    assert_eq!(form(&nested(CANONICAL_DEPTH + 1)), Err(Unfit::TooDeep));
    assert_eq!(form(&"{\"a\":".repeat(100_000)), Err(Unfit::TooDeep));
    let many = |count: usize| format!("[{}0]", "[],".repeat(count));
    assert!(form(&many(CANONICAL_MEMBERS)).is_ok());
    assert_eq!(form(&many(CANONICAL_MEMBERS + 1)), Err(Unfit::TooMany));
    // Plain elements are not remembered.
    assert!(form(&format!("[{}0]", "1,".repeat(CANONICAL_MEMBERS * 2))).is_ok());
}

/// A value of any shape, and with it another spelling of the same.
#[derive(Clone, Debug)]
enum Tree {
    Plain(&'static [&'static str]),
    Text(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        proptest::sample::select(vec![
            &["0", "-0", "0.0", "0e1"][..],
            &["0.5", "5e-1", "0.50"],
            &["-12", "-12.0", "-1.2E1", "-120e-1"],
            &["1e30", "10e29"],
            &["null"],
            &["true"],
            &["false"],
        ])
        .prop_map(Tree::Plain),
        "[a-z\"\\\\/\n知🙂]{0,6}".prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
            proptest::collection::btree_map("[a-c]{0,10}", inner, 0..6)
                .prop_map(|members| Tree::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a tree, with `choice` deciding about spelling, order and white space.
fn write(tree: &Tree, choice: &mut u64, out: &mut String) {
    let mut next = |most: usize| {
        *choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*choice >> 33) as usize % most.max(1)
    };
    out.push_str(["", " ", "\n\t"][next(3)]);
    match tree {
        Tree::Plain(spellings) => out.push_str(spellings[next(spellings.len())]),
        Tree::Text(text) => write_text(text, &mut next, out),
        Tree::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(element, choice, out);
            }
            out.push(']');
        }
        Tree::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, next(at + 1));
            }
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(&Tree::Text(name.clone()), choice, out);
                out.push(':');
                write(value, choice, out);
            }
            out.push('}');
        }
    }
    out.push_str([" ", "", "\r\n"][*choice as usize % 3]);
}

fn write_text(text: &str, next: &mut impl FnMut(usize) -> usize, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if letter.is_ascii_lowercase() && next(2) == 0 || letter > '~' && next(2) == 0 {
            out.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out.push('"');
}

/// Changes the leaf that `choice` comes upon, or adds one to an empty container.
fn change(tree: &mut Tree, choice: usize) {
    match tree {
        Tree::Plain(spellings) => *spellings = if spellings[0] == "true" { &["0.5001"] } else { &["true"] },
        Tree::Text(text) => text.push('x'),
        Tree::Array(elements) if elements.is_empty() => elements.push(Tree::Plain(&["null"])),
        Tree::Object(members) if members.is_empty() => members.push(("n".to_owned(), Tree::Plain(&["null"]))),
        Tree::Array(elements) => {
            let at = choice % elements.len();
            change(&mut elements[at], choice / 2);
        }
        Tree::Object(members) => {
            let at = choice % members.len();
            if choice.is_multiple_of(3) { members[at].0.push('x') } else { change(&mut members[at].1, choice / 2) }
        }
    }
}

proptest! {
    #[test]
    fn every_spelling_of_a_document_has_one_form(tree in tree(), one in any::<u64>(), other in any::<u64>()) {
        let (mut a, mut b) = (String::new(), String::new());
        write(&tree, &mut { one }, &mut a);
        write(&tree, &mut { other }, &mut b);
        prop_assert_eq!(form(&a).unwrap(), form(&b).unwrap(), "{} and {}", a, b);
    }

    #[test]
    fn every_changed_leaf_changes_the_form(tree in tree(), choice in any::<usize>()) {
        let mut other = tree.clone();
        change(&mut other, choice);
        let (mut a, mut b) = (String::new(), String::new());
        write(&tree, &mut 1, &mut a);
        write(&other, &mut 1, &mut b);
        prop_assert_ne!(form(&a).unwrap(), form(&b).unwrap(), "{} and {}", a, b);
    }

    #[test]
    fn nothing_that_is_sent_makes_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = form(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_json_to_the_scanner_is_never_called_invalid(text in r#"[\[\]{}:,"\\a0-9eE.+-]{0,24}"#) {
        let is_json = super::super::parse(text.as_bytes()).is_ok();
        prop_assert_eq!(is_json, !matches!(form(&text), Err(Unfit::Invalid)), "{}", text);
    }
}
