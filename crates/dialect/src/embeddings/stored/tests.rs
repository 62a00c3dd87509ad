//! Every text gets its own vector, to the last bit, whoever it was asked for with.

use base::Endpoint;
use proptest::prelude::*;

use super::*;
use crate::embeddings::{Counted, Input, inputs, join, like_openai, merge, split, subset};

fn ask(input: &str, more: &str) -> Ask {
    let body = format!(r#"{{ "model":"e", "input" : {input}, "x":1.50{more} }}"#);
    Ask::read(Endpoint::Embeddings, None, Bytes::from(body)).unwrap()
}

fn view(ask: &Ask) -> &View {
    match &ask.view {
        crate::View::Embeddings(view) => view,
        other => panic!("{other:?}"),
    }
}

fn judged(ask: &Ask, body: &str) -> Answer {
    like_openai(view(ask), Bytes::copy_from_slice(body.as_bytes()), Counted::AsWritten).unwrap()
}

fn body(ask: &Ask) -> &str {
    std::str::from_utf8(&ask.body).unwrap()
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

fn floats(vector: &[u8]) -> Vec<f32> {
    vector.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn vectors_are_read_in_either_encoding() {
    let numbers = ask(r#"["a","b"]"#, "");
    let answer = judged(&numbers, r#"{"data":[{"index":1,"embedding":[1e-7,-0]},{"index":0,"embedding":[0.5, 3.0]}]}"#);
    let Vectors { each: found, model } = vectors(view(&numbers), &answer).unwrap();
    assert_eq!(model, "");
    assert_eq!(found.iter().map(|vector| floats(vector)).collect::<Vec<_>>(), [[0.5, 3.0], [1e-7, 0.0]]);
    let base64 = ask(r#""a""#, r#","encoding_format":"base64""#);
    let answer = judged(&base64, r#"{"data":[{"index":0,"embedding":"AAAAPwAAgL4AAEBA"}],"model":"e\u002d1"}"#);
    assert_eq!(vectors(view(&base64), &answer).unwrap().model, "e-1");
    assert_eq!(floats(&vectors(view(&base64), &answer).unwrap().each[0]), [0.5, -0.25, 3.0]);
}

#[test]
fn what_may_not_be_stored_is_not_read() {
    let answer =
        |body: &str| Answer { body: Bytes::from(body.to_owned()), usage: None, is_stream: false, dimension: None };
    for (more, wrong) in [
        ("", r#"{"data":[{"index":0,"embedding":[1]}]}"#),
        ("", r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#),
        ("", r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#),
        ("", r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e39]}]}"#),
        ("", r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1-2]}]}"#),
        (r#","dimensions":2"#, r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}"#),
        (r#","encoding_format":"int8""#, r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}"#),
        ("", "{}"),
        ("", ""),
    ] {
        assert!(vectors(view(&ask(r#"["a","b"]"#, more)), &answer(wrong)).is_none(), "{wrong}");
    }
}

#[test]
fn stored_vectors_are_given_in_the_encoding_asked_for() {
    let stored = [Bytes::from([0.5_f32.to_le_bytes(), 3.0_f32.to_le_bytes()].concat())];
    let tail = r#""model":"a \"b\"","usage":{"prompt_tokens":7,"total_tokens":7}}"#;
    let floats = answer("a \"b\"", &stored, Encoding::Float, 7);
    assert_eq!(
        floats,
        format!(r#"{{"object":"list","data":[{{"object":"embedding","index":0,"embedding":[0.5,3.0]}}],{tail}"#)
    );
    let base64 = answer("a \"b\"", &stored, Encoding::Base64, 7);
    assert_eq!(
        base64,
        format!(r#"{{"object":"list","data":[{{"object":"embedding","index":0,"embedding":"AAAAPwAAQEA="}}],{tail}"#)
    );
}

#[test]
fn a_subset_is_the_callers_body_with_fewer_inputs() {
    let whole = ask(r#"[ "a" , "\u0062","c" ]"#, r#","dimensions":8"#);
    let part = subset(&whole, &[2, 1]).unwrap();
    assert_eq!(body(&part), r#"{ "model":"e", "input" : ["c","\u0062"], "x":1.50,"dimensions":8 }"#);
    assert_eq!((view(&part).inputs, view(&part).dimensions), (2, Some(8)));
    assert_eq!(body(&subset(&ask("[[1,2],[3]]", ""), &[1]).unwrap()), r#"{ "model":"e", "input" : [[3]], "x":1.50 }"#);
    for alone in [r#""a""#, "[1,2]"] {
        let alone = ask(alone, "");
        assert_eq!(body(&subset(&alone, &[0]).unwrap()), body(&alone));
        assert!(subset(&alone, &[1]).is_none());
    }
    assert!(subset(&whole, &[3]).is_none());
    assert!(subset(&whole, &[]).is_none());
    assert!(subset(&ask(r#"["a","b"]"#, r#","late_chunking":true"#), &[0]).is_none());
}

#[test]
fn calls_that_differ_in_inputs_alone_become_one() {
    let (one, two, three) =
        (ask(r#""a""#, ""), ask(r#"["b", "c"]"#, ""), ask(r#"["d"]"#, r#","encoding_format":"base64""#));
    assert_eq!(body(&merge(&[&one, &two]).unwrap()), r#"{ "model":"e", "input" : ["a","b","c"], "x":1.50 }"#);
    // Whoever reads numbers gets the upstream's own digits.
    let merged = merge(&[&three, &one]).unwrap();
    assert_eq!(body(&merged), r#"{ "model":"e", "input" : ["d","a"], "x":1.50 }"#);
    assert_eq!(
        body(&merge(&[&ask("[1]", ""), &ask("[[2],[3]]", "")]).unwrap()),
        r#"{ "model":"e", "input" : [[1],[2],[3]], "x":1.50 }"#
    );
    for other in [
        ask(r#""a""#, r#","dimensions":8"#),
        ask(r#""a""#, r#","user":"u""#),
        ask(r#""a""#, r#","late_chunking":true"#),
        ask(r#""a""#, r#","encoding_format":"int8""#),
        ask("[1]", ""),
        Ask::read(Endpoint::Embeddings, None, Bytes::from(r#"{"model":"f","input":"a","x":1.5}"#)).unwrap(),
    ] {
        assert!(merge(&[&one, &other]).is_none(), "{}", body(&other));
    }
    assert!(merge(&[]).is_none());
}

#[test]
fn each_caller_gets_its_own_piece_of_a_shared_answer() {
    let (one, two) = (ask(r#""a""#, r#","encoding_format":"base64""#), ask(r#"["b","c"]"#, ""));
    let merged = merge(&[&one, &two]).unwrap();
    let answer = judged(
        &merged,
        r#"{"model":"e-1","data":[{"index":0,"embedding":[0.50],"y":1},{"embedding":[0.1000],"index":1},{"embedding":[3]}],"usage":{"prompt_tokens":9,"total_tokens":9}}"#,
    );
    let usage = |prompt| Some(Usage { prompt, ..Usage::default() });
    let first = piece(&merged, &answer, 0..1, Encoding::Base64, usage(2)).unwrap();
    assert_eq!(
        text(&first),
        r#"{"model":"e-1","data":[{"index":0,"embedding":"AAAAPw==","y":1}],"usage":{"prompt_tokens":2,"total_tokens":2}}"#
    );
    let second = piece(&merged, &answer, 1..3, Encoding::Float, usage(7)).unwrap();
    assert_eq!(
        text(&second),
        r#"{"model":"e-1","data":[{"embedding":[0.1000],"index":0},{"index":1,"embedding":[3]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#
    );
    assert_eq!(second.usage.unwrap().prompt, 7);
    assert!(piece(&merged, &answer, 1..4, Encoding::Float, None).is_none());
    assert_eq!(shares(&[&one, &two], 9).iter().sum::<u64>(), 9);
}

#[test]
fn tokens_are_shared_out_by_size_and_none_is_lost() {
    let (short, long) = (ask(r#""a""#, ""), ask(&format!("{:?}", "word ".repeat(99)), ""));
    let shared = shares(&[&short, &long, &short], 101);
    assert_eq!(shared.iter().sum::<u64>(), 101);
    assert!(shared[1] > 90, "{shared:?}");
    assert_eq!(shares(&[], 5), Vec::<u64>::new());
    assert_eq!(shares(&[&short, &short], u64::MAX).iter().sum::<u64>(), u64::MAX);
}

/// An upstream whose vector of a text is made of its number, answering in any order.
fn upstream(ask: &Ask, shift: usize) -> String {
    let texts: Vec<String> = inputs(ask)
        .iter()
        .map(|input| match input {
            Input::Text(Some(text)) => text.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    let mut items: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| format!(r#"{{"index":{at},"embedding":[{text}, 0.1{text}]}}"#))
        .collect();
    let by = shift % items.len();
    items.rotate_left(by);
    format!(r#"{{"data":[{}],"usage":{{"prompt_tokens":1,"total_tokens":1}}}}"#, items.join(","))
}

proptest! {
    #[test]
    fn every_text_gets_its_own_vector(
        texts in proptest::collection::vec(0..50_u32, 1..12),
        known in any::<u16>(),
        most in 1..5_usize,
        shift in 0..7_usize,
        base64 in any::<bool>(),
    ) {
        let encoding = if base64 { r#","encoding_format":"base64""# } else { "" };
        let list: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
        let whole = ask(&format!("[{}]", list.join(",")), encoding);
        let right = |text: u32| {
            let numbers = [text as f32, format!("0.1{text}").parse::<f32>().unwrap()];
            Bytes::from(numbers.map(f32::to_le_bytes).concat())
        };
        let missing: Vec<usize> = (0..texts.len()).filter(|at| known >> at & 1 == 0).collect();
        let mut found: Vec<Bytes> = texts.iter().map(|text| right(*text)).collect();
        if let Some(part) = subset(&whole, &missing) {
            let answers = split(&part, most).iter().map(|part| judged(part, &upstream(part, shift))).collect();
            let fresh = vectors(view(&part), &join(answers).unwrap()).unwrap().each;
            for (place, vector) in missing.iter().zip(fresh) {
                prop_assert_eq!(&vector, &right(texts[*place]));
                found[*place] = vector;
            }
        }
        let given = Answer {
            body: answer("e", &found, view(&whole).encoding, 1), usage: None, is_stream: false, dimension: None,
        };
        prop_assert_eq!(vectors(view(&whole), &given).unwrap().each, found);
    }

    #[test]
    fn every_caller_of_a_shared_call_gets_its_own(
        calls in proptest::collection::vec((proptest::collection::vec(0..50_u32, 1..4), any::<bool>()), 1..5),
        shift in 0..7_usize,
    ) {
        let asks: Vec<Ask> = calls.iter().map(|(texts, base64)| {
            let list: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
            ask(&format!("[{}]", list.join(",")), if *base64 { r#","encoding_format":"base64""# } else { "" })
        }).collect();
        let borrowed: Vec<&Ask> = asks.iter().collect();
        let merged = merge(&borrowed).unwrap();
        let shared = judged(&merged, &upstream(&merged, shift));
        let mut from = 0;
        for (call, ask) in calls.iter().zip(&asks) {
            let range = from..from + call.0.len();
            from = range.end;
            let own = piece(&merged, &shared, range, view(ask).encoding, None).unwrap();
            let alone = judged(ask, &upstream(ask, 0));
            prop_assert_eq!(vectors(view(ask), &own).unwrap().each, vectors(view(ask), &alone).unwrap().each);
        }
    }
}
