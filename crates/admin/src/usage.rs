//! `GET /admin/v1/usage`: what was used, by client, route, model and day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base::decimal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use state::{Columns, Question, Row, Sums};
use utoipa::{IntoParams, ToSchema};

use crate::caller::{Caller, Viewer};
use crate::desk::Desk;
use crate::error::{Body, Error, Store};
use crate::extract::Query;
use crate::listing::{in_order, instant};

/// How long the ledger may take; a database that is out answers when it is back.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a report may be broken down by.
const GROUPS: [&str; 5] = ["client", "route", "model", "upstream", "day"];

/// What is asked of the ledger.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asking {
    /// Some of `client`, `route`, `model`, `upstream`, `day`, with commas between; `client` if nothing is said.
    group_by: Option<String>,
    /// From this day in UTC, or this instant, on.
    from: Option<String>,
    /// To the end of this day in UTC, or to this instant.
    to: Option<String>,
    /// Of this client alone.
    client: Option<String>,
    /// `json` or `csv`.
    #[param(pattern = "^(json|csv)$")]
    format: Option<String>,
}

/// What was used.
#[derive(Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct Report {
    /// One for each combination of what is asked for.
    rows: Vec<UsageRow>,
}

/// Sums: beside what the report is broken down by (null where a name is not known), these.
#[derive(Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = UsageSums)]
pub(crate) struct UsageRow(Map<String, Value>);

/// What a row of usage sums up.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a row is put together by what is asked for; this says what may be in it")]
pub(crate) struct UsageSums {
    client: Option<String>,
    route: Option<String>,
    model: Option<String>,
    upstream: Option<String>,
    /// A day in UTC.
    day: Option<String>,
    #[schema(required)]
    requests: u64,
    tokens_in: u64,
    tokens_out: u64,
    tokens_cached: u64,
    cache_hits: u64,
    tokens_saved: u64,
    ms_saved: u64,
    /// Requests at a price that is not known.
    unpriced: u64,
    /// Null where there are several currencies, or where no price is known.
    #[schema(required)]
    cost: Option<f64>,
    #[schema(required)]
    currency: Option<String>,
    /// By currency.
    #[schema(value_type = std::collections::BTreeMap<String, f64>)]
    costs: (),
    /// What caches have saved, by currency.
    #[schema(value_type = std::collections::BTreeMap<String, f64>)]
    costs_saved: (),
}

/// What was used, by client, route, model, upstream and day.
#[utoipa::path(get, path = "/admin/v1/usage", tag = "usage", params(Asking), responses(
    (status = 200, description = "Sums.", content((Report = "application/json"), (String = "text/csv"))),
    (status = 503, description = "`ledger_unavailable`: the usage ledger cannot be read; or `busy`: too many questions that \
        take long are asked at a time.", body = Body),
))]
pub(crate) async fn usage(
    _: Caller<Viewer>,
    State(desk): State<Desk>,
    Query(asking): Query<Asking>,
) -> Result<Response, Error> {
    let asked = Asked::of(asking)?;
    // What has ended a moment ago is in it.
    desk.live.gather();
    let ledger = &desk.live.usage_ledger.store;
    let unavailable = |why: String| Err(Error::Unavailable(Store::Ledger, why));
    let question = asked.question.clone();
    let report = async {
        match tokio::time::timeout(PATIENCE, ledger.report(question).into_future()).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => unavailable(error.0),
            Err(_) => {
                let why = ledger.health().trouble.map_or_else(|| "it is slow".to_owned(), |trouble| trouble.what);
                unavailable(format!("the usage ledger does not answer: {why}"))
            }
        }
    };
    desk.aside.look_into(report, |rows| move || asked.answer(rows)).await
}

struct Asked {
    /// In the order asked for.
    groups: Vec<&'static str>,
    question: Question,
    is_csv: bool,
}

impl Asked {
    fn of(asking: Asking) -> Result<Self, Error> {
        let mut question = Question::default();
        if let Some(from) = &asking.from {
            question.from = instant("from", from, false)?;
        }
        if let Some(to) = &asking.to {
            question.to = Some(instant("to", to, true)?);
        }
        in_order(("from", asking.from.is_some().then_some(question.from)), ("to", question.to))?;
        question.client = asking.client.map(Into::into);
        let is_csv = match asking.format.as_deref() {
            None | Some("json") => false,
            Some("csv") => true,
            Some(other) => {
                return Err(Error::of("format", format!("`format` is `{other}`, but must be `json` or `csv`")));
            }
        };
        let groups = asking.group_by.map_or_else(|| Ok(vec!["client"]), |written| groups(&written))?;
        let wants = |name| groups.contains(&name);
        question.by = Columns {
            client: wants("client"),
            route: wants("route"),
            upstream: wants("upstream"),
            model: wants("model"),
            day: wants("day"),
        };
        Ok(Self { groups, question, is_csv })
    }

