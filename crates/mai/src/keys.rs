//! `keys`: what clients call with, made and taken back while the gateway runs.

use std::io::Write as _;

use mai::args::{AdminAt, Keys};
use serde_json::{Value, json};
use ureq::http::Method;

use crate::remote::{If, Peer, Trouble, encoded};
use crate::table::{Table, clean};
use crate::{complain, say, text, when};

/// `mai-gateway keys`
///
/// # Errors
/// What is wrong and what to do.
pub fn keys(verb: &Keys) -> Result<(), Trouble> {
    match verb {
        Keys::New { at, client, note, expires, form } => {
            let mut asked = json!({});
            let expires = expires.as_deref().map(|text| when::ahead(text, when::now()));
            let expires = expires.transpose().map_err(|why| Trouble::usage(format!("--expires: {why}")))?;
            if let Some(asked) = asked.as_object_mut() {
                asked.extend(note.iter().map(|note| ("note".to_owned(), json!(note))));
                asked.extend(expires.map(|at| ("expires_at".to_owned(), json!(when::rfc3339(at)))));
            }
            let path = format!("{}/keys", at_client(client));
            let told = Peer::admin(at)?.ask(&Method::POST, &path, Some(&asked.to_string()), If::Whatever)?.json()?;
            hand_over(client, &told, form.json)
        }
        Keys::List { at, client, form } => list(at, client.as_deref(), form.json),
        Keys::Revoke { at, id, client } => {
            let peer = Peer::admin(at)?;
            let client = match client {
                Some(client) => client.clone(),
                None => owner(&peer, id)?,
            };
            let path = format!("{}/keys/{}", at_client(&client), encoded(id));
            peer.ask(&Method::DELETE, &path, None, If::Whatever)?;
            say(format!("key {} of client {} is good no more", clean(id), clean(&client)));
            Ok(())
        }
    }
}

fn at_client(name: &str) -> String {
    format!("/admin/v1/clients/{}", encoded(name))
}

/// The key to standard output, and to nowhere else; what is to be known of it to standard error.
fn hand_over(client: &str, told: &Value, is_json: bool) -> Result<(), Trouble> {
    let (id, key) = (text(told, "id"), text(told, "key"));
    let shown = if is_json { format!("{told:#}") } else { key };
    let lost = |error: std::io::Error| {
        Trouble::of(format!(
            "the key could not be written out ({error}), and is shown only once: take it back with `mai-gateway keys revoke {id}`"
        ))
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{shown}").and_then(|()| out.flush()).map_err(lost)?;
    if is_json {
        return Ok(());
    }
    let until = match text(told, "expires_at") {
        at if at == "-" => "good until it is revoked".to_owned(),
        at => format!("good until {at}"),
    };
    complain(format!(
        "This key of client {} is shown only this once; it is {until}.\nTake it back with: mai-gateway keys revoke {id}",
        clean(client)
    ));
    Ok(())
}

fn list(at: &AdminAt, client: Option<&str>, is_json: bool) -> Result<(), Trouble> {
    let peer = Peer::admin(at)?;
    let mut table = Table::of(["client", "id", "note", "made", "by", "expires", "last used", "kept by"]);
    let mut all = Vec::new();
    let names = match client {
        Some(client) => vec![client.to_owned()],
        None => peer.list("/admin/v1/clients")?.iter().map(|client| text(client, "name")).collect(),
    };
    let now = when::now();
    for name in &names {
        for mut key in peer.list(&format!("{}/keys", at_client(name)))? {
            let time = |field: &str| when::told(&text(&key, field), now);
            let (made, ends) = (time("created_at"), time("expires_at"));
            // Those that are written in the client itself have no times of their own.
            let is_issued = key.get("created_at").is_some_and(|at| !at.is_null());
            let used = if is_issued { time("last_used_at") } else { "not kept".to_owned() };
            let (id, by) = (text(&key, "id"), text(&key, "created_by"));
            let note = if is_issued { text(&key, "note") } else { "in the client's own `keys`".to_owned() };
            table.row([name, &id, &note, &made, &by, &ends, &used, &text(&key, "managed_by")]);
            if let Some(key) = key.as_object_mut().filter(|_| client.is_none()) {
                key.insert("client".to_owned(), json!(name));
            }
            all.push(key);
        }
    }
    match () {
        () if is_json => say(format!("{:#}", json!({ "data": all }))),
        () if table.is_empty() => say("there is no key; make one with `mai-gateway keys new --client NAME`"),
        () => say(table.shown()),
    }
    Ok(())
}

/// The client that has the key of this id.
fn owner(peer: &Peer, id: &str) -> Result<String, Trouble> {
    let mut owners = Vec::new();
    for client in peer.list("/admin/v1/clients")? {
        let name = text(&client, "name");
        if peer.list(&format!("{}/keys", at_client(&name)))?.iter().any(|key| text(key, "id") == id) {
            owners.push(name);
        }
    }
    match owners.as_slice() {
        [] => Err(Trouble::of(format!("no client has a key {}; see `mai-gateway keys list`", clean(id)))),
        [owner] => Ok(owner.clone()),
        // Only keys that stand in clients themselves are numbered in each.
        several => Err(Trouble::of(format!(
            "the clients {} each have a key {} in their own `keys`; take it out where the client is written",
            clean(&several.join(", ")),
            clean(id)
        ))),
    }
}
