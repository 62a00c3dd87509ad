//! What was written becomes what it means.
//!
//! Each part reads its [`View`] and reports what only the whole can tell: names that must differ or
//! must exist, forms that exclude each other, files, addresses and keys that cannot work.

mod caches;
mod client;
mod context;
mod destination;
mod directory;
mod general;
mod governance;
mod limits;
mod params;
mod prices;
mod provider;
mod quota;
mod resilience;
mod route;
mod telemetry;
mod webhook;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{KeyHasher, KeyId, ObjectKind};
use dialect::Tokenizer;
use indexmap::IndexSet;

use directory::Directory;
pub(crate) use prices::Prices;

use crate::Overrides;
use crate::check::MOST_PROBLEMS;
use crate::disk::Disk;
use crate::node::Style;
use crate::problem::{ADMIN_API, Place, Problem, clean_path};
use crate::snapshot::{KeyTable, Route, Snapshot};
use crate::view::View;

/// Bytes of one named file (certificates, prices) at most.
const LONGEST_NAMED_FILE: u64 = 4 << 20;
/// Bytes of a `tokenizer.json` at most; the largest in use have 35 MB.
const LONGEST_TOKENIZER: u64 = 64 << 20;

/// What compiling needs besides the tree, and what it finds.
pub(crate) struct Compiler<'a> {
    pub hasher: &'a KeyHasher,
    pub overrides: &'a Overrides,
    /// Folders that files' own paths are relative to.
    pub folders: &'a HashMap<Arc<str>, PathBuf>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// What models cost.
    pub prices: Prices,
    /// Keys that are accepted but not in force, beside those that the check finds.
    pub not_in_force: Vec<String>,
    /// Files that were named and read.
    pub files: IndexSet<PathBuf>,
    /// What is known of named files, and is not read again.
    pub known: &'a Named,
    /// What was read of them this time, or known.
    pub named: Named,
    /// What reads them.
    pub disk: &'a Disk,
}

/// What was read of the files that keys name, such as certificates.
#[derive(Clone, Default)]
pub(crate) struct Named {
    bytes: HashMap<PathBuf, Arc<[u8]>>,
    tokenizers: HashMap<PathBuf, Arc<Tokenizer>>,
}

impl Compiler<'_> {
    fn report(&mut self, view: &View<'_>, text: impl Into<String>) {
        // One more than the most, so that the reader is told of the rest.
        if !self.is_full() {
            self.problems.push(problem(view, text));
        }
    }

    /// That this names an object which is not there; `nearest` is the one that may be meant.
    fn report_missing(&mut self, view: &View<'_>, (kind, name): (ObjectKind, &str), nearest: Option<&str>) {
        if self.is_full() {
            return;
        }
        let (shown, list) = (view.shown(), kind.list());
        let hint = match nearest {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add it to `{list}`"),
        };
        let missing = Some(Box::new((kind, name.into())));
        self.problems.push(Problem { missing, ..problem(view, format!("{shown} is none of the {list}; {hint}")) });
    }

    /// Whether what else is wrong is told to nobody: no need to find out what was meant.
    fn is_full(&self) -> bool {
        self.problems.len() > MOST_PROBLEMS
    }

    fn warn(&mut self, view: &View<'_>, text: impl Into<String>) {
        self.warnings.push(Problem::new(view.place(), view.path(), text));
    }

    /// The file that a key names, read.
    fn file(&mut self, view: &View<'_>) -> Option<Arc<[u8]>> {
        let path = self.named_path(view)?;
        let bytes = match self.named.bytes.get(&path).or_else(|| self.known.bytes.get(&path)) {
            Some(bytes) => bytes.clone(),
            None => self.read_at(&path, view, LONGEST_NAMED_FILE)?.into(),
        };
        self.named.bytes.insert(path, bytes.clone());
        Some(bytes)
    }

    /// The tokenizer in the file that a key names.
    fn tokenizer(&mut self, view: &View<'_>) -> Option<Arc<Tokenizer>> {
        let path = self.named_path(view)?;
        let tokenizer = match self.named.tokenizers.get(&path).or_else(|| self.known.tokenizers.get(&path)) {
            Some(tokenizer) => tokenizer.clone(),
            None => match Tokenizer::from_json(&self.read_at(&path, view, LONGEST_TOKENIZER)?) {
                Ok(tokenizer) => Arc::new(tokenizer),
                Err(why) => {
                    self.report_file(view, format!("the file is no tokenizer that can be used here: it {why}"));
                    return None;
                }
            },
        };
        self.named.tokenizers.insert(path, tokenizer.clone());
        Some(tokenizer)
    }

    /// The path that a key names, where it may.
    fn named_path(&mut self, view: &View<'_>) -> Option<PathBuf> {
        let written = Path::new(view.text()?);
        let path = match self.folders.get(&view.place().file) {
            Some(folder) => folder.join(written),
            None if written.is_absolute() => written.to_owned(),
            None => {
                self.report(view, "must begin with `/`: what comes through the admin API stands in no folder");
                return None;
            }
        };
        self.files.insert(path.clone());
        Some(path)
    }

    fn read_at(&mut self, path: &Path, view: &View<'_>, most: u64) -> Option<Vec<u8>> {
        let read = self.disk.read(path, most);
        if let Err(error) = &read {
            let is_shown = view.scalar().is_some_and(|scalar| scalar.style != Style::Variable);
            let name = if is_shown { format!("the file `{}`", clean_path(path)) } else { "the variable's file".into() };
            self.report_file(view, format!("{name} {error}"));
        }
        read.ok()
    }

    /// What is wrong with a file that a key names. Through the admin API nobody may find out what there is on the
    /// gateway's disks: one answer for all that can be wrong, and the log says more.
    pub(crate) fn report_file(&mut self, view: &View<'_>, what: String) {
        if view.place().file.starts_with(ADMIN_API) {
            self.report_privately(view, UNFIT, what);
        } else {
            self.report(view, what);
        }
    }

    /// What is wrong, and what is told of it to readers of the files or of the log: not through the admin API.
    pub(crate) fn report_privately(&mut self, view: &View<'_>, text: &str, cause: String) {
        if !view.place().file.starts_with(ADMIN_API) {
            return self.report(view, format!("{text} ({cause})"));
        }
        if !self.is_full() {
            self.problems.push(Problem { cause: Some(cause), ..problem(view, text) });
        }
    }

    /// The keyed hash of a key that is written plain or as `sha256:<hex>`.
    fn key_id(&mut self, view: &View<'_>) -> Option<KeyId> {
        let text = view.text()?;
        if let Some(hex) = text.strip_prefix("sha256:") {
            let Some(digest) = digest(hex) else {
                self.report(view, "is not a SHA-256: write `sha256:` and 64 hexadecimal digits");
                return None;
            };
            return Some(self.hasher.of_sha256(&digest));
        }
        if !is_header_token(text) {
            self.report(
                view,
                "holds characters that no caller can send in a header (blanks, line ends, or letters outside ASCII)",
            );
            return None;
        }
        Some(self.hasher.of_key(text.as_bytes()))
    }
}

