//! One request as a story: what it was, and every decision and attempt on a line of time.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::{clean, terminal};
use crate::{text, when};

/// Columns of the bars of a time line.
const BAR: u64 = 24;

/// One line of the time line.
struct Beat {
    at: u64,
    /// What it stands behind of: its microsecond, and what comes first within one.
    order: (u64, u8),
    /// How long it took; nothing for what takes no time.
    took: Option<u64>,
    words: String,
}

/// What is decided because a try has failed, where the clock has not moved since.
const FOLLOWS_A_TRY: [&str; 3] = ["retry_waits", "retry_budget_spent", "upstream_rests"];

impl Beat {
    fn at(of: &Value, rank: u8, took: Option<u64>, words: String) -> Self {
        Self { at: number(of, "at_ms").unwrap_or_default(), order: (micros(of, "at_ms"), rank), took, words }
    }
}

/// The whole story, for people.
pub fn told(record: &Value, now: Timestamp) -> String {
    let mut lines = vec![head(record, now), path(record), ending(record)];
    let spent = spent(record);
    if !spent.is_empty() {
        lines.push(spent);
    }
    let whole = number(record, "ms").unwrap_or_default();
    let mut beats = beats(record, whole);
    beats.sort_by_key(|beat| beat.order);
    let longest =
        beats.iter().map(|beat| beat.at + beat.took.unwrap_or_default()).max().unwrap_or_default().max(whole).max(1);
    let width = beats.iter().map(|beat| beat.at.to_string().len()).max().unwrap_or_default();
    lines.push(String::new());
    for beat in beats {
        let line = format!("{:>width$} ms  {}  {}", beat.at, bar(&beat, longest), beat.words);
        lines.push(terminal().map_or_else(|| line.clone(), |most| crate::table::cut(&line, most)));
    }
    lines.join("\n")
}

/// What was asked and answered, below the story.
pub fn content(kept: &Value) -> String {
    let mut lines = Vec::new();
    for name in ["prompt", "answer"] {
        let shown = match kept.get(name) {
            None | Some(Value::Null) => "-".to_owned(),
            Some(Value::String(text)) => text.lines().map(clean).collect::<Vec<_>>().join("\n"),
            Some(other) => format!("{other:#}"),
        };
        lines.push(format!("\n{name}:\n{shown}"));
    }
    if let Some(near) = kept.get("near").filter(|near| near.is_object()) {
        let [question, known, similarity, by] =
            ["question", "known_question", "similarity", "withheld"].map(|name| text(near, name));
        let fate = if by == "-" { "a match".to_owned() } else { format!("withheld by {by}") };
        lines.push(format!(
            "\nnearest question that was answered before ({similarity}, {fate}):\n{known}\nasked here:\n{question}"
        ));
    }
    if kept.get("truncated").and_then(Value::as_bool) == Some(true) {
        lines.push("\n(cut: it was longer than what is kept)".to_owned());
    }
    lines.join("\n")
}

/// What it cost, in its currency.
pub fn cost(record: &Value) -> String {
    match (text(record, "cost").as_str(), text(record, "currency").as_str()) {
        ("-", _) => "-".to_owned(),
        (cost, "-") => cost.to_owned(),
        (cost, currency) => format!("{cost} {currency}"),
    }
}

fn number(of: &Value, name: &str) -> Option<u64> {
    let number = of.get(name)?;
    number.as_u64().or_else(|| Some(number.as_f64()?.max(0.0).round() as u64))
}

/// Milliseconds to the microsecond, as records have them.
fn micros(of: &Value, name: &str) -> u64 {
    let time = of.get(name).and_then(Value::as_f64).unwrap_or_default();
    (time.max(0.0) * 1_000.0).round() as u64
}

/// Milliseconds as a person reads them: digits behind the point only where they say much.
pub fn ms(of: &Value, name: &str) -> String {
    match of.get(name).and_then(Value::as_f64) {
        None => "-".to_owned(),
        Some(time) if time < 10.0 => format!("{time:.1}"),
        Some(time) => format!("{time:.0}"),
    }
}

fn head(record: &Value, now: Timestamp) -> String {
    let time = text(record, "time");
    format!("request {}, {} ({})", shown(record, "request_id"), clean(&time), when::told(&time, now))
}

fn path(record: &Value) -> String {
    let mut line = format!("client {}, route {}", shown(record, "client"), shown(record, "route"));
    for (before, field) in
        [(", ", "endpoint"), (", answered by ", "upstream"), (", model ", "model"), (", trace ", "trace_id")]
    {
        if text(record, field) != "-" {
            line.push_str(&format!("{before}{}", shown(record, field)));
        }
    }
    line
}

