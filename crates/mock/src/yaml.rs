//! Reads YAML (and so JSON) into a JSON value: the core schema of YAML 1.2, anchors included.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// How deep a document may nest.
const DEPTH: usize = 64;
/// How many values one document may hold once its aliases are written out.
const VALUES: usize = 1_000_000;

/// Why a text could not be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Unreadable {}

/// A list or a mapping that is still open, with the anchor it will be known by.
enum Open {
    List(usize, Vec<Value>),
    Mapping(usize, Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    values: usize,
    root: Option<Value>,
}

/// The first document of `text`; `Null` when there is none.
///
/// # Errors
/// Where the text is not YAML, a key stands twice or is not a scalar, or it nests deeper than 64.
pub fn read(text: &str) -> Result<Value, Unreadable> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| unreadable(error.marker(), error.info().to_owned()))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.take(event).map_err(|what| unreadable(&span.start, what))?;
    }
    Ok(builder.root.unwrap_or(Value::Null))
}

fn unreadable(at: &Marker, what: String) -> Unreadable {
    Unreadable { line: at.line(), column: at.col() + 1, what }
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let awaits_key = matches!(self.open.last(), Some(Open::Mapping(_, _, None)));
                let value = if is_text || awaits_key { Value::String(text.into_owned()) } else { plain(&text) };
                self.place(anchor, value)
            }
            Event::SequenceStart(anchor, _) => self.descend(Open::List(anchor, Vec::new())),
            Event::MappingStart(anchor, _) => self.descend(Open::Mapping(anchor, Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(anchor, list)) => self.place(anchor, Value::Array(list)),
                Some(Open::Mapping(anchor, map, _)) => self.place(anchor, Value::Object(map)),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().ok_or("this alias names no anchor before it")?;
                self.values += weight(&value);
                self.place(0, value)
            }
            _ => Ok(()),
        }
    }

    fn descend(&mut self, open: Open) -> Result<(), String> {
        if self.open.len() >= DEPTH {
            return Err(format!("nested deeper than {DEPTH}"));
        }
        self.open.push(open);
        Ok(())
    }

    fn place(&mut self, anchor: usize, value: Value) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES {
            return Err(format!("more than {VALUES} values"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Open::List(_, list)) => list.push(value),
            Some(Open::Mapping(_, map, key)) => match (key.take(), value) {
                (Some(key), value) => {
                    map.insert(key, value);
                }
                (None, Value::String(text)) if map.contains_key(&text) => {
                    return Err(format!("the key `{text}` stands twice"));
                }
                (None, Value::String(text)) => *key = Some(text),
                (None, _) => return Err("a key must be a plain word or a text".to_owned()),
            },
        }
        Ok(())
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(weight).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(weight).sum::<usize>(),
        _ => 1,
    }
}

/// A plain scalar by the core schema: null, bool, number, else text. A number keeps its digits.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    if looks_numeric && let Ok(number) = serde_json::from_str::<Number>(text.trim_start_matches('+')) {
        return Value::Number(number);
    }
    if let Some(hex) = text.strip_prefix("0x")
        && let Ok(number) = u64::from_str_radix(hex, 16)
    {
        return Value::Number(number.into());
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_flows_escapes_and_anchors_become_json() {
        let text = "a: &x [1, 2.50, \"t\\xe9\\n\", on, ~, true]\nb: {c: *x, 'd': 1e3}\ne: |\n  line\n  two\n1: one\n";
        let value = read(text).unwrap();
        let list = json!([1, serde_json::from_str::<Number>("2.50").unwrap(), "t\u{e9}\n", "on", null, true]);
        assert_eq!(value["a"], list);
        assert_eq!(value["b"]["c"], list);
        assert_eq!(value["e"], "line\ntwo\n");
        assert_eq!(value["1"], "one");
        assert_eq!(read("").unwrap(), Value::Null);
        assert_eq!(read(r#"{"a": [1, {"b": null}]}"#).unwrap(), json!({"a": [1, {"b": null}]}));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        assert_eq!(read("a: 1\na: 2").unwrap_err().to_string(), "line 2, column 1: the key `a` stands twice");
        assert!(read("a: [1").is_err());
        assert!(read("? [1]\n: 2").is_err());
        assert!(read(&"[".repeat(100)).is_err());
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
        assert!(read(bomb).unwrap_err().what.contains("values"));
    }
}
