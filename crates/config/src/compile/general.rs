//! What concerns the whole process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use base::{Family, KeyId, Secret};
use dialect::texts::{BadPattern, Mask};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Compiler, Names, caches, is_header_token, limits};
use crate::problem::{Place, Problem};
use crate::snapshot::{AdminToken, General, Records, Role, TlsPem};
use crate::table::SHARED_STATE;
use crate::view::View;

pub(super) fn compile(compiler: &mut Compiler<'_>, root: &View<'_>) -> General {
    let admin = root.at("admin");
    let overrides = compiler.overrides;
    let listen = address(compiler, &root.at("listen"), overrides.listen.as_deref(), "MAI_LISTEN");
    let admin_listen = address(compiler, &admin.at("listen"), overrides.admin_listen.as_deref(), "MAI_ADMIN_LISTEN");
    if listen == admin_listen && listen.port() != 0 {
        let (data, admin) = (root.at("listen"), admin.at("listen"));
        let written = if admin.is_written() { admin } else { data };
        compiler.report(&written, format!("{listen} is the address of both ports, data and admin; they must differ"));
    }
    let data_dir = overrides.data_dir.clone().unwrap_or_else(|| root.at("data_dir").text_or_preset().to_owned());
    General {
        environment: root.at("environment").text_or_preset().to_owned(),
        listen,
        admin_listen,
        admin_tokens: admin_tokens(compiler, &admin.at("tokens")),
        data_dir: PathBuf::from(&data_dir),
        log_level: log_level(compiler, &root.at("log_level")),
        database: database(compiler, &root.at("database"), &data_dir),
        cache: caches::bounds(compiler, &root.at("cache")),
        max_body: root.at("max_body").size(),
        records: records(compiler, &root.at("records")),
        shutdown_grace: root.at("shutdown_grace").duration(Family::Chat),
        resolver_refresh: root.at("resolver").at("refresh").duration(Family::Chat),
        tls: tls(compiler, &root.at("tls")),
        limit: limits::limit(root),
        drills: root.at("drills").text_or_preset() == "enabled",
        telemetry: None,
    }
}

fn records(compiler: &mut Compiler<'_>, view: &View<'_>) -> Records {
    let list = view.at("mask");
    let patterns: Vec<_> = list.items().into_iter().filter_map(|item| Some((item.text()?.to_owned(), item))).collect();
    let mask = Mask::new(patterns.iter().map(|(pattern, _)| pattern.as_str())).unwrap_or_else(|bad| {
        for BadPattern { at, why } in bad {
            if let Some((_, item)) = patterns.get(at) {
                compiler.report(item, format!("cannot be used as a regular expression: {why}"));
            }
        }
        Mask::default()
    });
    let (keep, content) = (view.at("keep").duration(Family::Chat), view.at("content").flag());
    if keep.is_zero() && content {
        compiler
            .report(&view.at("content"), "cannot be kept with `records.keep: 0s`, which keeps no request".to_owned());
    }
    Records { keep, max_size: view.at("max_size").size() as u64, content, mask }
}

/// The file of the ledger: relative to `data_dir`.
fn database(compiler: &mut Compiler<'_>, view: &View<'_>, data_dir: &str) -> PathBuf {
    const USUAL: &str = "gateway.db";
    let file = match view.text_or_preset().strip_prefix("sqlite://") {
        Some(file) => file,
        None => {
            let text = format!(
                "`postgres` is accepted, but not in force in this version; it comes with {SHARED_STATE}; until then usage is kept in `{USUAL}` in `data_dir`"
            );
            compiler.warn(view, text);
            compiler.not_in_force.push("database: postgres".to_owned());
            USUAL
        }
    };
    let path = Path::new(data_dir).join(if file.is_empty() { USUAL } else { file });
    if let Some(own) = own_file(&path, Path::new(data_dir)) {
        compiler.report(
            view,
            format!("`{own}` in `data_dir` holds something else; write another name, such as `sqlite://{USUAL}`"),
        );
    }
    path
}

/// What else is kept in `data_dir`.
const OWN_FILES: [&str; 6] = ["objects.db", "requests.db", "contents.db", "cache.db", "kb-versions.db", "secrets.key"];

/// The file of ours that a path names, or that it would be taken to belong to: `cache.db-wal`, `cache.db.damaged-1`.
fn own_file(path: &Path, data_dir: &Path) -> Option<&'static str> {
    let path = plain(path);
    let name = path.strip_prefix(plain(data_dir)).ok()?.to_str()?.to_ascii_lowercase();
    let belongs = |own: &&str| {
        name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('-') || rest.starts_with('.'))
    };
    OWN_FILES.into_iter().find(belongs)
}

