//! Providers, routes and clients as the text of a file, credentials as variables.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use base::ObjectKind;
use serde_json::Value as Json;

use crate::added::ClientKey;
use crate::check::fits;
use crate::node::{Core, Entry, Node, Scalar, Style, Value};
use crate::shape::Branch;
use crate::shown::{Secrets, Url, json, masked};
use crate::table::Kind;
use crate::unmask::of_kind;
use crate::whole::Whole;

impl Whole {
    /// The text of a file (YAML) with all providers, routes and clients, from which they can be made anew elsewhere.
    /// Credentials, and whatever came out of a variable, stand in it as variables, which its first lines name. Keys of
    /// clients are left out, but for the hashes of these; and of these too those that expire, for a file's key does not.
    #[must_use]
    pub fn export(&self, keys: &[ClientKey]) -> String {
        let tree = Branch::root();
        let (keys, expiring): (Vec<&ClientKey>, Vec<_>) = keys.iter().partition(|key| key.expires.is_none());
        let mut of_client: HashMap<&str, Vec<&ClientKey>> = HashMap::new();
        for key in &keys {
            of_client.entry(&key.client).or_default().push(key);
        }
        let mut variables = Variables::default();
        let mut lists = String::new();
        for kind in ObjectKind::ALL {
            let items = self.root.get(kind.list()).and_then(Node::list).unwrap_or_default();
            let branch = of_kind(&tree, kind);
            let object = |item: &Node| {
                let mut item = item.clone();
                let name = item.get("name").and_then(Node::scalar).map(|name| name.text.clone()).unwrap_or_default();
                if kind == ObjectKind::Client {
                    set_keys(&mut item, of_client.get(&*name).map_or(&[], Vec::as_slice));
                }
                variables.hide((branch, Kind::Table), &mut item, &[&name]);
                json(branch, Kind::Table, &item, Secrets::Told)
            };
            let objects: Vec<Json> = items.iter().map(object).collect();
            if !objects.is_empty() {
                let _ = write!(lists, "\n{}:", kind.list());
                block(&mut lists, &Json::Array(objects), 0);
                lists.push('\n');
            }
        }
        let mut text = HEAD.to_owned();
        text.push_str(if keys.is_empty() { KEYLESS } else { HASHED });
        if !expiring.is_empty() {
            let count = expiring.len();
            let _ =
                writeln!(text, "# So are {count} issued keys that expire, for a key that is written here never does.");
        }
        if !variables.names.is_empty() {
            let _ = writeln!(text, "# Set these variables before: {}", variables.names.join(", "));
        }
        text + &lists
    }
}

const HEAD: &str = "# Providers, routes and clients of an MAI Gateway, for `mai-gateway import` or a folder of files.
";
const KEYLESS: &str = "# Keys that callers present are left out: issue new ones.\n";
const HASHED: &str =
    "# Of issued keys the hashes stand here. Other keys that callers present are left out: issue new ones.\n";

/// What a client presents is its own; of a key that was issued the hash will do.
fn set_keys(client: &mut Node, keys: &[&ClientKey]) {
    let place = client.place.clone();
    let Value::Map(entries) = &mut client.value else { return };
    entries.shift_remove("keys");
    let node = |value| Node { value, place: place.clone() };
    let hashes = keys.iter().map(|key| {
        let hex: String = key.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        node(Value::Scalar(Scalar { text: format!("sha256:{hex}"), style: Style::Variable }))
    });
    let hashes: Vec<Node> = hashes.collect();
    if !hashes.is_empty() {
        entries.insert("keys".to_owned(), Entry { place: place.clone(), node: node(Value::List(hashes)) });
    }
}

/// Variables in the place of what is not told.
#[derive(Default)]
struct Variables {
    names: Vec<String>,
    taken: HashSet<String>,
}

