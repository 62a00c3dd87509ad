//! How failures of every vendor are read, classed and told.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::json;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    pairs.iter().map(pair).collect()
}

fn fault(status: u16, body: &str) -> Fault {
    fault_with(status, &[], body)
}

fn fault_with(status: u16, pairs: &[(&'static str, &str)], body: &str) -> Fault {
    refused(&Refused { status, headers: &headers(pairs), body: body.as_bytes(), wall: Duration::ZERO })
}

fn inside(body: &str) -> Fault {
    inside_success(json::parse(body.as_bytes()).unwrap())
}

#[test]
fn a_status_alone_gives_the_class() {
    for (class, statuses) in [
        (Class::Caller, [400, 404, 405, 409, 413, 415, 422].as_slice()),
        (Class::Credential, &[401, 402, 403]),
        (Class::Throttle, &[429, 529]),
        (Class::Upstream, &[301, 302, 307, 408, 424, 425, 498, 499, 500, 501, 502, 503, 504, 524]),
    ] {
        for status in statuses {
            let fault = fault(*status, "");
            assert_eq!((fault.class, fault.kind, fault.status), (class, Kind::Status, Some(*status)), "{status}");
            assert_eq!(fault.told.is_some(), class == Class::Caller, "{status}");
        }
    }
}

#[test]
fn a_503_with_retry_after_asks_for_a_pause() {
    for (value, wait) in [("2", Some(Duration::from_secs(2))), ("soon", None)] {
        let fault = fault_with(503, &[("retry-after", value)], "");
        assert_eq!((fault.class, fault.retry_after, fault.maybe_processed), (Class::Throttle, wait, false));
    }
    assert!(fault(503, "").maybe_processed);
    assert!(!fault(429, "").maybe_processed);
    assert!(!fault(401, "").maybe_processed);
    assert!(fault(529, "").maybe_processed);
}

#[test]
fn quota_and_billing_are_the_keys_trouble_and_rates_are_not() {
    for body in [
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        r#"{"error":{"code":"1113","message":"您的账户已欠费"}}"#,
        r#"{"error":{"message":"Your account balance is too low","type":"exceeded_current_quota_error"}}"#,
        r#"{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}"#,
        r#"{"error":{"code":"AccountOverdueError","message":"overdue"}}"#,
        r#"{"message":"monthly quota used up"}"#,
    ] {
        assert_eq!(fault(429, body).class, Class::Credential, "{body}");
        assert_eq!(fault(403, body).class, Class::Credential, "{body}");
    }
    for body in [
        r#"{"error":{"message":"Rate limit reached for requests. See https://x.example/account/billing","type":"requests","code":"rate_limit_exceeded"}}"#,
        r#"{"error":{"message":"Requests have exceeded call rate limit. Please go here: https://aka.ms/oai/quotaincrease","code":"429"}}"#,
        r#"{"error":"the load balancer is out of slots"}"#,
        r#"{"error":{"code":"1302","message":"并发过高"}}"#,
        "slow down",
    ] {
        assert_eq!(fault(429, body).class, Class::Throttle, "{body}");
    }
    assert_eq!(fault(400, r#"{"error":{"code":"Arrearage","message":"unpaid"}}"#).class, Class::Credential);
    let gemini = r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#;
    assert_eq!(fault(400, gemini).class, Class::Credential);
}

#[test]
fn a_prompt_too_long_is_known_in_every_wording() {
    for (status, body) in [
        (400, r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":2048}}"#,
        ),
        (400, r#"{"error":{"message":"Input token length too long"}}"#),
        (400, r#"{"error":{"message":"Your request exceeded model token limit: 8192"}}"#),
        (413, r#"{"error":"Input validation error: `inputs` must have less than 512 tokens. Given: 600"}"#),
        (422, r#"{"message":"too many tokens"}"#),
        (500, r#"{"error":{"code":500,"message":"x","type":"exceed_context_size_error"}}"#),
        (
            400,
            r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"message\":\"prompt is too long\"}"}}}"#,
        ),
    ] {
        let fault = fault(status, body);
        assert!(fault.context_overflow, "{body}");
        let told = fault.told.unwrap();
        assert_eq!(
            (fault.class, told.status, told.code.as_deref()),
            (Class::Caller, 400, Some("context_length_exceeded"))
        );
    }
    assert!(!fault(400, r#"{"error":{"message":"unknown field"}}"#).context_overflow);
}

#[test]
fn a_content_refusal_is_the_callers() {
    let azure = r#"{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,
        "innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{}}}}"#;
    let told = fault(400, azure).told.unwrap();
    assert_eq!((told.param.as_deref(), told.code.as_deref()), (Some("prompt"), Some("content_filter")));
    let moderated = r#"{"error":{"code":403,"message":"Your input was flagged"}}"#;
    assert_eq!(fault(403, moderated).class, Class::Caller);
    assert_eq!(inside(azure).class, Class::Caller);
    assert_eq!(inside(r#"{"code":"data_inspection_failed","message":"x"}"#).class, Class::Caller);
}

#[test]
fn an_error_inside_a_success_is_classed_by_what_it_says() {
    for (body, class) in [
        (r#"{"error":{"message":"boom"}}"#, Class::Upstream),
        (r#"{"error":"Unexpected endpoint or method. (POST /chat/completions)"}"#, Class::Upstream),
        (r#"{"error":{"code":502,"message":"provider down"}}"#, Class::Upstream),
        (r#"{"error":{"message":"x","type":"server_error"}}"#, Class::Upstream),
        (r#"{"error":{"code":429,"message":"slow down"}}"#, Class::Throttle),
        (r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#, Class::Throttle),
        (r#"{"error":{"message":"insufficient balance"}}"#, Class::Credential),
        (r#"{"error":{"message":"bad key","type":"authentication_error"}}"#, Class::Credential),
        (r#"{"error":{"message":"maximum context length is 10"}}"#, Class::Caller),
        (r#"{"error":{"message":"bad temperature","type":"BadRequestError","code":400}}"#, Class::Caller),
        ("{}", Class::Upstream),
        ("[]", Class::Upstream),
    ] {
        let fault = inside(body);
        assert_eq!((fault.class, fault.kind), (class, Kind::BadResponse), "{body}");
        assert_eq!(fault.told.map(|told| told.status), (class == Class::Caller).then_some(400), "{body}");
    }
}

#[test]
fn messages_are_found_wherever_vendors_put_them() {
    for (body, message, code) in [
        (r#"{"error":{"message":"m","code":"c"}}"#, "m", Some("c")),
        (r#"{"error":{"message":"m","code":404}}"#, "m", Some("404")),
        (r#"{"error":"m"}"#, "m", None),
        (r#"{"error":true,"message":"m"}"#, "m", None),
        (r#"{"code":20012,"message":"m","data":null}"#, "m", Some("20012")),
        (
            r#"{"object":"error","message":{"detail":[{"loc":["body","x"],"msg":"extra"}]},"code":null}"#,
            "body.x: extra",
            None,
        ),
        (r#"{"detail":"m"}"#, "m", None),
        (r#"{"detail":[{"loc":["body",0],"msg":"field required","type":"missing"}]}"#, "body.0: field required", None),
        (r#"{"error_msg":"m","error_code":336003}"#, "m", None),
        (r#"{"data":{"error":{"message":"m"}}}"#, "m", None),
        (r#""m""#, "m", None),
        ("<html>\r\nBad  Gateway</html>", "<html>  Bad  Gateway</html>", None),
    ] {
        let said = Said::read(body.as_bytes());
        assert_eq!((said.message.as_deref(), said.code.as_deref()), (Some(message), code), "{body}");
    }
    assert_eq!(Said::read(b" ").message, None);
    assert!(Said::read(&[0xff, 0xfe]).message.is_some());
    let long = "好".repeat(4000);
    assert_eq!(Said::read(long.as_bytes()).message.unwrap().len(), 2046);
}

#[test]
fn waits_are_read_in_every_form() {
    let wall = Duration::from_secs(784_111_777);
    let wait = |pairs: &[(&'static str, &str)]| retry_after(&headers(pairs), wall).map(|wait| wait.as_millis());
    for (value, millis) in [
        ("2", Some(2_000)),
        ("0.5", Some(500)),
        ("3600", Some(3_600_000)),
        ("1e9", Some(1_000_000_000_000)),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("inf", None),
        ("NaN", None),
        ("1e300", None),
        ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
        ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10_000)),
        ("Sun Nov  6 08:49:47 1994", Some(10_000)),
        ("Sun, 06 Nov 1994 08:49:27 GMT", None),
        ("Sun, 06 Foo 1994 08:49:47 GMT", None),
        ("Sun, 99 Nov 1994 08:49:47 GMT", None),
    ] {
        assert_eq!(wait(&[("retry-after", value)]), millis, "{value}");
    }
    assert_eq!(wait(&[("retry-after-ms", "20"), ("retry-after", "9")]), Some(20));
    assert_eq!(wait(&[("retry-after-ms", "x"), ("retry-after", "9")]), Some(9_000));
    for (value, millis) in [
        ("1s", 1_000),
        ("6m0s", 360_000),
        ("12ms", 12),
        ("1h2m3.5s", 3_723_500),
        ("7", 7_000),
        ("784111787", 784_111_787_000),
    ] {
        assert_eq!(wait(&[("x-ratelimit-reset-tokens", value)]), Some(millis), "{value}");
    }
    for nonsense in ["1x", "s", "-1s", "1s2", "99999999999999999999s1"] {
        assert_eq!(wait(&[("x-ratelimit-reset", nonsense)]), None, "{nonsense}");
    }
    assert_eq!(
        wait(&[
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-remaining-tokens", "0")
        ]),
        Some(360_000)
    );
    let google =
        r#"{"error":{"code":429,"message":"x","details":[{"@type":"google.rpc.RetryInfo","retryDelay":"38s"}]}}"#;
    assert_eq!(fault(429, google).retry_after, Some(Duration::from_secs(38)));
}

#[test]
fn secrets_and_addresses_leave_the_text_and_words_stay() {
    let clean = |text: &str| scrub(text, &["sk-provider-secret"], &["api.example.com", "vllm", "10.0.0.7", "::1"]);
    for (text, shown) in [
        ("key sk-provider-secret refused", "key [secret] refused"),
        ("key sk-provi*** and sk-provider-s… refused", "key sk-provi*** and [secret]… refused"),
        ("POST https://API.example.com:8443/v1/chat failed", "POST [upstream]/v1/chat failed"),
        ("api.example.com.", "[upstream]."),
        ("my-api.example.com and api.example.community", "my-api.example.com and api.example.community"),
        ("vllm says http://vllm/x and vllm:8000", "vllm says [upstream]/x and [upstream]"),
        ("连接10.0.0.7:80失败", "连接[upstream]失败"),
        ("连接 10.0.0.7:80 失败", "连接 [upstream] 失败"),
    ] {
        assert_eq!(clean(text), shown);
    }
    let told = fault(400, r#"{"error":{"message":"key sk-abcdefghijklmn, is \u0007odd"}}"#).told.unwrap();
    assert_eq!(told.message, "key [secret] is  odd");
}

#[test]
fn a_refusal_is_openais_error_object_whatever_it_says() {
    let read = |refusal: &Refusal| {
        serde_json::from_slice::<serde_json::Value>(&refusal_json(refusal)).unwrap()["error"].clone()
    };
    let plain = Refusal::field("messages", "\"quoted\"\n\u{1}你好🙂");
    assert_eq!(
        read(&plain),
        serde_json::json!({"message": "\"quoted\"\n\u{1}你好🙂", "type": "invalid_request_error", "param": "messages", "code": "invalid_request"})
    );
    let told = |kind: Option<&str>, code: Option<&str>, status| {
        Some(Box::new(Told {
            status,
            message: "its words".into(),
            kind: kind.map(str::to_owned),
            param: None,
            code: code.map(str::to_owned),
        }))
    };
    for (refusal_code, told, kind, code) in [
        (Code::UpstreamRefused, told(Some("BadRequestError"), Some("7"), 400), "invalid_request_error", Some("7")),
        (Code::UpstreamRefused, told(Some("api_error"), None, 422), "api_error", None),
        (Code::UpstreamRefused, told(None, None, 404), "not_found_error", None),
        (
            Code::ContextLengthExceeded,
            told(None, Some("x"), 400),
            "invalid_request_error",
            Some("context_length_exceeded"),
        ),
    ] {
        let refusal = Refusal { told, ..Refusal::new(refusal_code, "ours") };
        let expected = serde_json::json!({"message": "its words", "type": kind, "param": null, "code": code});
        assert_eq!(read(&refusal), expected);
    }
}

proptest::proptest! {
    #[test]
    fn no_wait_that_an_upstream_writes_panics(name in 0..5usize, text in "[-+0-9a-zA-Z:., ]{0,40}", bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
        let names = ["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "x-ratelimit-remaining"];
        for value in [text.as_bytes(), &bytes] {
            let Ok(value) = http::HeaderValue::from_bytes(value) else { continue };
            let mut headers = http::HeaderMap::new();
            headers.insert(names[name], value);
            let _ = retry_after(&headers, std::time::Duration::from_secs(1_796_000_000));
        }
    }

    #[test]
    fn no_error_body_panics_and_none_keeps_the_secret(before in ".{0,40}", behind in ".{0,40}") {
        let secret = "sk-a-secret-of-some-length";
        let body = format!("{before}{secret}{behind}");
        proptest::prop_assert!(!scrub(&body, &[secret], &[]).contains(secret));
        let _ = Said::read(body.as_bytes());
        let _ = Said::read(format!("{{\"error\": {}}}", crate::json::quoted(&body)).as_bytes());
    }
}
