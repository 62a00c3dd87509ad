//! What was written, as a tree that remembers where.

use std::borrow::Cow;

use indexmap::IndexMap;

use crate::problem::{Place, clean, push_clean};

/// One written value.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub value: Value,
    pub place: Place,
}

/// The three forms of a value. A null is a plain scalar.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Map),
}

/// Entries in the order written.
pub(crate) type Map = IndexMap<String, Entry>;

/// One entry of a mapping: where its key stands, and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub place: Place,
    pub node: Node,
}

/// A scalar as text; what it is a number or a truth is decided by the key it is written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub text: String,
    pub style: Style,
}

/// How a scalar was written, which decides what it may be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: null, a truth, a number or text, by YAML 1.2's core schema.
    Plain,
    /// In quotes or as a block: text.
    Quoted,
    /// From a variable: whatever the key wants. Never printed.
    Variable,
}

/// What a plain scalar is under YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    Null,
    Bool(bool),
    Integer,
    Float,
    Text,
}

impl Scalar {
    /// What it is, before any key asks for something.
    pub fn core(&self) -> Core {
        if self.style == Style::Plain { core(&self.text) } else { Core::Text }
    }

    /// In words, for "is …, but must be …".
    pub fn form(&self) -> &'static str {
        match self.core() {
            Core::Null => "nothing",
            Core::Bool(_) => "true or false",
            Core::Integer | Core::Float => "a number",
            Core::Text => "text",
        }
    }

    /// The text for a message: quoted where it may be shown.
    pub fn shown(&self) -> Cow<'static, str> {
        if self.style == Style::Variable {
            Cow::Borrowed("the variable's value")
        } else {
            Cow::Owned(format!("`{}`", clean(&self.text)))
        }
    }
}

impl Node {
    pub fn scalar(&self) -> Option<&Scalar> {
        if let Value::Scalar(scalar) = &self.value { Some(scalar) } else { None }
    }

    pub fn map(&self) -> Option<&Map> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    pub fn list(&self) -> Option<&[Node]> {
        if let Value::List(items) = &self.value { Some(items) } else { None }
    }

    /// The value of one key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.map()?.get(key).map(|entry| &entry.node)
    }

    /// In words, as [`Scalar::form`].
    pub fn form(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Scalar(scalar) => scalar.form(),
        }
    }
}

/// The path of a key below `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    let mut joined = String::with_capacity(path.len() + 1 + key.len());
    joined.push_str(path);
    if !path.is_empty() {
        joined.push('.');
    }
    push_clean(&mut joined, key);
    joined
}

/// The path of a list's item: by its name where it has one that may be shown, else by its place
/// in the list.
pub(crate) fn item_path(path: &str, item: &Node, index: usize) -> String {
    name_path(path, item.get("name"), index)
}

/// The same for an item whose name is at hand.
pub(crate) fn name_path(path: &str, name: Option<&Node>, index: usize) -> String {
    match name.and_then(Node::scalar) {
        Some(name) if name.style != Style::Variable && !name.text.is_empty() => {
            let mut named = String::with_capacity(path.len() + name.text.len() + 2);
            named.push_str(path);
            named.push('[');
            push_clean(&mut named, &name.text);
            named.push(']');
            named
        }
        _ => format!("{path}[{index}]"),
    }
}

fn core(text: &str) -> Core {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Core::Null,
        "true" | "True" | "TRUE" => Core::Bool(true),
        "false" | "False" | "FALSE" => Core::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Core::Float,
        _ => number(text),
    }
}

fn number(text: &str) -> Core {
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if let Some(octal) = text.strip_prefix("0o") {
        return if digits(octal, 8) { Core::Integer } else { Core::Text };
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return if digits(hex, 16) { Core::Integer } else { Core::Text };
    }
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits(bare, 10) {
        return Core::Integer;
    }
    if matches!(bare, ".inf" | ".Inf" | ".INF") {
        return Core::Float;
    }
    let (mantissa, exponent) = bare.split_once(['e', 'E']).map_or((bare, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let is_mantissa = all(whole) && all(fraction) && !(whole.is_empty() && fraction.is_empty());
    let is_exponent = exponent.is_none_or(|e| digits(e.strip_prefix(['-', '+']).unwrap_or(e), 10));
    if is_mantissa && is_exponent { Core::Float } else { Core::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_read_by_the_core_schema() {
        for null in ["", "~", "null", "NULL"] {
            assert_eq!(core(null), Core::Null, "{null}");
        }
        for integer in ["0", "-1", "+12", "007", "0o17", "0xfF"] {
            assert_eq!(core(integer), Core::Integer, "{integer}");
        }
        for float in ["1.5", ".5", "1.", "1e3", "-1.5E-3", ".inf", "-.INF", ".nan"] {
            assert_eq!(core(float), Core::Float, "{float}");
        }
        for text in
            ["yes", "off", "on", "1_000", "2026-11", "1.2.3", "e3", ".", "-", "+", "0x", "0o8", "1e", "12ms", "½"]
        {
            assert_eq!(core(text), Core::Text, "{text}");
        }
    }
}
