//! `routes`, `providers` and `clients`: looked at and changed while the gateway runs; `export` and `import`.

mod edit;

use std::path::Path;

use base::ObjectKind;
use config::Piece;
use mai::args::{AdminAt, ExportFlags, ImportFlags, Objects};
use serde_json::{Map, Value, json};
use similar::TextDiff;
use ureq::http::Method;

use crate::remote::{If, Peer, Told, Trouble, encoded, told_of};
use crate::table::{Table, clean};
use crate::{check, complain, files, say, text, when};

/// What an import may be, at most, is 8 MiB; a file that is larger is none.
const LARGEST: u64 = 8 << 20;

/// `mai-gateway routes`, `providers`, `clients`
///
/// # Errors
/// What is wrong and what to do.
pub fn objects(kind: ObjectKind, verb: &Objects) -> Result<(), Trouble> {
    match verb {
        Objects::List { at, form } => {
            let all = Peer::admin(at)?.list(&at_kind(kind))?;
            if form.json {
                say(format!("{:#}", json!({ "data": all })));
                return Ok(());
            }
            say(if all.is_empty() { format!("there are no {}", kind.list()) } else { listed(kind, &all) });
            Ok(())
        }
        Objects::Show { at, name, form } => {
            let told = Peer::admin(at)?.get(&at_object(kind, name))?.json()?;
            say(if form.json { format!("{told:#}") } else { written(told.get("config")) });
            Ok(())
        }
        Objects::Edit { at, name } => edit::edit(kind, at, name),
        Objects::Put { at, file, dry_run, form } => put(kind, at, file, *dry_run, form.json),
        Objects::Delete { at, name, dry_run } => {
            let path = format!("{}{}", at_object(kind, name), if *dry_run { "?dry_run=true" } else { "" });
            Peer::admin(at)?.ask(&Method::DELETE, &path, None, If::Whatever)?;
            let done = if *dry_run { "would be removed; nothing was" } else { "is removed" };
            say(format!("{}/{} {done}", kind.list(), clean(name)));
            Ok(())
        }
        Objects::Export(flags) => export(flags, Some(kind)),
        Objects::Import(flags) => import(flags, Some(kind)),
    }
}

fn at_kind(kind: ObjectKind) -> String {
    format!("/admin/v1/{}", kind.list())
}

fn at_object(kind: ObjectKind, name: &str) -> String {
    format!("{}/{}", at_kind(kind), encoded(name))
}

fn written(config: Option<&Value>) -> String {
    config.map_or_else(String::new, config::as_yaml)
}

fn listed(kind: ObjectKind, all: &[Value]) -> String {
    let own: [&str; 2] = match kind {
        ObjectKind::Provider => ["protocol", "address"],
        ObjectKind::Route => ["path", "upstreams"],
        ObjectKind::Client => ["priority", "routes"],
    };
    let mut table = Table::of(["name", own[0], own[1], "kept by", "changed"]);
    let now = when::now();
    for object in all {
        let config = object.get("config").unwrap_or(&Value::Null);
        let [first, second] = match kind {
            ObjectKind::Provider => [or_default(config.get("protocol")), text(config, "base_url")],
            // The short form takes its path from the address.
            ObjectKind::Route if config.get("match").is_none() && config.get("upstream").is_some() => {
                ["-".to_owned(), upstreams(config)]
            }
            ObjectKind::Route => [or_default(config.pointer("/match/path")), upstreams(config)],
            ObjectKind::Client => {
                let routes = config.get("routes").filter(|routes| routes.is_array());
                [or_default(config.get("priority")), routes.map_or_else(|| "-".to_owned(), |all| or_default(Some(all)))]
            }
        };
        let home = match text(object, "file") {
            file if file == "-" => text(object, "managed_by"),
            file => file,
        };
        let changed = when::told(&text(object, "changed_at"), now);
        table.row([text(object, "name"), first, second, home, changed]);
    }
    table.shown()
}

/// Who answers on a route, in the order written.
fn upstreams(config: &Value) -> String {
    let Some(all) = config.get("upstreams").and_then(Value::as_array) else {
        return config.get("upstream").map_or_else(|| "-".to_owned(), |short| text(short, "url"));
    };
    let named = |upstream: &Value| format!("{}/{}", text(upstream, "provider"), text(upstream, "model"));
    all.iter().map(named).collect::<Vec<_>>().join(", ")
}

/// A word or a list of them; of what stands in it with more, the name.
fn or_default(value: Option<&Value>) -> String {
    let word = |item: &Value| item.as_str().map_or_else(|| text(item, "name"), str::to_owned);
    match value {
        None | Some(Value::Null) => "(default)".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::Array(items)) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        Some(value) => word(value),
    }
}

