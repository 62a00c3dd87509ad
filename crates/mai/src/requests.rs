//! `requests` and `audit`: what was called and how it went; who has changed what.

mod story;

use base::Clock;
use mai::args::{AuditFlags, Requests, Seek, Span};
use serde_json::{Value, json};

use crate::remote::{Peer, Trouble, encoded, query};
use crate::table::Table;
use crate::{complain, say, text, when};

/// `mai-gateway requests`
///
/// # Errors
/// What is wrong and what to do.
pub fn requests(verb: &Requests) -> Result<(), Trouble> {
    match verb {
        Requests::List(seek) => list(seek),
        Requests::Show { at, id, content, form } => {
            let peer = Peer::admin(at)?;
            let path = format!("/admin/v1/requests/{}", encoded(id));
            let mut told = peer.get(&path)?.json()?;
            let kept = if *content { Some(peer.get(&format!("{path}/content"))?.json()?) } else { None };
            if form.json {
                if let (Some(told), Some(kept)) = (told.as_object_mut(), kept) {
                    told.insert("content".to_owned(), kept);
                }
                say(format!("{told:#}"));
                return Ok(());
            }
            say(story::told(&told, when::now()));
            if let Some(kept) = kept {
                say(story::content(&kept));
            }
            Ok(())
        }
    }
}

fn list(seek: &Seek) -> Result<(), Trouble> {
    let wanted = [
        ("client", &seek.client),
        ("route", &seek.route),
        ("status", &seek.status),
        ("outcome", &seek.outcome),
        ("upstream", &seek.upstream),
        ("cache", &seek.cache),
    ];
    let told = pages(&Peer::admin(&seek.at)?, "/admin/v1/requests", &wanted, &seek.span)?;
    if seek.form.json {
        say(format!("{told:#}"));
        return Ok(());
    }
    let mut table = Table::of([
        "when", "request", "client", "route", "upstream", ">status", "outcome", "cache", ">ms", ">tries", ">in",
        ">out", ">cost",
    ]);
    let now = when::now();
    for record in data(&told) {
        let tries = record.get("attempts").and_then(Value::as_array).map_or(0, Vec::len).to_string();
        let before = ["request_id", "client", "route", "upstream", "status", "outcome", "cache"];
        let before = before.map(|field| text(record, field));
        let [tokens_in, tokens_out] = ["tokens_in", "tokens_out"].map(|field| text(record, field));
        let after = [story::ms(record, "ms"), tries, tokens_in, tokens_out, story::cost(record)];
        table.row([when::told(&text(record, "time"), now)].into_iter().chain(before).chain(after));
    }
    say(shown(&table, &told, "no request is like that"));
    Ok(())
}

/// `mai-gateway audit`
///
/// # Errors
/// What is wrong and what to do.
pub fn audit(flags: &AuditFlags) -> Result<(), Trouble> {
    let wanted = [("who", &flags.who), ("object", &flags.object)];
    let told = pages(&Peer::admin(&flags.at)?, "/admin/v1/audit", &wanted, &flags.span)?;
    if flags.form.json {
        say(format!("{told:#}"));
        return Ok(());
    }
    let mut table = Table::of(["when", "who", "role", "did", "to", "change"]);
    let now = when::now();
    for deed in data(&told) {
        let change = change(deed.get("before").unwrap_or(&Value::Null), deed.get("after").unwrap_or(&Value::Null));
        let [who, role, action, object] = ["who", "role", "action", "object"].map(|field| text(deed, field));
        table.row([when::told(&text(deed, "time"), now), who, role, action, object, change]);
    }
    say(shown(&table, &told, "nothing like that was done"));
    Ok(())
}

/// What has changed, in one line: each field with its value before and after.
fn change(before: &Value, after: &Value) -> String {
    let mut parts = Vec::new();
    compare("", before, after, &mut parts);
    parts.join(", ")
}