fn ending(record: &Value) -> String {
    let mut line = format!("{} {}", shown(record, "status"), shown(record, "outcome"));
    let code = text(record, "code");
    if code != "-" && code != text(record, "outcome") {
        line.push_str(&format!(" ({})", clean(&code)));
    }
    line.push_str(&format!(" after {} ms", ms(record, "ms")));
    for (field, words) in
        [("ttft_ms", "first content at"), ("queue_ms", "in line"), ("overhead_ms", "the gateway's own")]
    {
        if !matches!(ms(record, field).as_str(), "-" | "0.0") {
            line.push_str(&format!(", {words} {} ms", ms(record, field)));
        }
    }
    for mark in ["truncated", "degraded"] {
        match record.get(mark) {
            Some(Value::Bool(true)) => line.push_str(&format!(", {mark}")),
            Some(Value::String(how)) => line.push_str(&format!(", {mark}: {}", clean(how))),
            _ => {}
        }
    }
    line
}

fn spent(record: &Value) -> String {
    let mut parts = Vec::new();
    let [asked, answered] = ["tokens_in", "tokens_out"].map(|field| text(record, field));
    if asked != "-" || answered != "-" {
        parts.push(format!("{asked} tokens in, {answered} out"));
    }
    if cost(record) != "-" {
        parts.push(format!("cost {}", cost(record)));
    }
    if text(record, "cache") != "-" {
        parts.push(format!("cache {}", shown(record, "cache")));
    }
    clean(&parts.join(", "))
}

/// Attempts and decisions, and the end.
fn beats(record: &Value, whole: u64) -> Vec<Beat> {
    let items = |name: &str| record.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut beats: Vec<Beat> = Vec::new();
    for decision in items("decisions") {
        let rank = if FOLLOWS_A_TRY.contains(&text(&decision, "what").as_str()) { 2 } else { 0 };
        beats.push(Beat::at(&decision, rank, None, decided(&decision)));
    }
    for attempt in items("attempts") {
        let took = number(&attempt, "ms");
        let status = match text(&attempt, "status").as_str() {
            "-" | "0" => String::new(),
            status => format!(" ({})", clean(status)),
        };
        let length = took.map(|took| format!(" after {took} ms")).unwrap_or_default();
        let shared =
            if attempt.get("shared").and_then(Value::as_bool) == Some(true) { ", by another request" } else { "" };
        let words =
            format!("asked {}: {}{status}{length}{shared}", shown(&attempt, "upstream"), shown(&attempt, "outcome"));
        beats.push(Beat::at(&attempt, 1, took, words));
    }
    let end = format!("ended: {} {}", shown(record, "status"), shown(record, "outcome"));
    beats.push(Beat { at: whole, order: (micros(record, "ms"), 3), took: None, words: end });
    beats
}

/// A decision in words; one that this program does not know, by its own names.
fn decided(decision: &Value) -> String {
    let field = |name: &str| shown(decision, name).replace('_', " ");
    let name = |name: &str| shown(decision, name);
    match text(decision, "what").as_str() {
        "limited" => format!("no room in the {} limit on {}", field("scope"), field("limit")),
        "queued" if decision.get("provider").is_some() => format!("in line for a place at {}", name("provider")),
        "queued" => "in line for its limits".to_owned(),
        "left_queue" => format!("out of the line after {} ms", ms(decision, "waited_ms")),
        "param_changed" => format!("parameter {} changed by `{}`", name("field"), name("by")),
        "quota_reserved" => format!("{} tokens put aside of the quota", name("tokens")),
        "quota_refused" => "the quota has no room".to_owned(),
        "query_not_in_user_message" => {
            "the question that it names does not stand in its last user message, which stays in the cache key"
                .to_owned()
        }
        "joined_flight" => "the same call was on its way: its answer is waited for".to_owned(),
        "split" => format!("the split chose {}", name("upstream")),
        "mirrored" => format!("a copy went to {}", name("upstream")),
        "upstream_skipped" => format!("{} passed over: {}", name("upstream"), field("why")),
        "retry_waits" => format!("waits {} ms before another try (after {})", ms(decision, "wait_ms"), field("after")),
        "retry_budget_spent" => "no further try: the route's retry budget is spent".to_owned(),
        "upstream_rests" => format!("{} rests, as it asked for", name("upstream")),
        what => {
            let facts = decision.as_object().into_iter().flatten();
            let facts = facts.filter(|(name, _)| !matches!(name.as_str(), "what" | "at_ms"));
            let facts = facts.map(|(name, _)| match (name.as_str(), field(name)) {
                ("result" | "to", word) => word,
                (name, value) => format!("{} {value}", name.replace('_', " ")),
            });
            let facts = facts.collect::<Vec<_>>().join(", ");
            let what = clean(what).replace('_', " ");
            if facts.is_empty() { what } else { format!("{what}: {facts}") }
        }
    }
}

