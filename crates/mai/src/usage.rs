//! `usage`: what was used, as a running gateway has it.

use mai::args::UsageFlags;
use serde_json::Value;

use crate::remote::{Peer, Trouble, query};
use crate::say;
use crate::table::{Table, terminal};

/// `mai-gateway usage`
///
/// # Errors
/// What is wrong and what to do.
pub fn usage(flags: &UsageFlags) -> Result<(), Trouble> {
    let format = if flags.csv { "csv" } else { "json" };
    let wanted = [
        ("format", Some(format)),
        ("group_by", Some(flags.by.as_str())),
        ("from", flags.from.as_deref()),
        ("to", flags.to.as_deref()),
        ("client", flags.client.as_deref()),
    ];
    let answer = Peer::admin(&flags.at)?.get(&format!("/admin/v1/usage{}", query(wanted)))?;
    if flags.csv {
        say(answer.text.trim_end());
        return Ok(());
    }
    let told = answer.json()?;
    say(if flags.json { format!("{told:#}") } else { table(&flags.by, &told, terminal()) });
    Ok(())
}

/// Columns behind the names.
const COUNTS: [(&str, &str); 5] = [
    ("requests", ">requests"),
    ("tokens_in", ">tokens in"),
    ("tokens_out", ">tokens out"),
    ("cache_hits", ">cache hits"),
    ("tokens_saved", ">tokens saved"),
];

fn table(by: &str, told: &Value, most: Option<usize>) -> String {
    let names: Vec<&str> = by.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let head = names.iter().copied().chain(COUNTS.iter().map(|(_, shown)| *shown)).chain(["cost", "saved"]);
    let mut table = Table::of(head);
    for row in told.get("rows").and_then(Value::as_array).into_iter().flatten() {
        let named = names.iter().map(|name| row.get(name).and_then(Value::as_str).unwrap_or("-").to_owned());
        let counts = COUNTS.iter().map(|(name, _)| row.get(name).map(Value::to_string).unwrap_or_default());
        table.row(named.chain(counts).chain([cost(row), saved(row)]));
    }
    if table.is_empty() { "nothing was used in that time".to_owned() } else { table.lines(most) }
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
            table("client,day", &told, None),
            "client  day         requests  tokens in  tokens out  cache hits  tokens saved  cost                   saved\n\
             问答    2026-11-30        12       3400          50           3           900  0.5 USD                0.125 USD\n\
             batch   -                  1          5           0           0             0  1 at an unknown price  -"
        );
        assert_eq!(table("client", &json!({ "rows": [] }), None), "nothing was used in that time");
    }
}
