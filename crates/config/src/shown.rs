//! What was written, as JSON for people to look at.

use serde_json::{Map, Number, Value};

use crate::check::fits;
use crate::node::{self, Core, Node, Scalar, Style};
use crate::shape::Branch;
use crate::table::Kind;
use crate::written::MASKED;

/// What becomes of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// They are masked.
    Masked,
    /// They stand as they are.
    Told,
}

/// A value of this place as JSON.
pub(crate) fn json(branch: &Branch, kind: Kind, node: &Node, secrets: Secrets) -> Value {
    match (kind, &node.value) {
        (Kind::Either(kinds), _) => {
            let kind = kinds.iter().find(|kind| fits(**kind, node)).copied().unwrap_or(Kind::Any);
            json(branch, kind, node, secrets)
        }
        (Kind::List(inner), node::Value::List(items)) => {
            let below = branch.item.as_deref().unwrap_or(branch);
            items.iter().map(|item| json(below, *inner, item, secrets)).collect()
        }
        (Kind::Map(inner), node::Value::Map(entries)) => {
            let member =
                |(key, entry): (&String, &node::Entry)| (key.clone(), json(branch, *inner, &entry.node, secrets));
            Value::Object(entries.iter().map(member).collect())
        }
        (_, node::Value::Map(entries)) => {
            let mut members = Map::new();
            for (key, entry) in entries {
                let child = branch.child(key).filter(|_| matches!(kind, Kind::Table));
                let (child, kind) = child.map_or((branch, Kind::Any), |child| (child, child.kind()));
                members.insert(key.clone(), json(child, kind, &entry.node, secrets));
            }
            Value::Object(members)
        }
        (_, node::Value::List(items)) => items.iter().map(|item| json(branch, Kind::Any, item, secrets)).collect(),
        (_, node::Value::Scalar(scalar)) => {
            let masked = (secrets == Secrets::Masked).then(|| masked(branch, kind, scalar)).flatten();
            masked.map_or_else(|| scalar_json(scalar), Value::String)
        }
    }
}

/// What is shown in the place of a scalar that holds a secret; none where it holds none.
pub(crate) fn masked(branch: &Branch, kind: Kind, scalar: &Scalar) -> Option<String> {
    if scalar.style == Style::Variable {
        return Some(MASKED.to_owned());
    }
    match kind {
        Kind::Secret => Some(MASKED.to_owned()),
        Kind::Url(_) => {
            let mut url = Url::of(&scalar.text);
            // Chat services tell those who may post by the path.
            let hides_path = branch.hides_path() && !matches!(url.path, "" | "/");
            if url.user.is_none() && url.query.is_none() && !hides_path {
                return None;
            }
            url.user = url.user.map(|_| MASKED);
            url.query = url.query.map(|_| MASKED);
            let path = format!("/{MASKED}");
            if hides_path {
                url.path = &path;
            }
            Some(escaped(&url.to_string()))
        }
        Kind::Text if branch.name == "path" => {
            let (path, _) = scalar.text.split_once('?')?;
            Some(escaped(&format!("{path}?{MASKED}")))
        }
        _ => None,
    }
}

/// A scalar as it is, in the configuration's own form: read again it is the same.
pub(crate) fn scalar_json(scalar: &Scalar) -> Value {
    let number = || {
        let text = &scalar.text;
        serde_json::from_str::<Number>(text)
            .ok()
            .or_else(|| scalar.as_integer().map(Number::from))
            .or_else(|| Number::from_f64(scalar.as_number()?))
    };
    match scalar.core() {
        Core::Null => Value::Null,
        Core::Bool(value) => value.into(),
        Core::Integer | Core::Float => number().map_or_else(|| scalar.text.clone().into(), Value::Number),
        // A variable is written as one.
        Core::Text if scalar.style == Style::Variable => scalar.text.as_str().into(),
        Core::Text => escaped(&scalar.text).into(),
    }
}

/// What would be read as a variable is written so that it is not.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// The parts of a written address, whatever its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    pub scheme: &'a str,
    /// User and password.
    pub user: Option<&'a str>,
    pub host: &'a str,
    /// From its slash on.
    pub path: &'a str,
    pub query: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Takes a checked address apart. Of the schemes of databases anything before the last `@` may be a password, for
    /// nobody has parsed them.
    pub fn of(text: &'a str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let authority_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let at = match rest.split_at_checked(authority_ends) {
            Some((authority, _)) if is_web => authority.rfind('@'),
            _ => rest.rfind('@'),
        };
        let split = at.and_then(|at| rest.split_at_checked(at));
        let (user, rest) =
            split.map_or((None, rest), |(user, rest)| (Some(user), rest.strip_prefix('@').unwrap_or(rest)));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (host, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
        Self { scheme, user, host, path, query }
    }
}

impl std::fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}{}", self.host, self.path)?;
        self.query.map_or(Ok(()), |query| write!(f, "?{query}"))
    }
}