fn shown(of: &Value, name: &str) -> String {
    clean(&text(of, name))
}

/// Where on the whole time something lies.
fn bar(beat: &Beat, longest: u64) -> String {
    let column = |at: u64| (u128::from(at) * u128::from(BAR - 1) / u128::from(longest)) as u64;
    let (from, to) = (column(beat.at), column(beat.at + beat.took.unwrap_or_default()));
    let sign = |at: u64| match (from..=to).contains(&at) {
        true if beat.took.is_some() => '█',
        true => '●',
        false => '·',
    };
    (0..BAR).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_told_on_a_line_of_time() {
        let record = json!({
            "request_id": "r1", "time": "2026-11-30T12:00:00.000Z", "client": "问答", "route": "chat", "upstream": "local/q",
            "endpoint": "/v1/chat/completions", "status": 200, "outcome": "ok", "code": null, "cache": "miss",
            "tokens_in": 20, "tokens_out": 10, "cost": 0.5, "currency": "USD", "ms": 1200, "overhead_ms": 0.4,
            "queue_ms": 0, "ttft_ms": 700, "truncated": false, "degraded": null,
            "attempts": [
                { "upstream": "cloud/m", "outcome": "upstream_server_error", "status": 503, "ms": 300, "at_ms": 10 },
                { "upstream": "local/q", "outcome": "ok", "status": 200, "ms": 600, "at_ms": 600 },
            ],
            "decisions": [
                { "at_ms": 1, "what": "cache", "result": "miss" },
                { "at_ms": 310, "what": "retry_waits", "after": "server_error", "wait_ms": 290 },
                { "at_ms": 311, "what": "brand_new", "some_thing": 3 },
            ],
        });
        let now = "2026-11-30T12:03:00Z".parse().unwrap();
        assert_eq!(
            told(&record, now),
            "request r1, 2026-11-30T12:00:00.000Z (3 min ago)\n\
             client 问答, route chat, /v1/chat/completions, answered by local/q\n\
             200 ok after 1200 ms, first content at 700 ms, the gateway's own 0.4 ms\n\
             20 tokens in, 10 out, cost 0.5 USD, cache miss\n\n   \
                1 ms  ●·······················  cache: miss\n  \
               10 ms  ██████··················  asked cloud/m: upstream_server_error (503) after 300 ms\n \
              310 ms  ·····●··················  waits 290 ms before another try (after server error)\n \
              311 ms  ·····●··················  brand new: some thing 3\n \
              600 ms  ···········█████████████  asked local/q: ok (200) after 600 ms\n\
             1200 ms  ·······················●  ended: 200 ok"
        );
    }

    #[test]
    fn a_wait_stands_behind_the_try_that_it_follows_however_short_both_were() {
        for (failed, waited) in [(0.2, 0.3), (0.2, 0.2)] {
            let record = json!({
                "status": 200, "outcome": "ok", "ms": 0.4,
                "attempts": [
                    { "upstream": "a", "outcome": "upstream_server_error", "status": 503, "ms": 0, "at_ms": failed },
                    { "upstream": "b", "outcome": "ok", "status": 200, "ms": 0, "at_ms": 0.4 },
                ],
                "decisions": [
                    { "at_ms": 0.2, "what": "upstream_skipped", "upstream": "z", "why": "open" },
                    { "at_ms": waited, "what": "retry_waits", "after": "server_error", "wait_ms": 0.1 },
                ],
            });
            let told = told(&record, "2026-11-30T12:03:00Z".parse().unwrap());
            let place = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
            let places = ["z passed over", "asked a", "waits", "asked b", "ended"].map(place);
            assert!(places.is_sorted(), "{told}");
        }
    }

    #[test]
    fn a_named_question_that_stands_elsewhere_is_told_with_what_that_means() {
        let record = json!({ "ms": 1, "decisions": [{ "at_ms": 0.1, "what": "query_not_in_user_message" }] });
        let told = told(&record, "2026-11-30T12:03:00Z".parse().unwrap());
        assert!(told.contains("does not stand in its last user message, which stays in the cache key"), "{told}");
    }

    #[test]
    fn a_bare_record_is_told_too() {
        let now = "2026-11-30T12:03:00Z".parse().unwrap();
        assert!(told(&json!({}), now).contains("client -, route -"));
    }
}
