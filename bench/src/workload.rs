//! What is asked and what is answered: the bodies of every measure.

use std::fmt::Write;

/// The client key that every call carries.
pub(crate) const CLIENT_KEY: &str = "sk-bench-0123456789abcdef0123456789abcdef";

/// Bytes of one server-sent event, its closing empty line included.
pub(crate) const EVENT_BYTES: usize = 250;

/// What stands before the 20 digits of the time of sending in every event.
pub(crate) const STAMP_MARK: &[u8] = br#"{"content":"@"#;

/// Digits of that time.
pub(crate) const STAMP_DIGITS: usize = 20;

/// What stands before the script of a stream in the request's body: `CHUNKS every MICROSECONDS`.
pub(crate) const SCRIPT_MARK: &[u8] = br#""user":"bench "#;

/// Inputs and dimension of the embeddings measure.
const INPUTS: usize = 32;
const DIMENSION: usize = 1024;

/// Characters of the long prompt's text, about.
const PROMPT_BYTES: usize = 200_000;

/// One call: the bytes to send, and the length that a right answer's body has.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the body that a right answer has; `None` where it is a stream.
    pub(crate) answer_bytes: Option<usize>,
}

/// A chat of about 400 bytes, answered with about 600.
pub(crate) fn short_chat() -> Call {
    let body = r#"{"model":"chat","messages":[{"role":"system","content":"You answer questions about our products from the passages given, in two sentences at most, and say so where they do not hold the answer."},{"role":"user","content":"Which of the two contracts covers a repair on site within one working day, and what does it cost per year?"}],"temperature":0.2,"max_tokens":256,"top_p":0.95}"#;
    Call { bytes: post("/v1/chat/completions", body), answer_bytes: Some(chat_answer().len()) }
}

/// A question of a route that matches by meaning, put in this way.
pub(crate) fn question(wording: &str) -> Call {
    let body = format!(
        r#"{{"model":"meaning","messages":[{{"role":"system","content":"Answer from the handbook, in two sentences at most."}},{{"role":"user","content":"{wording}"}}],"temperature":0.2,"max_tokens":256}}"#
    );
    Call { bytes: post("/v1/chat/completions", &body), answer_bytes: Some(chat_answer().len()) }
}

/// A stream of `chunks` events, one every `every_us` microseconds; 0 is as fast as it goes.
pub(crate) fn stream(chunks: u64, every_us: u64) -> Call {
    let body = format!(
        r#"{{"model":"chat","stream":true,"user":"bench {chunks} every {every_us}","messages":[{{"role":"user","content":"Tell me about the warranty, step by step."}}],"temperature":0.2}}"#
    );
    Call { bytes: post("/v1/chat/completions", &body), answer_bytes: None }
}

