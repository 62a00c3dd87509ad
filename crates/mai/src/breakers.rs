//! `breakers` and `drills`: which upstreams take calls, and faults that are put in their way.

use mai::args::{Breakers, Drills, Harm};
use serde_json::{Map, Value, json};
use ureq::http::Method;

use crate::remote::{If, Peer, Trouble, encoded};
use crate::table::{Table, clean};
use crate::{say, text, when};

/// `mai-gateway breakers`
///
/// # Errors
/// What is wrong and what to do.
pub fn breakers(verb: &Breakers) -> Result<(), Trouble> {
    match verb {
        Breakers::List { at, form } => {
            let all = Peer::admin(at)?.list("/admin/v1/breakers")?;
            if form.json {
                say(format!("{:#}", json!({ "data": all })));
                return Ok(());
            }
            let mut table = Table::of(["upstream", "route", "state", "since", "held", "resting"]);
            let now = when::now();
            for breaker in &all {
                let [upstream, route] = ["upstream", "route"].map(|field| text(breaker, field));
                let [since, until, rest] =
                    ["since", "held_until", "resting_until"].map(|field| when::told(&text(breaker, field), now));
                let held = match (breaker.get("held").and_then(Value::as_bool), until.as_str()) {
                    (Some(true), "-") => "by hand",
                    (Some(true), until) => &format!("by hand, ends {until}"),
                    _ => "-",
                };
                let rest = if rest == "-" { rest } else { format!("ends {rest}") };
                let state = text(breaker, "state").replace('_', " ");
                table.row([&upstream, &route, &state, &since, held, &rest]);
            }
            say(if table.is_empty() { "there is no upstream".to_owned() } else { table.shown() });
        }
        Breakers::Open { at, upstream, long } => {
            let asked = [("for", long.as_deref()), ("route", upstream.route.as_deref())];
            let told = pull(&Peer::admin(at)?, &upstream.upstream, "open", asked)?;
            let until = told.pointer("/data/0/held_until").and_then(Value::as_str);
            let end = until.map_or_else(|| "until `mai-gateway breakers close`".to_owned(), |at| format!("until {at}"));
            say(format!("{} takes no calls{} {end}", clean(&upstream.upstream), routes(&told)));
        }
        Breakers::Close { at, upstream } => {
            let asked = [("route", upstream.route.as_deref())];
            let told = pull(&Peer::admin(at)?, &upstream.upstream, "close", asked)?;
            say(format!("{} takes calls{}", clean(&upstream.upstream), routes(&told)));
        }
    }
    Ok(())
}

/// On which routes a lever has moved something.
fn routes(told: &Value) -> String {
    let moved = told.get("data").and_then(Value::as_array).into_iter().flatten();
    let names = moved.map(|breaker| clean(&text(breaker, "route"))).collect::<Vec<_>>().join(", ");
    if names.is_empty() { names } else { format!(" on {names}") }
}

fn pull<'a>(
    peer: &Peer,
    upstream: &str,
    lever: &str,
    asked: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Value, Trouble> {
    let path = format!("/admin/v1/breakers/{}/{lever}", encoded(upstream));
    let given = asked.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let body = Value::Object(given.collect()).to_string();
    peer.ask(&Method::POST, &path, Some(&body), If::Whatever)?.json()
}

/// `mai-gateway drills`
///
/// # Errors
/// What is wrong and what to do.
pub fn drills(verb: &Drills) -> Result<(), Trouble> {
    match verb {
        Drills::List { at, form } => {
            let all = Peer::admin(at)?.list("/admin/v1/drills")?;
            if form.json {
                say(format!("{:#}", json!({ "data": all })));
                return Ok(());
            }
            let mut table = Table::of(["id", "upstream", "route", "does", ">of 100 calls", "ends"]);
            let now = when::now();
            for drill in &all {
                let [id, upstream, route] = ["id", "upstream", "route"].map(|field| text(drill, field));
                let percent = drill.get("percent").map_or_else(|| "100".to_owned(), Value::to_string);
                let ends = when::told(&text(drill, "until"), now);
                table.row([id, upstream, route, done(drill), percent, ends]);
            }
            say(if table.is_empty() { "no drill is on".to_owned() } else { table.shown() });
        }
        Drills::Start { at, upstream, harm, long, percent, form } => {
            let mut asked = wished(harm);
            asked.insert("upstream".to_owned(), json!(upstream.upstream));
            asked.insert("for".to_owned(), json!(long));
            asked.extend(upstream.route.as_ref().map(|route| ("route".to_owned(), json!(route))));
            asked.extend(percent.map(|percent| ("percent".to_owned(), json!(percent))));
            let body = Value::Object(asked).to_string();
            let told = Peer::admin(at)?.ask(&Method::POST, "/admin/v1/drills", Some(&body), If::Whatever)?.json()?;
            let (id, until) = (clean(&text(&told, "id")), clean(&text(&told, "until")));
            say(if form.json {
                format!("{told:#}")
            } else {
                format!("drill {id} is on until {until}; end it with `mai-gateway drills stop {id}`")
            });
        }
        Drills::Stop { at, id } => {
            let path = format!("/admin/v1/drills/{}", encoded(id));
            Peer::admin(at)?.ask(&Method::DELETE, &path, None, If::Whatever)?;
            say(format!("drill {} is over", clean(id)));
        }
    }
    Ok(())
}

fn wished(harm: &Harm) -> Map<String, Value> {
    let reset = harm.reset.then(|| json!(true));
    let all = [
        ("latency", harm.latency.as_ref().map(|latency| json!(latency))),
        ("status", harm.status.map(|status| json!(status))),
        ("reset", reset),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// What a drill does to a call, in words.
fn done(drill: &Value) -> String {
    let mut parts = Vec::new();
    if !matches!(text(drill, "latency").as_str(), "-" | "0") {
        parts.push(format!("{} later", text(drill, "latency")));
    }
    if text(drill, "status") != "-" {
        parts.push(format!("status {}", text(drill, "status")));
    }
    if drill.get("reset").and_then(Value::as_bool) == Some(true) {
        parts.push("reset".to_owned());
    }
    parts.join(", ")
}
