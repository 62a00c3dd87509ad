//! The table for people, and the same for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::figures::{Failure, Figures};
use crate::incident::Incident;
use crate::judge::{Judgement, seconds};

/// Failures that are told one by one.
const TOLD: usize = 3;

/// One incident's outcome.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) incident: &'static Incident,
    pub(crate) figures: Figures,
    pub(crate) judgements: Vec<Judgement>,
}

impl Outcome {
    /// Whether every promise was kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.judgements.iter().all(|judgement| judgement.is_kept)
    }
}

const HEADINGS: [&str; 14] = [
    "incident", "times", "calls", "failed", "first", "others", "faults", "tries", "switch", "back in", "whole in",
    "trial", "1 s, 4 s", "",
];

/// The table and what is behind each broken promise.
pub(crate) fn text(outcomes: &[Outcome], not_in_force: &[String]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(outcomes.iter().map(row));
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        text.push_str(&line(row, &widths));
        if at == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(text, "{}", rule.join("  "));
        }
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.is_kept()) {
        text.push_str(&missed(outcome));
    }
    let (promises, kept) = outcomes
        .iter()
        .flat_map(|outcome| &outcome.judgements)
        .fold((0, 0), |(all, kept), one| (all + 1, kept + usize::from(one.is_kept)));
    let _ = writeln!(text, "\n{kept} of {promises} promises kept");
    if !not_in_force.is_empty() {
        let _ = writeln!(text, "Keys that this gateway accepts and does not follow: {}", not_in_force.join(", "));
    }
    text
}

/// Words to the left, figures to the right.
fn line(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
        let is_words = at == 0 || at + 1 == row.len();
        let _ = if is_words { write!(line, "{cell}{fill}  ") } else { write!(line, "{fill}{cell}  ") };
    }
    format!("{}\n", line.trim_end())
}

fn row(outcome: &Outcome) -> Vec<String> {
    let figures = &outcome.figures;
    let dash = || "-".to_owned();
    let time = |time: Option<Duration>| time.map_or_else(dash, seconds);
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let others: usize = figures.reached.iter().skip(1).sum();
    let back = &figures.back;
    // What comes back slowly does so because another upstream carries the rest.
    let has_others = figures.reached.len() > 1;
    let is_tried = outcome.judgements.iter().any(|judgement| judgement.is_about_trials);
    vec![
        outcome.incident.title.to_owned(),
        format!("{}x", outcome.incident.factor),
        figures.calls.to_string(),
        figures.failures.len().to_string(),
        figures.reached.first().copied().unwrap_or_default().to_string(),
        if has_others { others.to_string() } else { dash() },
        figures.faults.to_string(),
        figures.most_tries.to_string(),
        time(figures.switched.map(|(first, _)| first)),
        time(back.first),
        time(back.full.filter(|_| has_others)),
        if is_tried { back.together.len().to_string() } else { dash() },
        if has_others && back.first.is_some() {
            format!("{}, {}", percent(back.in_1s), percent(back.in_4s))
        } else {
            dash()
        },
        if outcome.is_kept() { "PASS" } else { "MISSED" }.to_owned(),
    ]
}

fn missed(outcome: &Outcome) -> String {
    let mut text = format!("\nMISSED: {} ({})\n", outcome.incident.title, outcome.incident.name);
    for judgement in outcome.judgements.iter().filter(|judgement| !judgement.is_kept) {
        let _ = writeln!(text, "  promised: {}; found: {}", judgement.promise, judgement.found);
        for call in &judgement.such_as {
            let _ = writeln!(text, "    {call}");
        }
    }
    for Failure { id, what, line } in outcome.figures.failures.iter().take(TOLD) {
        let _ = writeln!(text, "  {id}: {what}\n    {}", line.as_deref().unwrap_or("no line in the access log"));
    }
    if outcome.figures.failures.len() > TOLD {
        let _ = writeln!(text, "  and {} more", outcome.figures.failures.len() - TOLD);
    }
    text
}