impl Variables {
    fn hide(&mut self, (branch, kind): (&Branch, Kind), node: &mut Node, path: &[&str]) {
        if let Kind::Either(kinds) = kind {
            if let Some(kind) = kinds.iter().find(|kind| fits(**kind, node)) {
                self.hide((branch, *kind), node, path);
            }
            return;
        }
        match &mut node.value {
            Value::Scalar(scalar) => self.hide_scalar((branch, kind), scalar, path),
            Value::List(items) => {
                let inner = if let Kind::List(inner) = kind { *inner } else { Kind::Any };
                let below = branch.item.as_deref().unwrap_or(branch);
                for (index, item) in items.iter_mut().enumerate() {
                    let number = (index + 1).to_string();
                    self.hide((below, inner), item, &[path, &[&number]].concat());
                }
            }
            Value::Map(entries) => {
                for (key, entry) in entries {
                    let child = branch.child(key).filter(|_| matches!(kind, Kind::Table));
                    let below = match (kind, child) {
                        (Kind::Map(inner), _) => (branch, *inner),
                        (_, Some(child)) => (child, child.kind()),
                        (_, None) => (branch, Kind::Any),
                    };
                    // One of a list of keys is a key.
                    let word = if key == "api_keys" { "api_key" } else { key };
                    self.hide(below, &mut entry.node, &[path, &[word]].concat());
                }
            }
        }
    }

    fn hide_scalar(&mut self, (branch, kind): (&Branch, Kind), scalar: &mut Scalar, path: &[&str]) {
        // Hashes are told, and stand there as they are; so does what is a name anyhow.
        if branch.name == "keys" {
            return;
        }
        let is_name = matches!(kind, Kind::Name | Kind::Glob | Kind::Choice(_) | Kind::Protocol | Kind::Endpoint);
        if scalar.style == Style::Variable && is_name {
            scalar.style = Style::Quoted;
        }
        if masked(branch, kind, scalar).is_none() {
            return;
        }
        let text = match kind {
            _ if scalar.style == Style::Variable => self.variable(path, ""),
            Kind::Url(_) => {
                let mut url = Url::of(&scalar.text);
                let user = url.user.map(|_| self.variable(path, "user"));
                let query = url.query.map(|_| self.variable(path, "query"));
                url.user = user.as_deref();
                url.query = query.as_deref();
                url.to_string()
            }
            Kind::Text => {
                let before = scalar.text.split_once('?').map_or("", |(before, _)| before).to_owned();
                format!("{before}?{}", self.variable(path, "query"))
            }
            _ => self.variable(path, ""),
        };
        *scalar = Scalar { text, style: Style::Variable };
    }

    /// A variable that no other place has, named after this one.
    fn variable(&mut self, path: &[&str], part: &str) -> String {
        let words = path.iter().copied().chain(Some(part)).map(word).filter(|word| !word.is_empty());
        let mut name = words.collect::<Vec<_>>().join("_");
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            name.insert_str(0, "MAI_");
        }
        let mut free = name.clone();
        let mut number = 1;
        while !self.taken.insert(free.clone()) {
            number += 1;
            free = format!("{name}__{number}");
        }
        self.names.push(free.clone());
        format!("${{{free}}}")
    }
}

/// As a variable's name writes it.
fn word(text: &str) -> String {
    let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    letters.collect::<String>().trim_matches('_').to_owned()
}

/// An object as the lines of a file (YAML), which say the same when they are read again.
#[must_use]
pub fn as_yaml(object: &Json) -> String {
    let mut lines = String::new();
    block(&mut lines, object, 0);
    lines.trim_start().to_owned()
}

/// A value behind its key or dash, in block form.
fn block(into: &mut String, value: &Json, depth: usize) {
    let line = |into: &mut String, depth: usize| {
        into.push('\n');
        into.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                line(into, depth);
                into.push('-');
                match item {
                    // Its first key stands behind the dash.
                    Json::Object(members) if !members.is_empty() => {
                        let mut inner = String::new();
                        block(&mut inner, item, depth + 1);
                        into.push(' ');
                        into.push_str(inner.trim_start());
                    }
                    _ => block(into, item, depth + 1),
                }
            }
        }
        Json::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                line(into, depth);
                into.push_str(&text(key));
                into.push(':');
                block(into, value, depth + 1);
            }
        }
        Json::Array(_) => into.push_str(" []"),
        Json::Object(_) => into.push_str(" {}"),
        Json::String(said) => {
            into.push(' ');
            into.push_str(&text(said));
        }
        other => {
            let _ = write!(into, " {other}");
        }
    }
}

/// Text as YAML writes it: in quotes unless every reader would take it for text without them.
fn text(said: &str) -> String {
    let plain = Scalar { text: said.to_owned(), style: Style::Plain };
    let is_word = said.starts_with(|first: char| first.is_ascii_alphabetic())
        && said.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '/')
        && said.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'))
        && !["y", "n", "yes", "no", "on", "off"].contains(&said.to_ascii_lowercase().as_str());
    if is_word && plain.core() == Core::Text { said.to_owned() } else { Json::from(said).to_string() }
}