/// 32 short texts to embed.
pub(crate) fn embeddings() -> Call {
    let mut body = String::from(r#"{"model":"embedding","input":["#);
    for n in 0..INPUTS {
        let comma = if n == 0 { "" } else { "," };
        let _ =
            write!(body, r#"{comma}"Passage {n}: the warranty covers parts and labour for two years from delivery.""#);
    }
    body.push_str("]}");
    Call { bytes: post("/v1/embeddings", &body), answer_bytes: Some(embeddings_answer().len()) }
}

/// A chat with a prompt of 200 KB: an escaped newline every 80 characters, quotes, tabs, some Chinese as it is and as escapes.
pub(crate) fn long_prompt() -> Call {
    let mut text = String::with_capacity(PROMPT_BYTES + 128);
    let mut line = 0_usize;
    while text.len() < PROMPT_BYTES {
        text.push_str(match line % 8 {
            3 => r"保修期自交付之日起两年，包括零件和人工费用；上门服务另行计费，详见合同附件二。\n",
            5 => r#"The clause says \"within one working day\"; the annex calls it \"next day\" (see 4.2).\n"#,
            7 => r"\tTable 7\t1200\t\u4fdd\u4fee\t24 months\tper device, not per site, excluding batteries\n",
            _ => r"A repair on site is carried out within one working day after the call was taken\n",
        });
        line += 1;
    }
    let body = format!(
        r#"{{"model":"chat","messages":[{{"role":"system","content":"Answer from the passages."}},{{"role":"user","content":"{text}"}}],"temperature":0.2,"max_tokens":256}}"#
    );
    Call { bytes: post("/v1/chat/completions", &body), answer_bytes: Some(chat_answer().len()) }
}

/// The answer to every chat that is not streamed.
pub(crate) fn chat_answer() -> &'static str {
    r#"{"id":"chatcmpl-8f14e45fceea167a5a36dedd4bea2543","object":"chat.completion","created":1760000000,"model":"bench-chat","system_fingerprint":"fp_44709d6fcb","service_tier":"default","choices":[{"index":0,"message":{"role":"assistant","content":"The premium contract covers a repair on site within one working day; it costs 1,200 euros per device and year. The basic contract covers parts and labour in the workshop only, as annex 2 says in its section 4.2.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":74,"completion_tokens":52,"total_tokens":126,"prompt_tokens_details":{"cached_tokens":0}}}"#
}

/// The answer to every embeddings call of many texts: 32 vectors of 1,024 numbers, about 413 KB.
pub(crate) fn embeddings_answer() -> String {
    vectors(INPUTS)
}

/// The answer to every embeddings call of one text.
pub(crate) fn embedding_answer() -> String {
    vectors(1)
}

fn vectors(inputs: usize) -> String {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut body = String::with_capacity(430_000);
    body.push_str(r#"{"object":"list","data":["#);
    for index in 0..inputs {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(body, r#"{comma}{{"object":"embedding","index":{index},"embedding":["#);
        for n in 0..DIMENSION {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let sign = if seed & 1 == 0 { "" } else { "-" };
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(body, "{comma}{sign}0.0{:08}", (seed >> 8) % 100_000_000);
        }
        body.push_str("]}");
    }
    body.push_str(r#"],"model":"bench-embedding","usage":{"prompt_tokens":512,"total_tokens":512}}"#);
    body
}

/// One content event with a stamp of zeros, and where the stamp's digits begin.
pub(crate) fn event() -> (Vec<u8>, usize) {
    let head = concat!(
        r#"data: {"id":"chatcmpl-8f14e45fceea167a5a36","object":"chat.completion.chunk","created":1760000000,"#,
        r#""model":"bench-chat","choices":[{"index":0,"delta":{"content":"@"#
    );
    let tail = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
    let mut event = Vec::with_capacity(EVENT_BYTES);
    event.extend_from_slice(head.as_bytes());
    let stamp = event.len();
    event.resize(stamp + STAMP_DIGITS, b'0');
    event.resize(EVENT_BYTES - tail.len(), b'.');
    event.extend_from_slice(tail.as_bytes());
    (event, stamp)
}

/// What ends a stream: the finish reason, the usage where it was asked for, and the end mark.
pub(crate) fn stream_end(with_usage: bool) -> String {
    let head = r#"data: {"id":"chatcmpl-8f14e45fceea167a5a36","object":"chat.completion.chunk","created":1760000000,"model":"bench-chat","choices":"#;
    let usage = if with_usage {
        format!("{head}[],\"usage\":{{\"prompt_tokens\":20,\"completion_tokens\":50,\"total_tokens\":70}}}}\n\n")
    } else {
        String::new()
    };
    format!("{head}[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n{usage}data: [DONE]\n\n")
}

/// The bytes of a call.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench.local\r\nauthorization: Bearer {CLIENT_KEY}\r\nuser-agent: bench\r\naccept: */*\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_sizes_that_the_measures_name() {
        let body = |call: &Call| call.bytes.len() - call.bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() - 4;
        assert!((350..450).contains(&body(&short_chat())));
        assert!((550..700).contains(&chat_answer().len()));
        assert!((195_000..210_000).contains(&body(&long_prompt())));
        assert!((400_000..430_000).contains(&embeddings_answer().len()));
    }

    #[test]
    fn bodies_are_json() {
        for call in [short_chat(), stream(3, 10), embeddings(), long_prompt()] {
            let at = call.bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
            serde_json::from_slice::<serde_json::Value>(call.bytes.get(at..).unwrap()).unwrap();
        }
        serde_json::from_str::<serde_json::Value>(chat_answer()).unwrap();
        serde_json::from_str::<serde_json::Value>(&embeddings_answer()).unwrap();
    }

    #[test]
    fn an_event_is_250_bytes_and_its_stamp_is_where_it_says() {
        let (event, stamp) = event();
        assert_eq!(event.len(), EVENT_BYTES);
        assert!(event.get(..stamp).unwrap().ends_with(STAMP_MARK));
        assert!(event.get(stamp..).unwrap().starts_with(&[b'0'; STAMP_DIGITS]));
        let json = event.get(6..).unwrap();
        serde_json::from_slice::<serde_json::Value>(json).unwrap();
        for line in stream_end(true).split("\n\n").filter(|line| line.starts_with("data: {")) {
            serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ").unwrap()).unwrap();
        }
    }
}