/// Everything, for programs. Times are milliseconds.
pub(crate) fn json(outcomes: &[Outcome], not_in_force: &[String]) -> Value {
    let incidents: Vec<Value> = outcomes.iter().map(of_incident).collect();
    json!({
        "kept": outcomes.iter().all(Outcome::is_kept),
        "not_in_force": not_in_force,
        "incidents": incidents,
    })
}

fn of_incident(outcome: &Outcome) -> Value {
    let (figures, back) = (&outcome.figures, &outcome.figures.back);
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let promises = outcome
        .judgements
        .iter()
        .map(|judgement| json!({"promise": judgement.promise, "found": judgement.found, "kept": judgement.is_kept, "such_as": judgement.such_as}));
    let failures = figures.failures.iter().map(|failure| {
        let line = failure.line.as_deref().and_then(|line| serde_json::from_str::<Value>(line).ok());
        json!({"request_id": failure.id, "what": failure.what, "access_log": line})
    });
    let upstreams = outcome.incident.upstreams.iter().zip(&figures.reached);
    json!({
        "name": outcome.incident.name,
        "title": outcome.incident.title,
        "times_faster": outcome.incident.factor,
        "kept": outcome.is_kept(),
        "calls": figures.calls,
        "failed": figures.failures.len(),
        "degraded": figures.degraded,
        "refused": figures.refused,
        "repeats": figures.repeats,
        "upstream_calls": upstreams.map(|(upstream, count)| (upstream.name.to_owned(), json!(count))).collect::<serde_json::Map<_, _>>(),
        "faults": figures.faults,
        "most_tries": figures.most_tries,
        "moved": figures.moved,
        "switch_ms": figures.switched.map(|(first, longest)| json!({"first": ms(first), "longest": ms(longest)})),
        "slowest_ms": ms(figures.slowest),
        "recovery": outcome.incident.fault.map(|_| json!({
            "first_ms": back.first.map(ms),
            "whole_ms": back.full.map(ms),
            "trials": back.trials,
            "trials_at_a_time": back.together.len(),
            "share_in_1s": back.in_1s,
            "share_in_4s": back.in_4s,
            "share_at_last": back.at_last,
        })),
        "tries": {
            "told": figures.sums.told,
            "logged": figures.sums.logged,
            "at_upstreams": figures.sums.reached,
            "not_connected": figures.sums.unconnected,
            "reset_or_left": figures.sums.unsure,
        },
        "promises": promises.collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::ALL;

    fn outcome(is_kept: bool) -> Outcome {
        let failure = Failure { id: "errors-0-1-2".to_owned(), what: "error `x`".to_owned(), line: None };
        let failures = if is_kept { Vec::new() } else { vec![failure; 5] };
        let judgement = Judgement {
            promise: "no failure".to_owned(),
            found: "some".to_owned(),
            is_kept,
            is_about_trials: false,
            such_as: Vec::new(),
        };
        Outcome {
            incident: ALL.first().unwrap(),
            figures: Figures { calls: 10, failures, reached: vec![4, 6], ..Figures::default() },
            judgements: vec![judgement],
        }
    }

    #[test]
    fn the_columns_stand_below_their_headings() {
        let text = text(&[outcome(true)], &[]);
        let lines: Vec<&str> = text.lines().collect();
        let end_of = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        assert_eq!(end_of(lines[0], "calls"), end_of(lines[2], " 10"));
        assert!(lines[2].ends_with("PASS") && text.ends_with("\n1 of 1 promises kept\n"), "{text}");
    }

    #[test]
    fn a_broken_promise_is_told_with_some_of_its_calls() {
        let text = text(&[outcome(false)], &["routes[].strategy".to_owned()]);
        for words in
            ["MISSED", "promised: no failure; found: some", "errors-0-1-2: error `x`", "and 2 more", "strategy"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json = json(&[outcome(false), outcome(true)], &[]);
        assert_eq!((json["kept"].as_bool(), json["incidents"][1]["kept"].as_bool()), (Some(false), Some(true)));
        assert_eq!(json["incidents"][0]["upstream_calls"]["second"], 6);
    }
}