/// What is wrong at a place, with the object that it stands in.
fn problem(view: &View<'_>, text: impl Into<String>) -> Problem {
    let object = view.object().map(|(kind, name)| Box::new((kind, name.into())));
    Problem { object, ..Problem::new(view.place(), view.path(), text) }
}

const UNFIT: &str = "this file cannot be used; the gateway's log says why";

/// Compiles a checked tree. What is reported makes the result useless.
pub(crate) fn compile(compiler: &mut Compiler<'_>, root: &View<'_>) -> Snapshot {
    let mut general = general::compile(compiler, root);
    general.telemetry = telemetry::compile(compiler, &root.at("telemetry"));
    compiler.prices = prices::lists(compiler, &root.at("prices"));
    let mut providers = provider::compile(compiler, &root.at("providers"));
    let table = route::compile(compiler, root, &mut providers);
    let (clients, by_id) = client::compile(compiler, &root.at("clients"), &table.routes.all, &general.admin_tokens);
    check_whole(compiler, root, &table.routes);
    quota::check_costs(compiler, &root.at("routes").items(), &table.routes, &clients);
    let names = table.routes.all.iter().map(|route| Box::from(&*route.name));
    Snapshot {
        general,
        providers: providers.all,
        by_name: names.zip(0..).collect(),
        routes: table.routes.all,
        keys: KeyTable::new(compiler.hasher.clone(), by_id, &clients),
        clients,
        webhooks: webhook::compile(compiler, &root.at("webhooks")),
        currency: compiler.prices.currency(),
        not_in_force: std::mem::take(&mut compiler.not_in_force),
        by_model: table.by_model,
    }
}

/// Checks that need all routes and clients, most of them of what this version accepts for later
/// ones: a sound file stays sound when those come into force.
fn check_whole(compiler: &mut Compiler<'_>, root: &View<'_>, routes: &Directory<Route>) {
    let clients = root.at("clients").items();
    let client_names: HashSet<&str> = clients.iter().filter_map(|client| client.at("name").text()).collect();
    for view in root.at("routes").items() {
        resilience::check(compiler, &view, &client_names);
        governance::check_limit(compiler, &view);
        let Some(route) = view.at("name").text().and_then(|name| routes.named(name)) else { continue };
        resilience::check_spaces(compiler, &view, route);
        resilience::check_context(compiler, &view, route);
        resilience::check_weights(compiler, &view, route.strategy);
        resilience::check_waits(compiler, &view, route.deadline);
        caches::check(compiler, &view, route, routes);
    }
    for view in clients {
        governance::check_limit(compiler, &view);
        limits::check_queue(compiler, &view);
        for route in view.at("routes").items() {
            governance::check_limit(compiler, &route);
        }
    }
    governance::check_limit(compiler, root);
}

/// Names that must differ, and where each was written first.
struct Names {
    what: &'static str,
    seen: HashMap<String, Place>,
}

impl Names {
    fn of(what: &'static str) -> Self {
        Self { what, seen: HashMap::new() }
    }

    /// Takes the name of one object; reports it when it is taken.
    fn take(&mut self, compiler: &mut Compiler<'_>, view: &View<'_>, name: &str) {
        if let Some(first) = self.seen.get(name) {
            compiler
                .report(view, format!("another {} of this name is written at {first}; names must differ", self.what));
        } else {
            self.seen.insert(name.to_owned(), view.place().clone());
        }
    }
}

/// A whole number that its row keeps small.
fn small(view: &View<'_>) -> u32 {
    view.integer().and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

/// True for text that is one word of visible ASCII.
fn is_header_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        hex.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}
