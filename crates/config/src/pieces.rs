//! Single providers, routes and clients out of a text, for whoever sends them to a gateway that runs.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use base::ObjectKind;
use serde_json::Value as Json;

use crate::check::fits;
use crate::node::{Core, Node, Scalar, Style, Value, item_path};
use crate::problem::{ConfigErrors, Problem, clean, clean_path};
use crate::shape::Branch;
use crate::shown::scalar_json;
use crate::table::Kind;
use crate::{errors, variables, yaml};

/// What stands in a text.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// Providers, then routes, then clients, each in the order written.
    pub pieces: Vec<Piece>,
    /// Keys of the top level that are none of these, in the order written.
    pub others: Vec<String>,
}

/// One provider, route or client.
#[derive(Clone, Debug)]
pub struct Piece {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// What it says, as JSON: variables are filled in, and a `${` that stands in a value is written `$${`.
    pub config: Json,
}

/// Reads the providers, routes and clients of a text, YAML or JSON. It is a configuration with these sections; or, where
/// `alone` says of which kind, one object by itself or a list of them. A route by itself is known by its keys.
///
/// Nothing is held against the table of keys: that does the gateway that gets them, with everything else it has.
///
/// # Errors
/// Every variable that is not set, every object without a name or with that of another; or why the text cannot be read.
pub fn pieces(
    file: &str,
    text: &str,
    alone: Option<ObjectKind>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Pieces, ConfigErrors> {
    let file: Arc<str> = clean_path(Path::new(file)).into();
    let mut root = yaml::parse(text, &file).map_err(|problems| errors(problems, Vec::new()))?;
    let mut reader =
        Reader { shape: Branch::root(), found: Pieces::default(), seen: HashSet::new(), problems: Vec::new() };
    variables::fill(&mut root, "", env, &mut reader.problems);
    reader.root(&root, alone);
    if reader.problems.is_empty() { Ok(reader.found) } else { Err(errors(reader.problems, Vec::new())) }
}

struct Reader {
    shape: Branch,
    found: Pieces,
    seen: HashSet<(ObjectKind, String)>,
    problems: Vec<Problem>,
}

impl Reader {
    fn wrong(&mut self, node: &Node, path: &str, text: &str) {
        self.problems.push(Problem::new(&node.place, path, text));
    }

    fn root(&mut self, root: &Node, alone: Option<ObjectKind>) {
        let looks_like_a_route = || ["match", "upstream", "upstreams"].iter().any(|key| root.get(key).is_some());
        match (&root.value, alone) {
            (Value::List(items), Some(kind)) => self.take(kind, items),
            // A client has `routes` too; no configuration has a `name`.
            (Value::Map(entries), _) if !entries.contains_key("name") && entries.keys().any(|key| is_section(key)) => {
                self.sections(root);
            }
            (Value::Map(_), Some(kind)) => self.take(kind, std::slice::from_ref(root)),
            (Value::Map(_), None) if looks_like_a_route() => {
                self.take(ObjectKind::Route, std::slice::from_ref(root));
            }
            _ => self.wrong(root, "", SHAPELESS),
        }
    }

    fn sections(&mut self, root: &Node) {
        for kind in ObjectKind::ALL {
            let Some(list) = root.get(kind.list()) else { continue };
            match list.list() {
                Some(items) => self.take(kind, items),
                None => self.wrong(list, kind.list(), "is no list; write `- name: …` below it"),
            }
        }
        let others = root.map().into_iter().flat_map(|entries| entries.keys()).filter(|key| !is_section(key));
        self.found.others = others.map(|key| clean(key)).collect();
    }

    fn take(&mut self, kind: ObjectKind, items: &[Node]) {
        for (index, item) in items.iter().enumerate() {
            match piece(&self.shape, kind, item) {
                Some(piece) if !self.seen.insert((kind, piece.name.clone())) => {
                    self.wrong(item, &item_path(kind.list(), item, index), TWICE);
                }
                Some(piece) => self.found.pieces.push(piece),
                None => self.wrong(item, &item_path(kind.list(), item, index), NAMELESS),
            }
        }
    }
}

const SHAPELESS: &str = "write the objects below `providers:`, `routes:` or `clients:`";
const TWICE: &str = "is written twice; names must differ";
const NAMELESS: &str = "is no mapping with a `name`; write `name: …` first in it";

fn is_section(key: &str) -> bool {
    ObjectKind::ALL.iter().any(|kind| kind.list() == key)
}

fn piece(shape: &Branch, kind: ObjectKind, node: &Node) -> Option<Piece> {
    let name =
        node.get("name")?.scalar().filter(|name| !name.text.is_empty() && name.core() != Core::Null)?.text.clone();
    let branch = shape.child(kind.list()).and_then(|list| list.item.as_deref());
    Some(Piece { kind, name, config: json(branch, Kind::Table, node) })
}

/// A value as JSON. Out of a variable comes what its key wants.
fn json(branch: Option<&Branch>, kind: Kind, node: &Node) -> Json {
    let kind = match kind {
        Kind::Either(kinds) => kinds.iter().copied().find(|kind| fits(*kind, node)).unwrap_or(kind),
        kind => kind,
    };
    match &node.value {
        Value::Scalar(scalar) => plain(kind, scalar),
        Value::List(items) => {
            let below = branch.map(|branch| branch.item.as_deref().unwrap_or(branch));
            let kind = if let Kind::List(kind) = kind { *kind } else { Kind::Any };
            items.iter().map(|item| json(below, kind, item)).collect()
        }
        Value::Map(entries) => {
            let below = |key: &str| match (kind, branch) {
                (Kind::Map(kind), branch) => (branch, *kind),
                (_, branch) => {
                    let child = branch.and_then(|branch| branch.child(key));
                    (child, child.map_or(Kind::Any, Branch::kind))
                }
            };
            let fields = entries.iter().map(|(key, entry)| {
                let (branch, kind) = below(key);
                (key.clone(), json(branch, kind, &entry.node))
            });
            Json::Object(fields.collect())
        }
    }
}

fn plain(kind: Kind, scalar: &Scalar) -> Json {
    let is_bare = matches!(kind, Kind::Integer(..) | Kind::Above(..) | Kind::Number(..) | Kind::Bool);
    // It has been filled in: what a variable held is text as any other, and no variable.
    let style = match scalar.style {
        Style::Variable if is_bare => Style::Plain,
        Style::Variable => Style::Quoted,
        style => style,
    };
    scalar_json(&Scalar { text: scalar.text.clone(), style })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("12345".into()),
            "QPS" => Some("50".into()),
            "ODD" => Some("a${b}".into()),
            _ => None,
        }
    }

    fn read(text: &str, alone: Option<ObjectKind>) -> Result<Pieces, String> {
        pieces("team.yaml", text, alone, &env).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_file_is_its_sections_in_the_order_in_which_they_need_each_other() {
        let text = "data_dir: ./x\nroutes: [{ name: chat, upstreams: [{ provider: cloud, model: m }] }]\n\
                    providers:\n- { name: cloud, protocol: openai, base_url: http://x, api_key: \"${KEY}\" }\n";
        let read = read(text, None).unwrap();
        let names: Vec<&str> = read.pieces.iter().map(|piece| piece.name.as_str()).collect();
        assert_eq!(names, ["cloud", "chat"]);
        assert_eq!(read.others, ["data_dir"]);
        assert_eq!(read.pieces[0].config["api_key"], "12345", "a text, though it looks like a number");
    }

    #[test]
    fn an_object_stands_by_itself_or_in_a_list() {
        let client = "name: app\nroutes: [\"*\"]\nlimit: { qps: \"${QPS}\", burst: 0x10 }\ndeadline: 15s\n";
        let read_one = read(client, Some(ObjectKind::Client)).unwrap();
        let whole = json!({ "name": "app", "routes": ["*"], "limit": { "qps": 50, "burst": 16 }, "deadline": "15s" });
        assert_eq!(read_one.pieces[0].config, whole);
        let list = read("[{ name: a }, { name: b }]", Some(ObjectKind::Provider)).unwrap();
        assert_eq!((list.pieces.len(), list.pieces[1].kind), (2, ObjectKind::Provider));
        let route = read("{\"name\": \"e\", \"upstream\": {\"url\": \"http://x\", \"timeout\": 3000}}", None).unwrap();
        assert_eq!(
            (route.pieces[0].kind, &route.pieces[0].config["upstream"]["timeout"]),
            (ObjectKind::Route, &json!(3000))
        );
    }

    #[test]
    fn what_a_variable_holds_is_not_read_as_a_variable_again() {
        let provider =
            read("{ name: a, headers: { x-a: \"${ODD}\", x-b: \"$${c}\" } }", Some(ObjectKind::Provider)).unwrap();
        assert_eq!(provider.pieces[0].config["headers"], json!({ "x-a": "a$${b}", "x-b": "$${c}" }));
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, alone, told) in [
            (
                "routes:\n- name: a\n  x: ${NONE}\n- path: x\n",
                None,
                "team.yaml:4:3: routes[1]: is no mapping with a `name`",
            ),
            ("routes:\n- name: a\n  x: ${NONE}\n", None, "team.yaml:3:6: routes[a].x: the variable NONE is not set"),
            ("routes: [{ name: a }, { name: b }, { name: a }]", None, "team.yaml:1:36: routes[a]: is written twice"),
            ("[1]", None, "write the objects below"),
            ("name: app\nkeys: [a]\n", None, "write the objects below"),
            ("routes: { name: a }\n", None, "routes: is no list"),
            ("a: [", None, "not YAML"),
            ("7", Some(ObjectKind::Route), "write the objects below"),
        ] {
            let error = read(text, alone).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
