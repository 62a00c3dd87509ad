//! YAML text to [`Node`]s, with bounds on everything that a file could make grow.
//!
//! The parser's events are read, and not a deserialiser on top of it, because three things need the
//! tree itself: every problem has its place, one pass finds all of them, and a scalar is a number or
//! a text by the key that it is written for.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::map;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use crate::check::MOST_PROBLEMS;
use crate::node::{Entry, Map, Node, Scalar, Style, Value, join, name_path};
use crate::problem::{Place, Problem, clean};

/// Bytes of one configuration file at most.
pub(crate) const LONGEST_FILE: u64 = 8 << 20;

/// Levels of nesting at most; the deepest key of the table needs a quarter of it.
const DEEPEST: usize = 64;

/// Values of one document at most: each takes some hundred bytes however short it is written, as `[]` is. A text of
/// [`LONGEST_FILE`] that says something has fewer.
const MOST_VALUES: usize = 1_000_000;

/// What anchors and aliases may add to a file: bytes of text plus 64 for every value.
const MOST_COPIED: usize = 16 << 20;

/// Reads one document.
///
/// # Errors
/// The first thing that is not YAML or is beyond a bound, and every key that is written twice
/// before it.
pub(crate) fn parse(text: &str, file: &Arc<str>) -> Result<Node, Vec<Problem>> {
    parse_within(MOST_VALUES, text, file)
}

/// The same with so many values at most.
pub(crate) fn parse_within(most: usize, text: &str, file: &Arc<str>) -> Result<Node, Vec<Problem>> {
    let mut reader = Reader {
        most,
        file,
        open: Vec::new(),
        root: None,
        documents: 0,
        anchored: HashMap::new(),
        values: 0,
        copied: 0,
        problems: Vec::new(),
    };
    if let Err(problem) = reader.run(text) {
        reader.problems.push(problem);
    }
    match reader.root {
        Some(root) if reader.problems.is_empty() => Ok(root),
        None if reader.problems.is_empty() => Err(vec![empty(file)]),
        _ => Err(reader.problems),
    }
}

/// An empty file is an error and not a wish for the defaults: it is what a failed template or a
/// half-finished copy looks like.
fn empty(file: &Arc<str>) -> Problem {
    Problem::new(&Place::whole(file), "", "the file is empty; write at least one provider and one route")
}

/// A list or mapping whose end has not come yet.
struct Open {
    place: Place,
    anchor: usize,
    form: Form,
}

enum Form {
    List(Vec<Node>),
    Map { entries: Map, key: Option<(String, Place)>, merged: Vec<Node> },
}

