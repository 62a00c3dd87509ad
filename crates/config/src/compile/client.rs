//! Who may call.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Glob, KeyId};
use foldhash::{HashMap, HashMapExt as _};

use super::{Compiler, Names, caches, limits, params, quota, resilience};
use crate::List;
use crate::problem::{Place, clean};
use crate::snapshot::{AdminToken, Client, Route};
use crate::view::View;

/// Pairs of a client and a route that have a limit of their own, of all clients at most: each has an account.
const MOST_LIMITED: usize = if cfg!(test) { 1_000 } else { 1_000_000 };
/// Keys of one client at most: those that come and go are issued through the admin API.
const MOST_KEYS: usize = 1_000;
/// Both ports know each other's secrets by their hashes alone.
const IS_A_TOKEN: &str = "is also an admin token: whoever sees the client's calls could change the gateway with it; write \
                          another key here, or another token there";

pub(super) fn compile(
    compiler: &mut Compiler<'_>,
    list: &View<'_>,
    routes: &List<Arc<Route>>,
    tokens: &[AdminToken],
) -> (List<Arc<Client>>, HashMap<KeyId, usize>) {
    let mut names = Names::of("client");
    let mut seen: HashMap<KeyId, Place> = HashMap::new();
    let mut by_id = HashMap::new();
    let mut clients = List::default();
    let routes: BTreeMap<&str, &Route> = routes.iter().map(|route| (&*route.name, &**route)).collect();
    // Of the pairs that may be limited those that are left; none, too, once there were too many.
    let mut left = Some(MOST_LIMITED);
    let mut useful = HashMap::new();
    for view in list.items() {
        for key in keys(compiler, &view.at("keys")) {
            let Some(id) = compiler.key_id(&key) else { continue };
            if let Some(first) = seen.get(&id) {
                compiler.report(&key, format!("the same key is written at {first}; a key belongs to one client, once"));
                continue;
            }
            if let Some(token) = tokens.iter().find(|token| token.id == id) {
                compiler.report_privately(&key, IS_A_TOKEN, format!("it is the admin token `{}`", clean(&token.name)));
            }
            seen.insert(id, key.place().clone());
            by_id.insert(id, clients.len());
        }
        let globs = globs(compiler, &view, &routes, &mut useful);
        let name = view.at("name").text().unwrap_or_default();
        if !name.is_empty() {
            names.take(compiler, &view.at("name"), name);
        }
        let limits_on = left.and_then(|most| limits::limits_on(&view, &routes, most));
        if left.is_some() && limits_on.is_none() {
            compiler.report(&view.at("routes"), too_many_limits());
        }
        left = left.zip(limits_on.as_ref()).map(|(left, on)| left - on.len());
        let deadline = view.at("deadline").written_duration();
        let on_failure = resilience::on_failure(&view);
        let params = params::policy(compiler, &view.at("params"));
        clients.push(Arc::new(Client {
            name: name.into(),
            routes: globs,
            deadline,
            on_failure,
            quota: quota::terms(compiler, &view).map(Arc::new),
            params,
            priority: limits::priority(&view),
            limit: limits::limit(&view),
            limits_on: limits_on.unwrap_or_default().into(),
            queue: limits::patience(&view),
            cache_scope: caches::scope(&view.at("cache")),
        }));
    }
    (clients, by_id)
}

fn too_many_limits() -> String {
    format!(
        "limits so many routes that all clients together limit more than {MOST_LIMITED}; limit the client or the route \
         as a whole"
    )
}

/// A client's keys; none where they are too many to look at.
fn keys<'a>(compiler: &mut Compiler<'_>, list: &View<'a>) -> Vec<View<'a>> {
    let keys = list.items();
    if keys.len() > MOST_KEYS {
        compiler.report(list, format!("holds more than {MOST_KEYS} keys"));
        return Vec::new();
    }
    keys
}

/// The patterns of a client; whether one fits anything is found out once for all clients that have it.
fn globs<'a>(
    compiler: &mut Compiler<'_>,
    client: &View<'a>,
    routes: &BTreeMap<&str, &Route>,
    useful: &mut HashMap<&'a str, bool>,
) -> Vec<Glob> {
    let mut globs = Vec::new();
    for item in client.at("routes").items() {
        let Some(text) = item.text().or_else(|| item.at("name").text()) else { continue };
        let glob = Glob::new(text);
        // Not an error: routes also come and go through the admin API.
        if !*useful.entry(text).or_insert_with(|| glob.among(routes).next().is_some()) {
            compiler.warn(&item, "fits no route of this configuration");
        }
        globs.push(glob);
    }
    globs
}
