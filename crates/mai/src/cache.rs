//! `cache`: what is cached, and the levers over it.

use mai::args::{Cache, Which};
use serde_json::{Value, json};
use ureq::http::Method;

use crate::remote::{If, Peer, Trouble, encoded};
use crate::table::{Table, clean};
use crate::{say, text};

/// `mai-gateway cache`
///
/// # Errors
/// What is wrong and what to do.
pub fn cache(verb: &Cache) -> Result<(), Trouble> {
    match verb {
        Cache::Stats { at, form } => {
            let told = Peer::admin(at)?.get("/admin/v1/cache")?.json()?;
            say(if form.json { format!("{told:#}") } else { stats(&told) });
        }
        Cache::Purge { at, which, dry_run, form } => {
            let path = if *dry_run { "/admin/v1/cache/purge?dry_run=true" } else { "/admin/v1/cache/purge" };
            let told = Peer::admin(at)?.ask(&Method::POST, path, Some(&narrowed(which)), If::Whatever)?.json()?;
            let done = if *dry_run { "would be purged; nothing was" } else { "purged" };
            say(match told.get("purged").and_then(Value::as_u64) {
                Some(1) if !form.json => format!("1 entry {done}"),
                Some(purged) if !form.json => format!("{purged} entries {done}"),
                _ => format!("{told:#}"),
            });
        }
        Cache::Remove { at, id } => {
            let path = format!("/admin/v1/cache/entries/{}", encoded(id));
            Peer::admin(at)?.ask(&Method::DELETE, &path, None, If::Whatever)?;
            say(format!("{} is removed", clean(id)));
        }
        Cache::KbVersion { at, route, version, unset } => {
            let peer = Peer::admin(at)?;
            if version.is_none() && !unset {
                say(version_of(&peer.get("/admin/v1/cache")?.json()?, route)?);
                return Ok(());
            }
            let path = format!("/admin/v1/cache/routes/{}/kb-version", encoded(route));
            peer.ask(&Method::PUT, &path, Some(&json!({ "kb_version": version }).to_string()), If::Whatever)?;
            say(match version {
                Some(version) => format!("{}: kb_version is {} from now on", clean(route), clean(version)),
                None => format!("{}: kb_version is the file's again", clean(route)),
            });
        }
    }
    Ok(())
}

fn narrowed(which: &Which) -> String {
    let given = [("route", &which.route), ("client", &which.client), ("kind", &which.kind)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
    Value::Object(given.collect()).to_string()
}

fn version_of(told: &Value, route: &str) -> Result<String, Trouble> {
    let routes = told.get("routes").and_then(Value::as_array);
    let known = routes.into_iter().flatten().find(|known| text(known, "route") == route);
    let known =
        known.ok_or_else(|| Trouble::of(format!("there is no route `{route}`; see `mai-gateway routes list`")))?;
    Ok(match text(known, "kb_version_from").as_str() {
        "-" => "none is set".to_owned(),
        "unknown" => "not known yet: the gateway cannot read what operators have set".to_owned(),
        from => {
            let from = if from == "admin" { "set by an operator" } else { "from the file" };
            format!("{} ({from})", clean(&text(known, "kb_version")))
        }
    })
}

fn stats(told: &Value) -> String {
    let mut tiers = Table::of(["where", ">entries", ">size", ">at most", ">hits", ">evicted", "status"]);
    for (name, tier) in [("memory", told.get("memory")), ("disk", told.get("disk"))] {
        let Some(tier) = tier.filter(|tier| tier.is_object()) else { continue };
        let status = match (text(tier, "status").as_str(), text(tier, "why").as_str()) {
            ("-", _) => "ok".to_owned(),
            (status, "-") => status.to_owned(),
            (status, why) => format!("{status}: {why}"),
        };
        let [entries, hits, evicted] = ["entries", "hits", "evicted"].map(|field| text(tier, field));
        tiers.row([name, &entries, &size(tier, "bytes"), &size(tier, "max_bytes"), &hits, &evicted, &status]);
    }
    let holdings = holdings(told);
    let mut routes = Table::of(["route", "mode", "kb_version", "from"]);
    for route in told.get("routes").and_then(Value::as_array).into_iter().flatten() {
        routes.row(["route", "mode", "kb_version", "kb_version_from"].map(|field| text(route, field)));
    }
    let tables = [tiers, holdings, routes].into_iter().filter(|table| !table.is_empty()).map(|table| table.shown());
    tables.collect::<Vec<_>>().join("\n\n")
}

fn holdings(told: &Value) -> Table {
    let mut table = Table::of(["route", "kind", ">in memory", ">size", ">on disk", ">size"]);
    for holding in told.get("holdings").and_then(Value::as_array).into_iter().flatten() {
        let [memory, disk] = ["memory", "disk"].map(|tier| holding.get(tier).cloned().unwrap_or_default());
        let (route, kind) = (text(holding, "route"), text(holding, "kind"));
        let sides = [text(&memory, "entries"), size(&memory, "bytes"), text(&disk, "entries"), size(&disk, "bytes")];
        table.row([route, kind].into_iter().chain(sides));
    }
    table
}

/// Bytes in the unit that reads best.
fn size(of: &Value, name: &str) -> String {
    let Some(bytes) = of.get(name).and_then(Value::as_u64) else { return "-".to_owned() };
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fitting = units.into_iter().find(|(bits, _)| bytes >> bits > 0);
    fitting.map_or_else(
        || format!("{bytes} B"),
        |(bits, unit)| format!("{:.1} {unit}", bytes as f64 / f64::from(1_u32 << bits)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_told_by_tier_holding_and_route() {
        let told = json!({
            "memory": { "entries": 2, "bytes": 2048, "max_bytes": 268_435_456, "hits": 7, "evicted": 0, "refused": 0 },
            "disk": { "entries": 2, "bytes": 900, "max_bytes": 2_147_483_648_u64, "hits": 1, "evicted": 0, "refused": 0, "status": "out", "why": "disk full" },
            "holdings": [{ "kind": "answer", "route": "chat", "memory": { "entries": 2, "bytes": 2048 }, "disk": { "entries": 2, "bytes": 900 } }],
            "routes": [{ "route": "chat", "mode": "exact", "kb_version": null, "kb_version_from": null }],
        });
        assert_eq!(
            stats(&told),
            "where   entries     size    at most  hits  evicted  status\n\
             memory        2  2.0 KiB  256.0 MiB     7        0  ok\n\
             disk          2    900 B    2.0 GiB     1        0  out: disk full\n\n\
             route  kind    in memory     size  on disk   size\n\
             chat   answer          2  2.0 KiB        2  900 B\n\n\
             route  mode   kb_version  from\n\
             chat   exact  -           -"
        );
    }
}