struct Reader<'a> {
    file: &'a Arc<str>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    anchored: HashMap<usize, Node>,
    /// Values so far, and how many there may be.
    values: usize,
    most: usize,
    copied: usize,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn run(&mut self, text: &str) -> Result<(), Problem> {
        let mut parser = Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        while let Some(step) = parser.next_event() {
            let (event, span) = step.map_err(|error| self.unreadable(error.marker(), error.info()))?;
            self.take(event, span)?;
        }
        Ok(())
    }

    fn place(&self, mark: &Marker) -> Place {
        Place { file: Arc::clone(self.file), line: mark.line().max(1), column: mark.col() + 1 }
    }

    fn problem(&self, mark: &Marker, text: impl Into<String>) -> Problem {
        Problem::new(&self.place(mark), "", text)
    }

    fn unreadable(&self, mark: &Marker, info: &str) -> Problem {
        self.problem(mark, format!("this is not YAML ({}); {}", clean(info), remedy(info)))
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let mark = &span.start;
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(
                        self.problem(mark, "a second document begins here (`---`); put it into a file of its own")
                    );
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let mut style = if style == ScalarStyle::Plain { Style::Plain } else { Style::Quoted };
                match tag {
                    None => {}
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => style = Style::Quoted,
                    Some(_) => return Err(self.tagged(mark)),
                }
                let value = Value::Scalar(Scalar { text: text.into_owned(), style });
                self.put(Node { value, place: self.place(mark) }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                self.push(mark, anchor, Form::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                self.push(mark, anchor, Form::Map { entries: Map::new(), key: None, merged: Vec::new() })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => {
                // An alias to what is still open would be endless; the parser knows the name, we do not keep it yet.
                let Some(node) = self.anchored.get(&id).cloned() else {
                    return Err(self.problem(mark, "this alias stands inside its own anchor; write the value out"));
                };
                self.count(&node)?;
                self.put(node, 0)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn tagged(&self, mark: &Marker) -> Problem {
        self.problem(mark, "tags (`!…`) are not understood here; leave the tag out")
    }

    fn push(&mut self, mark: &Marker, anchor: usize, form: Form) -> Result<(), Problem> {
        let place = self.place(mark);
        if self.open.len() == DEEPEST {
            return Err(Problem::new(&place, "", format!("nested deeper than {DEEPEST} levels")));
        }
        if let Some(Open { form: Form::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(Problem::new(
                &place,
                "",
                "a key must be text, not a list or mapping; text that begins with `{` or `[` must be in quotes",
            ));
        }
        self.open.push(Open { place, anchor, form });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let Some(Open { place, anchor, form }) = self.open.pop() else { return Ok(()) };
        let value = match form {
            // What they have grown to in advance would be most of what short ones take.
            Form::List(mut items) => {
                items.shrink_to_fit();
                Value::List(items)
            }
            Form::Map { mut entries, merged, .. } => {
                for source in merged {
                    self.merge(&mut entries, source)?;
                }
                entries.shrink_to_fit();
                Value::Map(entries)
            }
        };
        self.put(Node { value, place }, anchor)
    }

    /// `<<: *other`: keys of the other mapping, unless written here.
    fn merge(&mut self, entries: &mut Map, source: Node) -> Result<(), Problem> {
        match source.value {
            Value::Map(other) => {
                for (key, entry) in other {
                    entries.entry(key).or_insert(entry);
                }
                Ok(())
            }
            Value::List(sources) if sources.iter().all(|source| source.map().is_some()) => {
                sources.into_iter().try_for_each(|source| self.merge(entries, source))
            }
            _ => Err(Problem::new(&source.place, "", "`<<` takes a mapping or a list of mappings")),
        }
    }

    /// A finished value finds its place in what is open.
    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        if anchor != 0 {
            self.count(&node)?;
            self.anchored.insert(anchor, node.clone());
        }
        self.values += usize::from(!matches!(self.open.last(), Some(Open { form: Form::Map { key: None, .. }, .. })));
        if self.values > self.most {
            let text = format!("the text holds more than {} values; divide it into several", self.most);
            return Err(Problem::new(&node.place, "", text));
        }
        match self.open.last_mut().map(|open| &mut open.form) {
            None => self.root = Some(node),
            Some(Form::List(items)) => items.push(node),
            Some(Form::Map { entries, key, merged }) => match key.take() {
                None => *key = Some(as_key(node)?),
                Some((name, _)) if name == "<<" => merged.push(node),
                Some((name, place)) => match entries.entry(name) {
                    map::Entry::Vacant(free) => {
                        free.insert(Entry { place, node });
                    }
                    map::Entry::Occupied(taken) => {
                        let (name, first) = (taken.key().clone(), taken.get().place.clone());
                        self.written_twice(&name, &place, &first);
                    }
                },
            },
        }
        Ok(())
    }

    fn written_twice(&mut self, name: &str, place: &Place, first: &Place) {
        if self.problems.len() < MOST_PROBLEMS {
            let path = join(&self.path(), name);
            self.problems.push(Problem::new(place, path, format!("is written twice (first at {first}); keep one")));
        }
    }

    /// The path of the innermost thing that is open.
    fn path(&self) -> String {
        let mut path = String::new();
        for (outer, inner) in self.open.iter().zip(self.open.iter().skip(1)) {
            path = match (&outer.form, &inner.form) {
                (Form::Map { key: Some((key, _)), .. }, _) => join(&path, key),
                (Form::List(items), Form::Map { entries, .. }) => {
                    let name = entries.get("name").map(|entry| &entry.node);
                    name_path(&path, name, items.len())
                }
                (Form::List(items), Form::List(_)) => name_path(&path, None, items.len()),
                (Form::Map { key: None, .. }, _) => path,
            };
        }
        path
    }

    /// Keeps copies within bounds: a few lines of aliases of aliases are a bomb otherwise.
    fn count(&mut self, node: &Node) -> Result<(), Problem> {
        self.copied = self.copied.saturating_add(weight(node));
        if self.copied > MOST_COPIED {
            return Err(Problem::new(
                &node.place,
                "",
                "anchors and aliases expand to more than 16 MiB; write the values out",
            ));
        }
        Ok(())
    }
}

/// What usually helps against the parser's complaint.
fn remedy(info: &str) -> &'static str {
    let about = |words: &[&str]| words.iter().any(|word| info.contains(word));
    if about(&["anchor"]) {
        "text that begins with `*` or `&` must be in quotes"
    } else if about(&["tab"]) {
        "indent with spaces, not with tabs"
    } else if about(&["recursion"]) {
        "it is nested too deeply"
    } else if about(&["quoted scalar"]) {
        "look for a quote that is not closed, or a `\\` in double quotes (single quotes take it as it stands)"
    } else if about(&["flow", "node content", "bracket"]) {
        "look for a bracket that is not closed; inside `{ }` and `[ ]`, text with `${VAR}` or any of `, : # { } [ ]` must be in quotes"
    } else if about(&["block", "indentation", "simple key", "mapping"]) {
        "look at the indentation; text with `: ` or ` #` in it must be in quotes"
    } else {
        "put text with special characters into quotes"
    }
}

fn as_key(node: Node) -> Result<(String, Place), Problem> {
    match node.value {
        Value::Scalar(scalar) => Ok((scalar.text, node.place)),
        _ => Err(Problem::new(&node.place, "", "a key must be text")),
    }
}

fn weight(node: &Node) -> usize {
    64 + match &node.value {
        Value::Scalar(scalar) => scalar.text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Map(entries) => entries.iter().map(|(key, entry)| key.len() + weight(&entry.node)).sum(),
    }
}