/// What stands in a file, variables filled from this command's environment.
fn pieces(file: &Path, alone: Option<ObjectKind>) -> Result<config::Pieces, Trouble> {
    let text = files::text(file, LARGEST)?;
    config::pieces(&files::name(file), &text, alone, &check::env).map_err(|errors| Trouble::of(errors.to_string()))
}

fn put(kind: ObjectKind, at: &AdminAt, file: &Path, dry_run: bool, is_json: bool) -> Result<(), Trouble> {
    let config::Pieces { pieces, others } = pieces(file, Some(kind))?;
    let (pieces, more): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(|piece| piece.kind == kind);
    if let Some(other) = more.first().map(|other| other.kind.list()).or(others.first().map(String::as_str)) {
        let hint = "write the three sections of a configuration with `mai-gateway import`";
        return Err(Trouble::of(format!("{}: there is also `{other}`; {hint}", files::name(file))));
    }
    let peer = Peer::admin(at)?;
    let mut answers = Vec::new();
    let mut plans = Vec::new();
    let mut refused: Option<Trouble> = None;
    // Everything is tried first, so that all mistakes are found before anything is written.
    for piece in &pieces {
        let (current, tried) = match rehearse(&peer, piece) {
            Ok(found) => found,
            Err(trouble) => {
                refused = Some(match refused {
                    None => trouble,
                    Some(known) => known.and(&trouble.to_string()),
                });
                continue;
            }
        };
        if !is_json {
            say(difference(piece, current.as_ref().map(|(_, object)| object), &tried));
            warn(&tried);
        }
        plans.push((piece, current.map(|(etag, _)| etag)));
        answers.extend(dry_run.then_some(tried));
    }
    if let Some(trouble) = refused {
        let hint = format!(
            "nothing was written; what needs each other goes together with `mai-gateway {} import`",
            kind.list()
        );
        return Err(if pieces.len() > 1 { trouble.and(&hint) } else { trouble });
    }
    for (piece, etag) in plans.iter().filter(|_| !dry_run) {
        let expected = match etag {
            Some(Some(etag)) => If::Matches(etag),
            Some(None) => If::Whatever,
            None => If::Absent,
        };
        let path = at_object(kind, &piece.name);
        let told = peer.ask(&Method::PUT, &path, Some(&piece.config.to_string()), expected).map_err(|trouble| {
            let done = answers.len();
            let of = plans.len();
            if of > 1 { trouble.and(&format!("{done} of {of} were written before it")) } else { trouble }
        })?;
        if !is_json {
            let done = etag.as_ref().map_or("created", |etag| what_became(etag.as_deref(), &told));
            say(format!("{}/{} {done}", kind.list(), clean(&piece.name)));
        }
        answers.push(told.json()?);
    }
    if is_json {
        say(match answers.as_slice() {
            [alone] => format!("{alone:#}"),
            all => format!("{:#}", json!({ "data": all })),
        });
    } else if dry_run {
        say("nothing was changed");
    }
    Ok(())
}

/// What became of an object that was there, as this version of it.
fn what_became(before: Option<&str>, told: &Told) -> &'static str {
    if before.is_some() && before == told.etag.as_deref() { "unchanged" } else { "replaced" }
}

type Current = Option<(Option<String>, Value)>;

/// What is there now, and what would become of it.
fn rehearse(peer: &Peer, piece: &Piece) -> Result<(Current, Value), Trouble> {
    let path = at_object(piece.kind, &piece.name);
    let current = match peer.get(&path) {
        Ok(told) => Some((told.etag.clone(), told.json()?)),
        Err(trouble) if trouble.status == Some(404) => None,
        Err(trouble) => return Err(trouble),
    };
    let dry = format!("{path}?dry_run=true");
    let tried = peer.ask(&Method::PUT, &dry, Some(&piece.config.to_string()), If::Whatever)?.json()?;
    Ok((current, tried))
}

/// The lines that change by what was tried. Both sides are the gateway's own words, in which secrets are masked.
fn difference(piece: &Piece, old: Option<&Value>, tried: &Value) -> String {
    let [old, new] = [old, tried.get("object")].map(|object| written(object.and_then(|object| object.get("config"))));
    let name = format!("{}/{}", piece.kind.list(), clean(&piece.name));
    if text(tried, "would") == "nothing" {
        return format!("{name}: nothing changes");
    }
    if old == new {
        return format!("{name}: nothing changes that is shown (secrets are not)");
    }
    let [old, new] = [old, new].map(|text| if text.is_empty() { text } else { text + "\n" });
    let diff = TextDiff::from_lines(&old, &new);
    let diff =
        diff.unified_diff().context_radius(2).header(&format!("{name} (now)"), &format!("{name} (then)")).to_string();
    diff.trim_end().to_owned()
}

