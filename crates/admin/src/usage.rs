//! `GET /admin/v1/usage`: what was used, by client, route, model and day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::decimal;
use config::Role;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value, json};
use state::{Columns, Question, Row, Sums};

use crate::{Desk, authorize, error, refused};

/// How long the ledger may take; a database that is out answers when it is back.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a report may be broken down by.
const GROUPS: [&str; 5] = ["client", "route", "model", "upstream", "day"];

pub(crate) async fn usage(State(desk): State<Desk>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    if let Err(denied) = authorize(&desk, &headers, Role::Viewer) {
        return denied.into_response();
    }
    let asked = match written(query.as_deref().unwrap_or_default()).and_then(|query| Asked::of(&query)) {
        Ok(asked) => asked,
        Err(wrong) => return wrong.into_response(),
    };
    // What has ended a moment ago is in it.
    desk.live.gather();
    let ledger = &desk.live.books.ledger;
    let report = tokio::time::timeout(PATIENCE, ledger.report(asked.question.clone()).into_future()).await;
    let unavailable = |why: &str| refused(StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable", why);
    match report {
        Ok(Ok(rows)) => asked.answer(rows),
        Ok(Err(error)) => unavailable(&error.0),
        Err(_) => {
            let why = ledger.health().trouble.map_or_else(|| "it is slow".to_owned(), |trouble| trouble.what);
            unavailable(&format!("the usage ledger does not answer: {why}"))
        }
    }
}

/// What is wrong with a query.
#[derive(Debug)]
struct Wrong {
    /// The parameter.
    param: String,
    message: String,
}

impl Wrong {
    fn with(param: &str, message: String) -> Self {
        Self { param: param.to_owned(), message }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let mut body = error("invalid_request", &self.message);
        if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
            error.insert("param".to_owned(), Value::String(self.param));
        }
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    }
}

/// The parameters of a query as forms write it (WHATWG URL, application/x-www-form-urlencoded).
fn written(query: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] = [name, value].map(|part| part.replace('+', " "));
        let Ok(name) = percent_decode_str(&name).decode_utf8() else {
            return Err(Wrong::with(&name, format!("the name of the parameter `{name}` is not UTF-8")));
        };
        let Ok(value) = percent_decode_str(&value).decode_utf8() else {
            return Err(Wrong::with(&name, format!("`{name}` is `{value}`, which is not UTF-8")));
        };
        if parameters.insert(name.clone().into_owned(), value.into_owned()).is_some() {
            return Err(Wrong::with(&name, format!("`{name}` is written twice")));
        }
    }
    Ok(parameters)
}

struct Asked {
    /// In the order asked for.
    groups: Vec<&'static str>,
    question: Question,
    is_csv: bool,
}

impl Asked {
    fn of(query: &BTreeMap<String, String>) -> Result<Self, Wrong> {
        let mut asked = Self { groups: Vec::new(), question: Question::default(), is_csv: false };
        for (name, value) in query {
            match name.as_str() {
                "group_by" => asked.groups = groups(value).map_err(|told| Wrong::with(name, told))?,
                "from" => asked.question.from = instant(name, value, false).map_err(|told| Wrong::with(name, told))?,
                "to" => asked.question.to = Some(instant(name, value, true).map_err(|told| Wrong::with(name, told))?),
                "client" => asked.question.client = Some(value.as_str().into()),
                "format" if value == "csv" || value == "json" => asked.is_csv = value == "csv",
                "format" => {
                    return Err(Wrong::with(name, format!("`format` is `{value}`, but must be `json` or `csv`")));
                }
                _ => {
                    let known = "`group_by`, `from`, `to`, `client` or `format`";
                    return Err(Wrong::with(name, format!("there is no parameter `{name}`; write {known}")));
                }
            }
        }
        if !query.contains_key("group_by") {
            asked.groups = vec!["client"];
        }
        let wants = |name| asked.groups.contains(&name);
        asked.question.by = Columns {
            client: wants("client"),
            route: wants("route"),
            upstream: wants("upstream"),
            model: wants("model"),
            day: wants("day"),
        };
        Ok(asked)
    }

