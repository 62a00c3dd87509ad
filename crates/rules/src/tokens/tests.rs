//! Guesses of how many tokens a text is, and how they get better.

use proptest::prelude::*;

use super::*;

const ENGLISH: &str = "The quick brown fox jumps over the lazy dog, and nobody in the office noticed that it did.";
const CHINESE: &str = "知识库网关把检索增强的问答请求转发给上游模型，并统计用量。";

fn guess(worth: &Worth, text: &str) -> f64 {
    worth.tokens(Amounts::of(text))
}

#[test]
fn the_first_guess_errs_high_but_not_by_half_again_for_english() {
    let worth = Worth::default();
    // Tokens in cl100k_base and o200k_base, the larger of the two.
    for (text, tokens) in [(ENGLISH, 20.0), (CHINESE, 33.0), ("12345678", 3.0), ("🙂", 2.0), ("안녕하세요", 5.0)]
    {
        assert!(guess(&worth, text) >= tokens, "{text}: {}", guess(&worth, text));
    }
    assert!(guess(&worth, ENGLISH) <= 20.0 / 0.6, "{}", guess(&worth, ENGLISH));
    assert_eq!(guess(&worth, ""), 0.0);
}

#[test]
fn words_numbers_signs_and_gaps_are_told_apart() {
    let plain = |text: &str| Amounts::of(text).plain;
    assert_eq!(plain("Hello world"), 2.0);
    assert_eq!(plain("HelloWorld"), 2.0);
    assert_eq!(plain("1234"), 2.0);
    assert!(plain(&" ".repeat(10_000)) < 400.0);
    assert_eq!(Amounts::of("知识，안ア").wide, 5.0);
    assert_eq!(Amounts::of("知识").plus(Amounts::of("a")), Amounts { plain: 1.0, wide: 2.0, other: 0.0 });
}

#[test]
fn one_report_is_enough_for_text_of_its_kind() {
    for (text, each) in [(ENGLISH.repeat(10), 0.8), (CHINESE.repeat(10), 0.6)] {
        let mut worth = Worth::default();
        let amounts = Amounts::of(&text);
        let tokens = each * (amounts.plain + amounts.wide);
        worth.learn(amounts, tokens);
        assert!((worth.tokens(amounts) - tokens).abs() < tokens * 0.05, "{} of {tokens}", worth.tokens(amounts));
    }
}

#[test]
fn what_was_learned_of_prose_holds_for_code_and_for_json() {
    // As many tokens in cl100k_base and, but for two, in o200k_base.
    let prose = "The gateway stands in front of every model that the company uses. Applications send their questions to one \
                 address, and it decides who answers them: which provider is well, which one is near its limits, and which \
                 answers were given before. Nobody has to change a program when a model is exchanged. ";
    let code = r#"def totals(orders, rate=0.19):
    """Sums orders by customer."""
    sums = {}
    for order in orders:
        if order["state"] not in ("paid", "sent"):
            continue
        net = sum(item.price * item.count for item in order["items"])
        sums[order["customer"]] = sums.get(order["customer"], 0) + net * (1 + rate)
    return sorted(sums.items(), key=lambda pair: -pair[1])[:10]
"#;
    let json = r#"{"orders":[{"id":1042,"customer":"c-17","state":"paid","items":[{"sku":"A-100","count":2,"price":19.9}]},{"id":1043,"customer":"c-18","state":"sent","items":[]}],"next":null}"#;
    let mut worth = Worth::default();
    for _ in 0..20 {
        worth.learn(Amounts::of(prose), 60.0);
    }
    for (text, tokens) in [(prose, 60.0), (code, 106.0), (json, 62.0)] {
        let guess = guess(&worth, text);
        assert!((guess - tokens).abs() < tokens * 0.1, "{guess} of {tokens}: {text}");
    }
}

#[test]
fn what_was_learned_of_one_script_says_nothing_of_another() {
    let mut worth = Worth::default();
    let before = guess(&worth, CHINESE);
    let english = Amounts::of(&ENGLISH.repeat(10));
    for _ in 0..50 {
        worth.learn(english, english.plain * 0.8);
    }
    assert!((guess(&worth, CHINESE) - before).abs() < before * 0.05);
}

#[test]
fn mixed_prompts_tell_the_scripts_apart() {
    let mut worth = Worth::default();
    for share in [1, 4, 2, 8, 3, 1, 6, 2, 5, 1] {
        let text = format!("{}{}", ENGLISH.repeat(share), CHINESE.repeat(5));
        let amounts = Amounts::of(&text);
        worth.learn(amounts, amounts.plain * 0.8 + amounts.wide * 0.7);
    }
    for (text, each) in [(ENGLISH, 0.8), (CHINESE, 0.7)] {
        let amounts = Amounts::of(text);
        let tokens = (amounts.plain + amounts.wide) * each;
        assert!((worth.tokens(amounts) - tokens).abs() < tokens * 0.1, "{} of {tokens}", worth.tokens(amounts));
    }
}

#[test]
fn a_word_that_leaves_out_what_was_cached_is_not_believed() {
    let mut worth = Worth::default();
    let amounts = Amounts::of(&ENGLISH.repeat(40));
    worth.learn(amounts, amounts.plain * 0.8);
    let learned = worth.clone();
    worth.learn(amounts, 20.0);
    assert_eq!(worth, learned);
}

#[test]
fn a_model_that_is_exchanged_is_learned_anew() {
    let mut worth = Worth::default();
    let amounts = Amounts::of(&CHINESE.repeat(10));
    for _ in 0..1000 {
        worth.learn(amounts, amounts.wide * 0.6);
    }
    for _ in 0..200 {
        worth.learn(amounts, amounts.wide * 1.2);
    }
    assert!((worth.tokens(amounts) - amounts.wide * 1.2).abs() < amounts.wide * 0.12);
}

proptest! {
    #[test]
    fn no_report_makes_a_guess_absurd(
        reports in prop::collection::vec((0.0..1e6f64, 0.0..1e6f64, 0.0..1e6f64, prop_oneof![Just(0.0), 0.0..1e9f64, Just(f64::NAN), Just(f64::INFINITY)]), 0..60),
    ) {
        let mut worth = Worth::default();
        for (plain, wide, other, tokens) in reports {
            worth.learn(Amounts { plain, wide, other }, tokens);
        }
        let tokens = worth.tokens(Amounts { plain: 100.0, wide: 100.0, other: 100.0 });
        prop_assert!((50.0..1300.0).contains(&tokens), "{tokens}");
    }
}