    fn answer(&self, rows: Vec<Row>) -> Response {
        let lines = self.lines(rows);
        if self.is_csv {
            return ([(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")], self.csv(&lines))
                .into_response();
        }
        let rows = lines.iter().map(|line| UsageRow(self.json(line))).collect();
        axum::Json(Report { rows }).into_response()
    }

    /// Rows of several currencies become one line, in the order of their names.
    fn lines(&self, rows: Vec<Row>) -> BTreeMap<Vec<String>, Line> {
        let mut lines: BTreeMap<Vec<String>, Line> = BTreeMap::new();
        for row in rows {
            let name = |group: &&str| match *group {
                "client" => row.client.to_string(),
                "route" => row.route.to_string(),
                "model" => row.model.to_string(),
                "upstream" => row.upstream.to_string(),
                _ => row.day.map(day).unwrap_or_default(),
            };
            let line = lines.entry(self.groups.iter().map(name).collect()).or_default();
            line.sums = line.sums.plus(row.sums);
            if !row.currency.is_empty() {
                let cost = line.costs.entry(row.currency.to_string()).or_default();
                *cost = cost.saturating_add(row.sums.cost);
                let saved = line.saved.entry(row.currency.to_string()).or_default();
                *saved = saved.saturating_add(row.sums.cost_saved);
            }
        }
        lines
    }

    fn json(&self, (names, line): (&Vec<String>, &Line)) -> Map<String, Value> {
        let mut fields = Map::new();
        for (group, name) in self.groups.iter().zip(names) {
            let value = if name.is_empty() { Value::Null } else { json!(name) };
            fields.insert((*group).to_owned(), value);
        }
        let by_currency = |sums: &BTreeMap<String, u64>| -> Map<String, Value> {
            sums.iter().map(|(currency, nanos)| (currency.clone(), number(*nanos))).collect()
        };
        for (name, count) in line.counts() {
            fields.insert(name.to_owned(), json!(count));
        }
        let one = line.cost();
        fields.insert("cost".to_owned(), one.map_or(Value::Null, |(_, nanos)| number(nanos)));
        fields.insert("currency".to_owned(), json!(one.map(|(currency, _)| currency)));
        fields.insert("costs".to_owned(), Value::Object(by_currency(&line.costs)));
        fields.insert("costs_saved".to_owned(), Value::Object(by_currency(&line.saved)));
        fields
    }

    /// RFC 4180, with a header and line ends of its own kind.
    fn csv(&self, lines: &BTreeMap<Vec<String>, Line>) -> String {
        let counts = Line::default().counts().map(|(name, _)| name);
        let head = self.groups.iter().copied().chain(counts).chain(["cost", "currency", "costs", "costs_saved"]);
        let mut out = head.collect::<Vec<_>>().join(",");
        for (names, line) in lines {
            let counts = line.counts().map(|(_, count)| count.to_string());
            let one = line.cost();
            let by_currency = |sums: &BTreeMap<String, u64>| {
                let sums = sums.iter().map(|(currency, nanos)| format!("{currency} {}", decimal(*nanos)));
                sums.collect::<Vec<_>>().join("; ")
            };
            let rest = [
                one.map(|(_, nanos)| decimal(nanos)).unwrap_or_default(),
                one.map(|(currency, _)| currency.to_owned()).unwrap_or_default(),
                by_currency(&line.costs),
                by_currency(&line.saved),
            ];
            let names = names.iter().map(|name| harmless(name));
            let fields: Vec<String> = names.chain(counts).chain(rest).map(|text| field(&text)).collect();
            out.push_str("\r\n");
            out.push_str(&fields.join(","));
        }
        out.push_str("\r\n");
        out
    }
}

/// One line of the answer.
#[derive(Default)]
struct Line {
    sums: Sums,
    /// In billionths, by currency.
    costs: BTreeMap<String, u64>,
    /// What caches have saved, likewise.
    saved: BTreeMap<String, u64>,
}

impl Line {
    fn counts(&self) -> [(&'static str, u64); 8] {
        [
            ("requests", self.sums.requests),
            ("tokens_in", self.sums.tokens_in),
            ("tokens_out", self.sums.tokens_out),
            ("tokens_cached", self.sums.tokens_cached),
            ("cache_hits", self.sums.cache_hits),
            ("tokens_saved", self.sums.tokens_saved),
            ("ms_saved", self.sums.ms_saved),
            ("unpriced", self.sums.unpriced),
        ]
    }

    /// The one sum that there is: sums of several currencies make none, and what is not known is not 0.
    fn cost(&self) -> Option<(&str, u64)> {
        match self.costs.iter().next() {
            Some((currency, nanos)) if self.costs.len() == 1 => Some((currency, *nanos)),
            _ => None,
        }
    }
}

fn groups(written: &str) -> Result<Vec<&'static str>, Error> {
    let mut groups = BTreeSet::new();
    let mut ordered = Vec::new();
    for name in written.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known = GROUPS.into_iter().find(|known| *known == name);
        let Some(known) = known else {
            let told = format!("`group_by` has `{name}`, but takes only: {}", GROUPS.join(", "));
            return Err(Error::of("group_by", told));
        };
        if groups.insert(known) {
            ordered.push(known);
        }
    }
    Ok(ordered)
}

fn day(since_1970: u32) -> String {
    let seconds = i64::from(since_1970) * 24 * 60 * 60;
    Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%d").to_string())
}

fn number(nanos: u64) -> Value {
    // Digits as they are: no amount is turned into a float on its way.
    serde_json::from_str::<Number>(&decimal(nanos)).map_or(Value::Null, Value::Number)
}

/// A name as a spreadsheet takes it for text. One that begins like a formula would be computed, and a model's
/// name may be a caller's own words (OWASP, "CSV Injection").
fn harmless(name: &str) -> String {
    if name.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{name}") } else { name.to_owned() }
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(group_by: &str) -> Asked {
        Asked::of(Asking { group_by: Some(group_by.to_owned()), ..Asking::default() }).unwrap()
    }

    fn row(client: &str, currency: &str, cost: u64) -> Row {
        Row {
            day: Some(20_787),
            client: client.into(),
            route: "".into(),
            upstream: "".into(),
            model: "".into(),
            currency: currency.into(),
            sums: Sums {
                requests: 1,
                tokens_in: 10,
                cost,
                unpriced: u64::from(currency.is_empty()),
                ..Sums::default()
            },
        }
    }

    #[test]
    fn days_and_instants_are_ranges() {
        let range = |from: &str, to: &str| {
            let asking = Asking { from: Some(from.to_owned()), to: Some(to.to_owned()), ..Asking::default() };
            let question = Asked::of(asking).unwrap().question;
            (question.from.as_secs(), question.to.unwrap().as_secs())
        };
        assert_eq!(range("2026-11-30", "2026-11-30"), (1_795_996_800, 1_796_083_200), "the last day is in it");
        assert_eq!(range("2026-11-30T00:00:00Z", "2026-11-30T09:00:00+08:00"), (1_795_996_800, 1_796_000_400));
    }

    #[test]
    fn mistakes_are_told() {
        let group = Asking { group_by: Some("client,colour".to_owned()), ..Asking::default() };
        let format = Asking { format: Some("xml".to_owned()), ..Asking::default() };
        for (asking, param, told) in [
            (group, "group_by", "`group_by` has `colour`, but takes only: client, route, model, upstream, day"),
            (format, "format", "`format` is `xml`, but must be `json` or `csv`"),
        ] {
            assert_eq!(Asked::of(asking).err(), Some(Error::of(param, told)));
        }
    }

    #[test]
    fn a_line_has_one_cost_or_says_that_there_are_several() {
        let asked = asked("day,client");
        let lines = asked.lines(vec![
            row("a,b", "USD", 1_500_000),
            row("a,b", "CNY", 2_000_000_000),
            row("c", "USD", 20),
            row("d", "", 0),
        ]);
        let rows: Vec<_> = lines.iter().map(|line| asked.json(line)).collect();
        assert_eq!(rows[0]["day"], "2026-11-30");
        assert_eq!(
            (&rows[0]["requests"], &rows[0]["cost"], &rows[0]["currency"]),
            (&json!(2), &Value::Null, &Value::Null)
        );
        assert_eq!(rows[0]["costs"].to_string(), r#"{"CNY":2,"USD":0.0015}"#);
        assert_eq!((rows[1]["cost"].to_string(), &rows[1]["currency"]), ("0.00000002".to_owned(), &json!("USD")));
        assert_eq!((&rows[2]["cost"], &rows[2]["unpriced"]), (&Value::Null, &json!(1)));
        let csv = asked.csv(&lines);
        let first: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(
            first[0],
            "day,client,requests,tokens_in,tokens_out,tokens_cached,cache_hits,tokens_saved,ms_saved,unpriced,cost,currency,costs,costs_saved"
        );
        assert_eq!(first[1], "2026-11-30,\"a,b\",2,20,0,0,0,0,0,0,,,CNY 2; USD 0.0015,CNY 0; USD 0");
        assert_eq!(first[2], "2026-11-30,c,1,10,0,0,0,0,0,0,0.00000002,USD,USD 0.00000002,USD 0");
    }

    #[test]
    fn no_name_is_a_formula_to_a_spreadsheet() {
        let asked = asked("client");
        let names = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "a=1", "=HYPERLINK(\"http://x\",1)"];
        let lines = names.map(|name| asked.csv(&asked.lines(vec![row(name, "USD", 20)])));
        let cells = lines.map(|csv| csv.split_once("\r\n").unwrap().1.split_once(",1,10,").unwrap().0.to_owned());
        assert_eq!(
            cells,
            ["'=1+1", "'+1", "'-1", "'@SUM(1)", "'\t=1", "\"'\r=1\"", "a=1", "\"'=HYPERLINK(\"\"http://x\"\",1)\""]
        );
    }
}