/// A path without detours.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Says what is wrong with a value that came from a flag or from the environment.
fn report_override(compiler: &mut Compiler<'_>, variable: &str, text: &str) {
    let place = Place::whole("environment or flags");
    // Tokens have no flag.
    let written = match variable.strip_prefix("MAI_") {
        Some(name) if !name.ends_with("TOKEN") => format!("--{} or {variable}", name.to_lowercase().replace('_', "-")),
        _ => variable.to_owned(),
    };
    compiler.problems.push(Problem::new(&place, &written, text));
}

fn address(compiler: &mut Compiler<'_>, view: &View<'_>, given: Option<&str>, variable: &str) -> SocketAddr {
    let fallback = SocketAddr::from(([0, 0, 0, 0], 0));
    match given {
        Some(given) => given.parse().unwrap_or_else(|_| {
            report_override(compiler, variable, "is not an address to listen on; write one such as `0.0.0.0:8080`");
            fallback
        }),
        // The check has reported what does not parse.
        None => view.text_or_preset().parse().unwrap_or(fallback),
    }
}

fn log_level(compiler: &mut Compiler<'_>, view: &View<'_>) -> String {
    match &compiler.overrides.log_level {
        Some(level) if ["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) => level.clone(),
        Some(_) => {
            report_override(compiler, "MAI_LOG_LEVEL", "must be `error`, `warn`, `info`, `debug` or `trace`");
            String::new()
        }
        None => view.text_or_preset().to_owned(),
    }
}

/// Bytes of an admin token at least. Whoever writes clients may try guesses as their keys, at no small rate: a word
/// would be found. Of one that is written as its SHA-256 nobody can tell.
const LEAST_TOKEN: usize = 16;
const SHORT: &str = "is shorter than 16 characters, and could be guessed; write a random one, such as `openssl rand -hex 32` \
                     prints";

fn is_short(token: &Secret) -> bool {
    token.expose().len() < LEAST_TOKEN
}

fn admin_tokens(compiler: &mut Compiler<'_>, list: &View<'_>) -> Vec<AdminToken> {
    let mut names = Names::of("token");
    let mut seen: HashMap<KeyId, Place> = HashMap::new();
    let mut tokens = Vec::new();
    for view in list.items() {
        let name = view.at("name").text().unwrap_or_default();
        if !name.is_empty() {
            names.take(compiler, &view.at("name"), name);
        }
        let role = match view.at("role").text_or_preset() {
            "admin" => Role::Admin,
            "operator" => Role::Operator,
            _ => Role::Viewer,
        };
        let token = view.at("token");
        let Some(id) = compiler.key_id(&token) else { continue };
        if let Some(first) = seen.insert(id, token.place().clone()) {
            compiler.report(&token, format!("the same token is written at {first}; tokens must differ"));
        }
        let plain = token.text().filter(|text| !text.starts_with("sha256:")).map(Secret::new);
        if plain.as_ref().is_some_and(is_short) {
            compiler.report(&token, SHORT);
        }
        tokens.push(AdminToken { name: name.to_owned(), role, plain, id });
    }
    if let Some(token) = &compiler.overrides.admin_token {
        if is_short(token) {
            report_override(compiler, "MAI_ADMIN_TOKEN", SHORT);
        } else if is_header_token(token.expose()) {
            let id = compiler.hasher.of_key(token.expose().as_bytes());
            let plain = Some(token.clone());
            tokens.push(AdminToken { name: "MAI_ADMIN_TOKEN".into(), role: Role::Admin, plain, id });
        } else {
            report_override(compiler, "MAI_ADMIN_TOKEN", "holds characters that nobody can send in a header");
        }
    }
    tokens
}

fn tls(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<TlsPem> {
    let (cert_view, key_view) = (view.at("cert"), view.at("key"));
    let cert = compiler.file(&cert_view);
    let key = compiler.file(&key_view);
    let cert = cert.filter(|pem| {
        let is_chain = has_certificates(pem);
        if !is_chain {
            compiler.report(&cert_view, "the file holds no PEM certificate (`-----BEGIN CERTIFICATE-----`)");
        }
        is_chain
    });
    let key = key.and_then(|pem| {
        let is_key = |text: &&str| PrivateKeyDer::from_pem_slice(text.as_bytes()).is_ok();
        let text = std::str::from_utf8(&pem).ok().filter(is_key).map(Secret::new);
        if text.is_none() {
            compiler.report(&key_view, "the file holds no PEM private key (`-----BEGIN PRIVATE KEY-----`)");
        }
        text
    });
    Some(TlsPem { cert: cert?.to_vec(), key: key? })
}

/// True for PEM text with at least one certificate and none that is damaged.
pub(super) fn has_certificates(pem: &[u8]) -> bool {
    let mut count = 0;
    CertificateDer::pem_slice_iter(pem).all(|certificate| {
        count += 1;
        certificate.is_ok()
    }) && count > 0
}
