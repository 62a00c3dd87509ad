//! Who may call.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Glob, KeyId};
use foldhash::{HashMap, HashMapExt as _};

use super::{Compiler, Names, caches, limits, params, quota, resilience};
use crate::problem::{Place, clean};
use crate::snapshot::{AdminToken, Client, Route};
use crate::view::View;

/// Pairs of a client and a route that have a limit of their own, of all clients at most: each has an account.
const MOST_LIMITED: usize = 1_000_000;
/// Keys of one client at most: those that come and go are issued through the admin API.
const MOST_KEYS: usize = 1_000;
/// Both ports know each other's secrets by their hashes alone.
const IS_A_TOKEN: &str = "is also an admin token: whoever sees the client's calls could change the gateway with it; write \
                          another key here, or another token there";
const TOO_MANY_LIMITS: &str =
    "limits so many routes that all clients together limit more than 1000000; limit the client or the route as a whole";

pub(super) fn compile(
    compiler: &mut Compiler<'_>,
    list: &View<'_>,
    routes: &[Arc<Route>],
    tokens: &[AdminToken],
) -> (Vec<Arc<Client>>, HashMap<KeyId, usize>) {
    let mut names = Names::of("client");
    let mut seen: HashMap<KeyId, Place> = HashMap::new();
    let mut by_id = HashMap::new();
    let mut clients = Vec::new();
    let route_names: BTreeMap<&str, ()> = routes.iter().map(|route| (&*route.name, ())).collect();
    let mut limited = 0_usize;
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
        let globs = globs(compiler, &view, &route_names);
        let name = view.at("name").text().unwrap_or_default();
        if !name.is_empty() {
            names.take(compiler, &view.at("name"), name);
        }
        let limits_on = limits::limits_on(&view);
        // Those that are too many are looked at no further.
        if limited <= MOST_LIMITED {
            limited += limits_on.iter().map(|(glob, _)| glob.among(&route_names).count()).sum::<usize>();
            if limited > MOST_LIMITED {
                compiler.report(&view.at("routes"), TOO_MANY_LIMITS);
            }
        }
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
            class: limits::class(&view),
            limit: limits::limit(&view),
            limits_on,
            queue: limits::patience(&view),
            cache_scope: caches::scope(&view.at("cache")),
        }));
    }
    (clients, by_id)
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

fn globs(compiler: &mut Compiler<'_>, client: &View<'_>, names: &BTreeMap<&str, ()>) -> Vec<Glob> {
    let mut globs = Vec::new();
    for item in client.at("routes").items() {
        let Some(text) = item.text().or_else(|| item.at("name").text()) else { continue };
        let glob = Glob::new(text);
        // Not an error: routes also come and go through the admin API.
        if glob.among(names).next().is_none() {
            compiler.warn(&item, "fits no route of this configuration");
        }
        globs.push(glob);
    }
    globs
}
