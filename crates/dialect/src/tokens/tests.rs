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

#[test]
fn the_estimate_of_a_text_errs_high_by_the_encoding_and_not_by_much_for_prose() {
    let numbers = |many: u64, each: &dyn Fn(u64) -> String| -> String {
        // Of a linear congruence, as good as dice here.
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 16
        };
        (0..many).map(|_| each(next())).collect()
    };
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64 = |dice: u64| {
        (0..5).map(|at| char::from(letters[usize::try_from(dice >> (6 * at) & 63).unwrap()])).collect::<String>()
    };
    let han = |dice: u64| char::from_u32(0x3400 + u32::try_from(dice % 0x19b0).unwrap()).unwrap().to_string();
    let log = |dice: u64| {
        let (day, hour, part, host) = (dice % 30 + 1, dice % 24, dice % 1000, dice % 255);
        format!(
            "2026-11-{day:02}T{hour:02}:{:02}:07.{part:03}Z [{host}] 10.0.{host}.7 \"GET /a/{dice:x} HTTP/1.1\" 200\n",
            dice % 60
        )
    };
    let uuid = |dice: u64| {
        let (one, other) = (dice.wrapping_mul(0x9e37_79b9_7f4a_7c15), dice.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
        let (a, b, c, d, e) = (one >> 32, one >> 16 & 0xffff, one & 0xffff, other >> 48, other & 0xffff_ffff_ffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x} ")
    };
    let dense = [
        ("digits", numbers(500, &|dice| format!("{},", dice % 10))),
        ("coordinates", numbers(500, &|dice| format!("[{},{}] ", dice % 10, dice / 10 % 10))),
        ("prices", numbers(500, &|dice| format!("{}.{:02},", dice % 100, dice / 100 % 100))),
        ("table", numbers(500, &|dice| format!("| {} | {} |\n", dice % 100, dice / 100 % 100))),
        ("uuids", numbers(100, &uuid)),
        ("log", numbers(100, &log)),
        ("hex", numbers(200, &|dice| format!("{dice:x}"))),
        ("base64", numbers(500, &base64)),
        ("han", numbers(500, &han)),
    ];
    let tokens = |text: &str| tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64;
    for (kind, text) in &dense {
        let (guess, tokens) = (base::estimate(text.as_bytes()), tokens(text));
        assert!((tokens..=2 * tokens).contains(&guess), "{kind}: {guess} for {tokens}");
    }
    for (prose, most) in [
        ("The quick brown fox jumps over the lazy dog and runs away. ", 152),
        ("Please describe how the gateway handles rate limits and queues at peak times. ", 200),
        ("知识库网关在高峰时段如何处理限流和排队？", 180),
    ] {
        let text = prose.repeat(50);
        let (guess, tokens) = (base::estimate(text.as_bytes()), tokens(&text));
        assert!(guess >= tokens && guess * 100 <= tokens * most, "{prose}: {guess} for {tokens}");
    }
}
