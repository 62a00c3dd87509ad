//! `usage`: what was used, as a running gateway has it.

use std::process::ExitCode;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{BAD_CONFIG, CLEAN, complain, remote, say};
use mai::args::UsageFlags;

/// `mai-gateway usage`
pub fn usage(flags: &UsageFlags) -> ExitCode {
    match report(flags) {
        Ok(text) => say(text.trim_end()),
        Err(message) => {
            complain(message);
            return BAD_CONFIG.into();
        }
    }
    CLEAN.into()
}

fn report(flags: &UsageFlags) -> Result<String, String> {
    let format = if flags.csv { "csv" } else { "json" };
    let mut path = format!("/admin/v1/usage?format={format}");
    let wanted = [("group_by", Some(&flags.by)), ("from", flags.from.as_ref()), ("to", flags.to.as_ref())];
    for (name, value) in wanted.into_iter().chain([("client", flags.client.as_ref())]) {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
        }
    }
    let answer = remote::get(&flags.at, &path)?;
    if flags.csv {
        return Ok(answer);
    }
    let told: Value = serde_json::from_str(&answer).map_err(|error| format!("the answer is no JSON: {error}"))?;
    if flags.json {
        return Ok(format!("{told:#}"));
    }
    Ok(table(&flags.by, &told))
}

/// Columns behind the names, and whether they stand to the right.
const COUNTS: [(&str, &str); 5] = [
    ("requests", "requests"),
    ("tokens_in", "tokens in"),
    ("tokens_out", "tokens out"),
    ("cache_hits", "cache hits"),
    ("tokens_saved", "tokens saved"),
];

fn table(by: &str, told: &Value) -> String {
    let rows = told.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return "nothing was used in that time".to_owned();
    }
    let names: Vec<&str> = by.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let head = names.iter().copied().chain(COUNTS.iter().map(|(_, shown)| *shown)).chain(["cost", "saved"]);
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for row in rows {
        let named = names.iter().map(|name| row.get(name).and_then(Value::as_str).unwrap_or("-").to_owned());
        let counts = COUNTS.iter().map(|(name, _)| row.get(name).map(Value::to_string).unwrap_or_default());
        lines.push(named.chain(counts).chain([cost(row), saved(row)]).collect());
    }
    let columns = names.len() + COUNTS.len() + 2;
    let width = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or_default()).collect();
    let is_left = |at: usize| at < names.len() || at + 2 >= columns;
    let shown = lines.iter().map(|line| {
        let cells = line.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(at, (cell, width))| {
                let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
                if is_left(at) { format!("{cell}{gap}") } else { format!("{gap}{cell}") }
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Every currency's sum; a sum of which a part is not known says so.
fn cost(row: &Value) -> String {
    let mut parts = amounts(row, "costs");
    let unpriced = row.get("unpriced").and_then(Value::as_u64).unwrap_or_default();
    if unpriced > 0 {
        parts.push(format!("{unpriced} at an unknown price"));
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join(" + ") }
}

/// What caches have saved of each currency.
fn saved(row: &Value) -> String {
    let parts: Vec<String> = amounts(row, "costs_saved").into_iter().filter(|part| !part.starts_with("0 ")).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(" + ") }
}

fn amounts(row: &Value, name: &str) -> Vec<String> {
    let amounts = row.get(name).and_then(Value::as_object);
    amounts.into_iter().flatten().map(|(currency, amount)| format!("{amount} {currency}")).collect()
}

#[cfg(test)]
mod tests {
    use super::table;
    use serde_json::json;

    #[test]
    fn the_table_is_for_people() {
        let told = json!({ "rows": [
            { "client": "问答", "day": "2026-11-30", "requests": 12, "tokens_in": 3400, "tokens_out": 50, "cache_hits": 3, "tokens_saved": 900, "costs": { "USD": 0.5 }, "costs_saved": { "USD": 0.125 }, "unpriced": 0 },
            { "client": "batch", "day": null, "requests": 1, "tokens_in": 5, "tokens_out": 0, "cache_hits": 0, "tokens_saved": 0, "costs": {}, "unpriced": 1 },
        ] });
        assert_eq!(
            table("client,day", &told),
            "client  day         requests  tokens in  tokens out  cache hits  tokens saved  cost                   saved\n\
             问答      2026-11-30        12       3400          50           3           900  0.5 USD                0.125 USD\n\
             batch   -                  1          5           0           0             0  1 at an unknown price  -"
        );
        assert_eq!(table("client", &json!({ "rows": [] })), "nothing was used in that time");
    }
}
