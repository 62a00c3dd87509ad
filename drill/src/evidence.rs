//! What was seen of an incident, from three sides: by callers, by upstreams, by the gateway's access log. Times count from when
//! callers begin.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

/// One call, as its caller saw it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Index among the incident's groups.
    pub(crate) group: usize,
    /// Its request id; a repeat has that of the call which it repeats.
    pub(crate) id: String,
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// 0 where no answer came.
    pub(crate) status: u16,
    /// `x-mai-attempts`; 0 where it is missing.
    pub(crate) attempts: u32,
    pub(crate) ending: Ending,
}

/// What a caller got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A right answer.
    Right,
    /// An answer that says it is degraded, header and body.
    Degraded,
    /// An error in OpenAI's form, with its code.
    Refused(String),
    /// Nothing: the caller left before, as it was told to.
    Left,
    /// Anything else: what is wrong with it.
    Broken(String),
}

/// One call at an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    pub(crate) id: String,
    /// Index among the incident's upstreams.
    pub(crate) upstream: usize,
    /// When it had arrived.
    pub(crate) at: Duration,
    /// When the first byte of its answer had left; none where nothing came.
    pub(crate) began: Option<Duration>,
    /// None where it still runs.
    pub(crate) ended: Option<Duration>,
    /// It was answered well: a 200 that was not cut short. Who closes behind its last event is no fault.
    pub(crate) is_sound: bool,
    /// It was given up by the gateway. The upstream may have heard of that late.
    pub(crate) is_given_up: bool,
    /// The scenario's rule that answered, counted from 1.
    pub(crate) rule: Option<usize>,
    /// 0 where none was sent.
    pub(crate) status: u16,
}

impl Try {
    /// When it was decided, as a trial: a stream may run on for long after its first content, and others are let in
    /// beside it. What tells of that here is the first byte, a little before.
    pub(crate) fn over(&self) -> Option<Duration> {
        if self.is_sound { self.began } else { self.ended }
    }

    /// One line for people who look for what went wrong; times in milliseconds.
    pub(crate) fn shown(&self) -> String {
        let ms = |at: Duration| at.as_secs_f64() * 1000.0;
        let value = json!({
            "request_id": self.id, "upstream": self.upstream, "at": ms(self.at), "began": self.began.map(ms),
            "ended": self.ended.map(ms), "is_sound": self.is_sound, "is_given_up": self.is_given_up,
            "rule": self.rule, "status": self.status,
        });
        format!("{value}\n")
    }
}

/// One line of the access log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) status: u64,
    pub(crate) ms: f64,
    pub(crate) attempts: Vec<Attempt>,
    /// As it was written.
    pub(crate) text: String,
}

/// One try, as the access log tells it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) upstream: String,
    pub(crate) outcome: String,
    pub(crate) ms: f64,
}

/// All of one incident.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) told: Vec<Told>,
    pub(crate) tries: Vec<Try>,
    pub(crate) lines: Vec<Line>,
    /// `mai_repeated_requests_total` by client.
    pub(crate) repeats: HashMap<String, f64>,
    /// The gateway's own log.
    pub(crate) log: String,
}

/// The access log's lines by route; what is no line of it is left out.
pub(crate) fn lines_by_route(text: &str) -> HashMap<String, Vec<Line>> {
    let mut lines: HashMap<String, Vec<Line>> = HashMap::new();
    for text in text.lines() {
        if let Some((route, line)) = line(text) {
            lines.entry(route).or_default().push(line);
        }
    }
    lines
}

fn line(text: &str) -> Option<(String, Line)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let string = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64).unwrap_or_default();
    let attempts = value.get("attempts").and_then(Value::as_array)?.iter().map(|attempt| Attempt {
        upstream: string(attempt, "upstream").unwrap_or_default(),
        outcome: string(attempt, "outcome").unwrap_or_default(),
        ms: number(attempt, "ms"),
    });
    let line = Line {
        id: string(&value, "request_id")?,
        status: value.get("status").and_then(Value::as_u64)?,
        ms: number(&value, "ms"),
        attempts: attempts.collect(),
        text: text.to_owned(),
    };
    Some((string(&value, "route")?, line))
}

/// The values of a metric by one label, from Prometheus' text form.
pub(crate) fn metric_by(text: &str, metric: &str, label: &str) -> HashMap<String, f64> {
    let mut values = HashMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(metric).and_then(|rest| rest.strip_prefix('{')) else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let named = labels.split(',').find_map(|pair| pair.strip_prefix(label)?.strip_prefix("=\""));
        if let (Some(name), Ok(value)) = (named, value.trim().parse::<f64>()) {
            *values.entry(name.trim_end_matches('"').to_owned()).or_default() += value;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_their_route() {
        let text = concat!(
            r#"{"request_id":"a","route":"errors","status":200,"ms":12.5,"attempts":[{"upstream":"e/m","outcome":"status","status":503,"ms":1.5},{"upstream":"f/m","outcome":"ok","status":200,"ms":9}]}"#,
            "\nnot a line\n",
            r#"{"request_id":"b","route":null,"status":404,"ms":1,"attempts":[]}"#,
        );
        let lines = lines_by_route(text);
        assert_eq!(lines.len(), 1);
        let line = &lines["errors"][0];
        assert_eq!((line.id.as_str(), line.status, line.ms), ("a", 200, 12.5));
        assert_eq!((line.attempts[0].outcome.as_str(), line.attempts[1].ms), ("status", 9.0));
    }

    #[test]
    fn a_metric_is_read_by_one_of_its_labels() {
        let text = "# HELP a b\nmai_x_total{client=\"one\",code=\"2\"} 3\nmai_x_total{client=\"one\",code=\"3\"} 4\nmai_x_total{client=\"two\"} 1\nmai_xy{client=\"one\"} 9\n";
        let values = metric_by(text, "mai_x_total", "client");
        assert_eq!((values["one"], values["two"], values.len()), (7.0, 1.0, 2));
    }
}
