//! Who may call.

use std::sync::Arc;

use base::{Glob, KeyId};
use foldhash::{HashMap, HashMapExt as _};

use super::{Compiler, Names, caches, limits, params, quota, resilience};
use crate::problem::{Place, clean};
use crate::snapshot::{AdminToken, Client, Route};
use crate::view::View;

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
    for view in list.items() {
        for key in view.at("keys").items() {
            let Some(id) = compiler.key_id(&key) else { continue };
            if let Some(first) = seen.get(&id) {
                compiler.report(&key, format!("the same key is written at {first}; a key belongs to one client, once"));
                continue;
            }
            if let Some(token) = tokens.iter().find(|token| token.id == id) {
                compiler.report(&key, is_a_token(&token.name));
            }
            seen.insert(id, key.place().clone());
            by_id.insert(id, clients.len());
        }
        let globs = globs(compiler, &view, routes);
        let name = view.at("name").text().unwrap_or_default();
        if !name.is_empty() {
            names.take(compiler, &view.at("name"), name);
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
            limits_on: limits::limits_on(&view),
            queue: limits::patience(&view),
            cache_scope: caches::scope(&view.at("cache")),
        }));
    }
    (clients, by_id)
}

/// Both ports know each other's secrets by their hashes alone.
fn is_a_token(name: &str) -> String {
    format!(
        "is also the admin token `{}`: whoever sees the client's calls could change the gateway with it; write another \
         key here, or another token there",
        clean(name)
    )
}

fn globs(compiler: &mut Compiler<'_>, client: &View<'_>, routes: &[Arc<Route>]) -> Vec<Glob> {
    let mut globs = Vec::new();
    for item in client.at("routes").items() {
        let Some(text) = item.text().or_else(|| item.at("name").text()) else { continue };
        let glob = Glob::new(text);
        // Not an error: routes also come and go through the admin API.
        if !routes.iter().any(|route| glob.fits(&route.name)) {
            compiler.warn(&item, "fits no route of this configuration");
        }
        globs.push(glob);
    }
    globs
}