fn compare(path: &str, before: &Value, after: &Value, parts: &mut Vec<String>) {
    let nothing = Value::Null;
    match (before, after) {
        _ if before == after => {}
        (Value::Object(_) | Value::Null, Value::Object(_)) | (Value::Object(_), Value::Null) if !path.contains('.') => {
            let empty = serde_json::Map::new();
            let [old, new] = [before, after].map(|side| side.as_object().unwrap_or(&empty));
            for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let [was, is] = [old, new].map(|side| side.get(name).unwrap_or(&nothing));
                compare(&path, was, is, parts);
            }
        }
        (Value::Null, is) => parts.push(format!("{path}: {is}")),
        (was, Value::Null) => parts.push(format!("{path}: {was} removed")),
        (was, is) => parts.push(format!("{path}: {was} → {is}")),
    }
}

/// What is asked for, page by page up to the limit: the gateway cuts a page whose search takes long, so that one with
/// few items, or none, need not be the last.
fn pages(peer: &Peer, path: &str, wanted: &[(&str, &Option<String>)], span: &Span) -> Result<Value, Trouble> {
    let now = when::now();
    let at = |option: &str, time: &Option<String>| {
        let at = time.as_deref().map(|time| when::back(time, now)).transpose();
        at.map_err(|how| Trouble::usage(format!("{option}: {how}")))
    };
    let (since, until) = (at("--since", &span.since)?, at("--until", &span.until)?);
    let until_then = Clock.now() + span.patience;
    let mut items: Vec<Value> = Vec::new();
    let mut after = span.after.clone();
    loop {
        let limit = (usize::from(span.limit).saturating_sub(items.len())).to_string();
        let bounds = [
            ("since", since.as_deref()),
            ("until", until.as_deref()),
            ("limit", Some(limit.as_str())),
            ("after", after.as_deref()),
        ];
        let wanted = wanted.iter().map(|(name, value)| (*name, value.as_deref()));
        let mut page = peer.get(&format!("{path}{}", query(wanted.chain(bounds))))?.json()?;
        if let Some(Value::Array(data)) = page.get_mut("data").map(Value::take) {
            items.extend(data);
        }
        let next = page.get("next").and_then(Value::as_str).map(str::to_owned);
        let is_over = Clock.now() >= until_then;
        if items.len() < usize::from(span.limit) && next.is_some() && next != after && !is_over {
            after = next;
            continue;
        }
        if let Some(next) = next.as_deref().map(crate::table::clean) {
            complain(if items.len() < usize::from(span.limit) {
                let seconds = span.patience.as_secs();
                format!(
                    "not everything was looked through within {seconds} s: go on with --after {next}, or narrow it down by --since and --until"
                )
            } else {
                format!("there are more: --after {next}")
            });
        }
        let mut told = json!({ "data": items });
        if let (Some(told), Some(next)) = (told.as_object_mut(), next) {
            told.insert("next".to_owned(), next.into());
        }
        return Ok(told);
    }
}

fn shown(table: &Table, told: &Value, nothing: &str) -> String {
    match (table.is_empty(), told.get("next")) {
        (false, _) => table.shown(),
        (true, None | Some(Value::Null)) => nothing.to_owned(),
        (true, Some(_)) => format!("{nothing}, as far as was looked"),
    }
}

fn data(told: &Value) -> impl Iterator<Item = &Value> {
    told.get("data").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::change;
    use serde_json::{Value, json};

    #[test]
    fn a_change_is_told_field_by_field() {
        let before = json!({ "name": "chat", "limit": { "qps": 5 }, "deadline": "10s" });
        let after = json!({ "name": "chat", "limit": { "qps": 50, "burst": 5 }, "cache": { "mode": "exact" } });
        assert_eq!(
            change(&before, &after),
            "limit.qps: 5 → 50, limit.burst: 5, deadline: \"10s\" removed, cache.mode: \"exact\""
        );
        assert_eq!(change(&Value::Null, &Value::Null), "", "a lever changes nothing that is written");
        assert_eq!(change(&Value::Null, &json!({ "note": "a" })), "note: \"a\"");
    }
}
