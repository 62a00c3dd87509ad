//! Counts against the makers' own encoders.

use proptest::prelude::*;

use super::*;

/// Texts that encodings treat differently.
const TEXTS: &[&str] = &[
    "",
    "Hello, world! It's 2026; we've got 12345 new_things (and I'LL say so).",
    "知识库网关把检索增强的问答请求转发给上游模型，并统计用量。",
    "これは日本語の文章です。カタカナとひらがなと漢字。",
    "안녕하세요. 이것은 한국어 문장입니다.",
    "🙂🙂👩‍👩‍👧‍👦 émoji naïve café",
    "   leading and trailing   \n\n\n  \t x  \r\n  ",
    "a  b   c    d\u{3000}\u{3000}e\u{a0}\u{a0}f",
    "fn main() {\n    println!(\"{}\", 1 + 2);\n}\n",
    "aGVsbG8gd29ybGQhIFRoaXMgaXMgYmFzZTY0IHRleHQ+/w==",
    "Привет, мир! ÀÉÎÕÜ straße İstanbul ΑΒΓ",
];

fn both() -> [(Tokenizer, &'static tiktoken_rs::CoreBPE); 2] {
    [
        (Tokenizer::openai(Encoding::O200k).unwrap(), tiktoken_rs::o200k_base_singleton()),
        (Tokenizer::openai(Encoding::Cl100k).unwrap(), tiktoken_rs::cl100k_base_singleton()),
    ]
}

#[test]
fn openai_counts_are_those_of_tiktoken() {
    for (ours, theirs) in both() {
        for text in TEXTS {
            assert_eq!(ours.count(text), theirs.encode_ordinary(text).len() as u64, "{text:?}");
            let long = text.repeat(40);
            assert_eq!(ours.count(&long), theirs.encode_ordinary(&long).len() as u64, "40 times {text:?}");
        }
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let text = "([a-zA-Z]{1,8}|[ \\t\\n]{1,4}|[0-9]{1,6}|[\\u{4e00}-\\u{4fff}]{1,40}|\\PC|'s|[.,/!]{1,5}){0,30}";
        let check = runner.run(&proptest::string::string_regex(text).unwrap(), |text| {
            prop_assert_eq!(ours.count(&text), theirs.encode_ordinary(&text).len() as u64);
            Ok(())
        });
        check.unwrap();
    }
}

#[test]
fn a_piece_of_any_length_is_counted_within_a_percent() {
    for (ours, theirs) in both() {
        let rare: String = (0..4000u32).filter_map(|at| char::from_u32(0x4e00 + at * 7919 % 20_000)).collect();
        let letters: String = (0..9000u32).map(|at| char::from(b'a' + (at * at % 101 % 26) as u8)).collect();
        let runs = ["a".repeat(20_000), "abcdefghij".repeat(1500), " ".repeat(10_000), "，".repeat(5000)];
        for text in runs.into_iter().chain([rare, letters]) {
            let (ours, theirs) = (ours.count(&text), theirs.encode_ordinary(&text).len() as u64);
            assert!(ours.abs_diff(theirs) * 100 <= theirs.max(100), "{ours} of {theirs}");
        }
    }
}

#[test]
fn models_are_known_by_their_names() {
    for (model, encoding) in [
        ("gpt-4o-mini", Some(Encoding::O200k)),
        ("openai/gpt-4.1", Some(Encoding::O200k)),
        ("gpt-3.5-turbo", Some(Encoding::Cl100k)),
        ("text-embedding-3-small", Some(Encoding::Cl100k)),
        ("qwen-plus", None),
        ("", None),
    ] {
        assert_eq!(Encoding::of_model(model), encoding, "{model}");
    }
}