fn warn(told: &Value) {
    for warning in told.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        complain(format!("note: {}", clean(&told_of(warning))));
    }
}

/// `mai-gateway export`, of everything or of one kind
///
/// # Errors
/// What is wrong and what to do.
pub fn export(flags: &ExportFlags, only: Option<ObjectKind>) -> Result<(), Trouble> {
    let query = if flags.key_hashes { "?key_hashes=true" } else { "" };
    let told = Peer::admin(&flags.at)?.get(&format!("/admin/v1/export{query}"))?;
    let Some(kind) = only else {
        say(told.text.trim_end());
        return Ok(());
    };
    say(section(&told.text, kind.list()).trim_end());
    Ok(())
}

/// The lines of one key of the top level, and comments before all keys.
fn section(text: &str, name: &str) -> String {
    let mut is_wanted = true;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_key = line.starts_with(|first: char| first.is_ascii_alphabetic());
        if is_key {
            is_wanted = line.split_once(':').is_some_and(|(key, _)| key == name);
        }
        if is_wanted {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// `mai-gateway import`, of everything or of one kind
///
/// # Errors
/// What is wrong and what to do.
pub fn import(flags: &ImportFlags, only: Option<ObjectKind>) -> Result<(), Trouble> {
    let config::Pieces { pieces, mut others } = pieces(&flags.file, only)?;
    let mut sections = Map::new();
    for kind in ObjectKind::ALL {
        let of_it: Vec<Value> =
            pieces.iter().filter(|piece| piece.kind == kind).map(|piece| piece.config.clone()).collect();
        match only.is_none_or(|only| only == kind) {
            _ if of_it.is_empty() => {}
            true => drop(sections.insert(kind.list().to_owned(), Value::Array(of_it))),
            false => others.push(kind.list().to_owned()),
        }
    }
    if sections.is_empty() {
        let wanted = only.map_or("providers, routes or clients", ObjectKind::list);
        return Err(Trouble::of(format!("{}: there are no {wanted} in it", files::name(&flags.file))));
    }
    if !others.is_empty() {
        complain(format!("left out: {}", others.join(", ")));
    }
    let wishes = [("dry_run", flags.dry_run), ("replace", flags.replace)];
    let wishes = wishes.map(|(name, is_wished)| (name, is_wished.then_some("true")));
    let path = format!("/admin/v1/import{}", crate::remote::query(wishes));
    let body = Value::Object(sections).to_string();
    let told = Peer::admin(&flags.at)?.ask(&Method::POST, &path, Some(&body), If::Whatever)?.json()?;
    if flags.form.json {
        say(format!("{told:#}"));
        return Ok(());
    }
    let will = if flags.dry_run { "would be " } else { "" };
    for (field, done) in [("created", "created"), ("replaced", "replaced"), ("unchanged", "left unchanged")] {
        for name in told.get(field).and_then(Value::as_array).into_iter().flatten() {
            let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            say(format!("{} {will}{done}", clean(&name)));
        }
    }
    warn(&told);
    if flags.dry_run {
        say("nothing was changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_section_is_cut_out_of_an_export() {
        let all =
            "# made by export\nproviders:\n- name: cloud\n\nroutes:\n- name: chat\n  path: x\nclients:\n- name: app\n";
        assert_eq!(section(all, "routes"), "# made by export\nroutes:\n- name: chat\n  path: x");
    }

    #[test]
    fn a_list_says_who_answers_and_who_may_change_it() {
        let all = [
            json!({ "name": "chat", "managed_by": "file", "file": "g.yaml:7:5", "config": { "match": { "path": "/v1/chat/completions" }, "upstreams": [{ "provider": "cloud", "model": "m" }, { "provider": "local", "model": "q" }] } }),
            json!({ "name": "向量", "managed_by": "admin", "revision": 2, "config": { "upstream": { "url": "http://e/v1/embeddings" } } }),
        ];
        assert_eq!(
            listed(ObjectKind::Route, &all),
            "name  path                  upstreams               kept by     changed\n\
             chat  /v1/chat/completions  cloud/m, local/q        g.yaml:7:5  -\n\
             向量  -                     http://e/v1/embeddings  admin       -"
        );
        let clients = [
            json!({ "name": "app", "managed_by": "admin", "config": { "routes": ["*", { "name": "chat", "limit": {} }] } }),
        ];
        assert!(listed(ObjectKind::Client, &clients).contains("*, chat"));
    }
}