    fn answer(&self, rows: Vec<Row>) -> Response {
        let lines = self.lines(rows);
        if self.is_csv {
            return ([(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")], self.csv(&lines))
                .into_response();
        }
        let rows: Vec<Value> = lines.iter().map(|line| self.json(line)).collect();
        Json(json!({ "rows": rows })).into_response()
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

    fn json(&self, (names, line): (&Vec<String>, &Line)) -> Value {
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
        Value::Object(fields)
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

fn groups(written: &str) -> Result<Vec<&'static str>, String> {
    let mut groups = BTreeSet::new();
    let mut ordered = Vec::new();
    for name in written.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known = GROUPS.into_iter().find(|known| *known == name);
        let Some(known) = known else {
            return Err(format!("`group_by` has `{name}`, but takes only: {}", GROUPS.join(", ")));
        };
        if groups.insert(known) {
            ordered.push(known);
        }
    }
    Ok(ordered)
}

/// A day in UTC, whose end counts for `to`, or an instant.
fn instant(name: &str, written: &str, is_end: bool) -> Result<Duration, String> {
    let of_day = |day: Date| {
        let day = if is_end { day.checked_add(1.day()).unwrap_or(day) } else { day };
        day.in_tz("UTC").map(|midnight| midnight.timestamp()).ok()
    };
    let timestamp = match (written.parse::<u64>(), written.len()) {
        (Ok(seconds), 9..) => return Ok(Duration::from_secs(seconds)),
        (_, 10) => written.parse::<Date>().ok().and_then(of_day),
        _ => written.parse::<Timestamp>().ok(),
    };
    let seconds = timestamp.and_then(|timestamp| u64::try_from(timestamp.as_second()).ok());
    seconds.map(Duration::from_secs).ok_or_else(|| {
        format!("`{name}` is `{written}`, but must be a day such as `2026-11-30`, or an instant such as `2026-11-30T12:00:00Z`")
    })
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

    fn asked(query: &[(&str, &str)]) -> Result<Asked, Wrong> {
        Asked::of(&query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
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
        let range = |from, to| {
            let question = asked(&[("from", from), ("to", to)]).unwrap().question;
            (question.from.as_secs(), question.to.unwrap().as_secs())
        };
        assert_eq!(range("2026-11-30", "2026-11-30"), (1_795_996_800, 1_796_083_200), "the last day is in it");
        assert_eq!(range("2026-11-30T00:00:00Z", "2026-11-30T08:00:00+08:00"), (1_795_996_800, 1_795_996_800));
        assert_eq!(range("1795996800", "1796083200"), (1_795_996_800, 1_796_083_200));
        for wrong in ["yesterday", "2026-13-01", "2026", "-5"] {
            assert!(asked(&[("from", wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (name, value, told) in [
            (
                "group_by",
                "client,colour",
                "`group_by` has `colour`, but takes only: client, route, model, upstream, day",
            ),
            ("format", "xml", "`format` is `xml`"),
            ("since", "now", "there is no parameter `since`"),
        ] {
            let wrong = asked(&[(name, value)]).err().unwrap();
            assert!(wrong.message.contains(told) && wrong.param == name, "{wrong:?}");
        }
    }

    #[test]
    fn a_line_has_one_cost_or_says_that_there_are_several() {
        let asked = asked(&[("group_by", "day,client")]).unwrap();
        let lines = asked.lines(vec![
            row("a,b", "USD", 1_500_000),
            row("a,b", "CNY", 2_000_000_000),
            row("c", "USD", 20),
            row("d", "", 0),
        ]);
        let rows: Vec<Value> = lines.iter().map(|line| asked.json(line)).collect();
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
    fn a_query_is_read_as_forms_write_it_and_its_mistakes_name_the_parameter() {
        let read = written("client=%E9%97%AE+%2B1&group_by=client%2Cday&&from").unwrap();
        let seen: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(seen, [("client", "问 +1"), ("from", ""), ("group_by", "client,day")]);
        for (query, param, told) in [
            ("client=%FF", "client", "`client` is `%FF`, which is not UTF-8"),
            ("%FF=1", "%FF", "is not UTF-8"),
            ("to=2026-11-30&client=a&client=b", "client", "`client` is written twice"),
        ] {
            let wrong = written(query).unwrap_err();
            assert!(wrong.message.contains(told) && wrong.param == param, "{wrong:?}");
        }
    }

    #[test]
    fn no_name_is_a_formula_to_a_spreadsheet() {
        let asked = asked(&[("group_by", "client")]).unwrap();
        let names = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "a=1", "=HYPERLINK(\"http://x\",1)"];
        let lines = names.map(|name| asked.csv(&asked.lines(vec![row(name, "USD", 20)])));
        let cells = lines.map(|csv| csv.split_once("\r\n").unwrap().1.split_once(",1,10,").unwrap().0.to_owned());
        assert_eq!(
            cells,
            ["'=1+1", "'+1", "'-1", "'@SUM(1)", "'\t=1", "\"'\r=1\"", "a=1", "\"'=HYPERLINK(\"\"http://x\"\",1)\""]
        );
    }
}
