//! Holds what was written against the table of keys.

use std::net::SocketAddr;

use base::nearest;
use dialect::Protocol;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use crate::node::{Core, Entry, Node, Scalar, Style, Value, item_path, join};
use crate::problem::{Place, Problem};
use crate::shape::Branch;
use crate::table::Kind;
use crate::{address, units};

/// Bytes of a name at most: it goes into headers, metrics and paths of the admin API.
pub(crate) const LONGEST_NAME: usize = 128;

/// After so many problems more of them help nobody.
pub(crate) const MOST_PROBLEMS: usize = 200;

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub problems: Vec<Problem>,
    /// Keys that are written but not in force in this version.
    pub waiting: Vec<Waiting>,
}

/// A key that a later version honours.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub place: Place,
    pub path: String,
    pub capability: &'static str,
}

/// Checks a whole configuration.
pub(crate) fn check(root: &Branch, node: &Node) -> Findings {
    let mut checker = Checker { root, found: Findings::default() };
    checker.value(root, Kind::Table, node, "");
    checker.found
}

struct Checker<'a> {
    root: &'a Branch,
    found: Findings,
}

impl Checker<'_> {
    fn report(&mut self, place: &Place, path: &str, text: impl Into<String>) {
        // One more than the most, so that the reader is told of the rest.
        if self.found.problems.len() <= MOST_PROBLEMS {
            self.found.problems.push(Problem::new(place, path, text));
        }
    }

    fn value(&mut self, branch: &Branch, kind: Kind, node: &Node, path: &str) {
        if self.found.problems.len() > MOST_PROBLEMS {
            return;
        }
        match (kind, &node.value) {
            (Kind::Any, _) => {}
            (Kind::Either(kinds), _) => match kinds.iter().find(|kind| fits(**kind, node)) {
                Some(kind) => self.value(branch, *kind, node, path),
                None => self.wrong_form(kind, node, path),
            },
            (Kind::Table, Value::Map(_)) => self.table(branch, node, path),
            (Kind::List(kind), Value::List(items)) => {
                let below = branch.item.as_deref().unwrap_or(branch);
                for (index, item) in items.iter().enumerate() {
                    self.value(below, *kind, item, &item_path(path, item, index));
                }
            }
            (Kind::Map(kind), Value::Map(entries)) => {
                for (key, entry) in entries {
                    self.value(branch, *kind, &entry.node, &join(path, key));
                }
            }
            (Kind::Table | Kind::List(_) | Kind::Map(_), _) | (_, Value::List(_) | Value::Map(_)) => {
                self.wrong_form(kind, node, path);
            }
            (_, Value::Scalar(scalar)) => {
                if scalar.core() == Core::Null {
                    self.wrong_form(kind, node, path);
                } else if let Err(text) = scalar_fits(kind, scalar) {
                    self.report(&node.place, path, text);
                }
            }
        }
    }

    fn table(&mut self, branch: &Branch, node: &Node, path: &str) {
        let Some(entries) = node.map() else { return };
        for (key, entry) in entries {
            if self.found.problems.len() > MOST_PROBLEMS {
                return;
            }
            let path = join(path, key);
            let Some(child) = branch.child(key) else {
                let hint = self.hint(branch, key);
                self.report(&entry.place, &path, hint);
                continue;
            };
            self.wait(child, entry, &path);
            self.value(child, child.kind(), &entry.node, &path);
        }
        for child in &branch.children {
            if child.key.is_some_and(|key| key.is_required) && !entries.contains_key(child.name) {
                self.report(
                    &node.place,
                    &join(path, child.name),
                    format!("is missing; write {}", wanted(child.kind())),
                );
            }
        }
    }

    /// Notes what this version does not honour yet.
    fn wait(&mut self, branch: &Branch, entry: &Entry, path: &str) {
        if let Some(capability) = branch.waits_for()
            && !is_held(branch, &entry.node)
        {
            self.found.waiting.push(Waiting { place: entry.place.clone(), path: path.to_owned(), capability });
        }
    }

    fn wrong_form(&mut self, kind: Kind, node: &Node, path: &str) {
        let text = match (node.form(), kind) {
            ("nothing", _) if path.is_empty() => {
                "the file holds nothing; write at least one provider and one route".into()
            }
            ("nothing", _) => format!("has no value; write {}, or remove the key", wanted(kind)),
            (form, Kind::List(inner)) if node.scalar().is_some() && !matches!(inner, Kind::Table) => {
                format!("is {form}, but must be a list of {}: write it in `[ ]`", plural(*inner))
            }
            (form, _) if path.is_empty() => {
                format!("the file holds {form}, but must be a mapping of keys such as `providers:`")
            }
            (form, _) => format!("is {form}, but must be {}", wanted(kind)),
        };
        self.report(&node.place, path, text);
    }

    /// What an unknown key was probably meant to be.
    fn hint(&self, branch: &Branch, key: &str) -> String {
        let known = || branch.children.iter().map(|child| child.name);
        if let Some(near) = nearest(key, known()) {
            return format!("unknown key; did you mean `{near}`?");
        }
        let mut places = Vec::new();
        find(self.root, "", key, &mut places);
        if let [place] = places.as_slice() {
            return format!("unknown key here; it belongs to {place}");
        }
        let list = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        format!("unknown key; the keys here are {list}")
    }
}

/// A choice of the default is kept by every version: what waits is the other choices.
fn is_held(branch: &Branch, node: &Node) -> bool {
    let preset = branch.key.and_then(|key| key.preset.value(base::Family::Chat));
    matches!(branch.kind(), Kind::Choice(_)) && preset == node.scalar().map(|scalar| scalar.text.as_str())
}

/// Every place of the tree that has such a key.
fn find(branch: &Branch, path: &str, key: &str, found: &mut Vec<String>) {
    if branch.child(key).is_some() {
        found.push(if path.is_empty() { "the top level".into() } else { format!("`{path}`") });
    }
    for child in &branch.children {
        let path = join(path, child.name);
        find(child, &path, key, found);
        if let Some(item) = &child.item {
            find(item, &format!("{path}[]"), key, found);
        }
    }
}

/// Whether a value has the outer form of this kind, for choosing one of several.
pub(crate) fn fits(kind: Kind, node: &Node) -> bool {
    match kind {
        Kind::Table | Kind::Map(_) => node.map().is_some(),
        Kind::List(_) => node.list().is_some(),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(*kind, node)),
        Kind::Any => true,
        _ => node.scalar().is_some_and(|scalar| scalar.core() != Core::Null),
    }
}

/// Whether a scalar is one of this kind.
fn scalar_fits(kind: Kind, scalar: &Scalar) -> Result<(), String> {
    let not = |ok: bool| if ok { Ok(()) } else { Err(format!("{} is not {}", scalar.shown(), wanted(kind))) };
    let is_bare = matches!(kind, Kind::Integer(..) | Kind::Above(..) | Kind::Number(..) | Kind::Bool);
    if is_bare && scalar.style == Style::Quoted {
        let plain = Scalar { style: Style::Plain, ..scalar.clone() };
        return scalar_fits(kind, &plain).and(Err("stands in quotes, which makes it text; remove them".into()));
    }
    match kind {
        Kind::Duration | Kind::Wait if units::is_too_long(&scalar.text) => {
            Err(format!("{} is too long: write ten years (`3650d`) at most", scalar.shown()))
        }
        Kind::Duration => not(scalar.as_quantity(units::duration).is_some_and(|time| !time.is_zero())),
        Kind::Wait => not(scalar.as_quantity(units::duration).is_some()),
        Kind::Size(least, most) => {
            not(scalar.as_quantity(units::size).is_some_and(|size| (least..=most).contains(&size)))
        }
        Kind::Integer(least, most) => not(scalar.as_integer().is_some_and(|number| (least..=most).contains(&number))),
        Kind::Above(least, most) => not(scalar.as_number().is_some_and(|number| number > least && number <= most)),
        Kind::Number(least, most) => not(scalar.as_number().is_some_and(|number| number >= least && number <= most)),
        Kind::Bool => not(scalar.as_bool().is_some()),
        _ => match scalar.as_text() {
            Some(text) => text_fits(kind, text, scalar),
            None if matches!(kind, Kind::Secret) => Err("must be text; put it into quotes".into()),
            None => Err(format!("{} is {} to YAML; put it into quotes to make it text", scalar.shown(), scalar.form())),
        },
    }
}

fn text_fits(kind: Kind, text: &str, scalar: &Scalar) -> Result<(), String> {
    if text.is_empty() {
        return Err(match scalar.style {
            Style::Variable => "is empty (its variable is set, but to nothing)".into(),
            _ => format!("is empty; write {}", wanted(kind)),
        });
    }
    match kind {
        Kind::Name => name_fits(text),
        Kind::Url(schemes) if schemes.contains(&"http") => address::parse(text, schemes).map(|_| ()),
        Kind::Url(schemes) => address::check_scheme(text, schemes),
        Kind::Address if text.parse::<SocketAddr>().is_err() => {
            Err(format!("{} is not {}", scalar.shown(), wanted(kind)))
        }
        Kind::Pattern(_) if !is_balanced(text) => {
            Err("is no regular expression: a bracket is not closed, or closes nothing".into())
        }
        Kind::Pattern(least) if groups(text) < least => {
            Err(format!("is a regular expression with fewer groups than {least}; put `( )` around what it is to find"))
        }
        Kind::Choice(words) if !words.contains(&text) => Err(no_choice(scalar, words)),
        Kind::Protocol if !Protocol::ALL.iter().any(|protocol| protocol.as_str() == text) => {
            Err(no_choice(scalar, &Protocol::ALL.map(Protocol::as_str)))
        }
        _ => Ok(()),
    }
}

/// Whether every bracket of a regular expression has its other half, as far as can be told without
/// its engine.
fn is_balanced(pattern: &str) -> bool {
    let (mut depth, mut in_class) = (0_usize, false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, in_class) {
            ('\\', _) if chars.next().is_none() => return false,
            ('[', false) => in_class = true,
            (']', true) => in_class = false,
            ('(', false) => depth += 1,
            (')', false) if depth == 0 => return false,
            (')', false) => depth -= 1,
            _ => {}
        }
    }
    depth == 0 && !in_class
}

/// The capturing groups of a regular expression, roughly: what it means is for its engine to say.
fn groups(pattern: &str) -> usize {
    let mut count = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '(' => {
                let rest: String = chars.clone().take(3).collect();
                let is_named = rest.starts_with("?P<") || (rest.starts_with("?<") && !rest.ends_with(['=', '!']));
                count += usize::from(!rest.starts_with('?') || is_named);
            }
            _ => {}
        }
    }
    count
}

fn name_fits(text: &str) -> Result<(), String> {
    if text.len() > LONGEST_NAME {
        Err(format!("is a name of {} bytes; {LONGEST_NAME} is the most", text.len()))
    } else if let Some(why) = base::illegible(text) {
        Err(format!("is a name that {why}; leave it out"))
    } else if text.trim() != text {
        Err("is a name with blanks around it; remove them".into())
    } else if let Some(letter) = decomposed(text) {
        let code = u32::from(letter);
        Err(format!("is a name that holds U+{code:04X} where one letter says the same; write it in Unicode's form NFC"))
    } else if matches!(text, "." | "..") {
        Err("is a name that stands for a folder in paths; write another one".into())
    } else if text.contains("${") {
        Err("is a name that holds `${`, which would be read as a variable; leave it out".into())
    } else {
        Ok(())
    }
}

/// A letter that is written otherwise in the form in which equal texts are equal (NFC of Unicode Standard Annex 15).
fn decomposed(text: &str) -> Option<char> {
    if text.is_ascii() || is_nfc(text) {
        return None;
    }
    let same = text.chars().zip(text.nfc()).take_while(|(written, composed)| written == composed).count();
    text.chars().skip(same).find(|letter| !letter.is_ascii())
}

fn no_choice(scalar: &Scalar, words: &[&str]) -> String {
    let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let near = if scalar.style == Style::Variable { None } else { nearest(&scalar.text, words.iter().copied()) };
    match near {
        Some(near) => format!("{} is none of {list}; did you mean `{near}`?", scalar.shown()),
        None => format!("{} is none of {list}", scalar.shown()),
    }
}

/// What to write, in words.
pub(crate) fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Name => "a name".into(),
        Kind::Secret => "text, such as `\"${VARIABLE}\"`".into(),
        Kind::Url(schemes) => format!("an address such as `{}://…`", schemes.first().unwrap_or(&"https")),
        Kind::Address => "an address to listen on, such as `0.0.0.0:8080`".into(),
        Kind::Pattern(_) => "a regular expression".into(),
        Kind::Glob => "a name, with `*` for any run of characters".into(),
        Kind::Endpoint => "the path of an endpoint, such as `/v1/chat/completions`".into(),
        Kind::File => "the path of a file".into(),
        Kind::Folder => "the path of a folder".into(),
        Kind::Duration => {
            "a duration above zero: `250ms`, `3s`, `5m`, `2h`, `7d`, or a bare number of milliseconds".into()
        }
        Kind::Wait => "a duration: `250ms`, `3s`, `5m`, `2h`, `7d`, or a bare number of milliseconds".into(),
        Kind::Size(least, most) => {
            format!("a size from {} to {}, such as `10MiB`, or a bare number of bytes", bytes(least), bytes(most))
        }
        Kind::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Above(least, most) => format!("a number above {least} and up to {most}"),
        Kind::Number(f64::MIN, f64::MAX) => "a number".into(),
        Kind::Number(least, most) => format!("a number from {least} to {most}"),
        Kind::Bool => "`true` or `false`".into(),
        Kind::Protocol => "the name of a protocol".into(),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
        Kind::Table => "a mapping of keys".into(),
        Kind::List(inner) => format!("a list of {}", plural(*inner)),
        Kind::Map(_) => "a mapping of names to values".into(),
        Kind::Any => "any value".into(),
        Kind::Either(kinds) => kinds.iter().map(|kind| wanted(*kind)).collect::<Vec<_>>().join(", or "),
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Table => "mappings",
        Kind::Duration | Kind::Wait => "durations",
        Kind::Secret => "keys",
        Kind::Glob | Kind::Either(_) => "names",
        Kind::Above(..) | Kind::Number(..) | Kind::Integer(..) => "numbers",
        _ => "texts",
    }
}

/// A number of bytes in the largest unit that says it exactly.
fn bytes(count: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| count > 0 && count.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", count / size),
        None => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_of_the_table_is_a_value_that_its_key_takes() {
        use base::Family;
        fn visit(branch: &Branch, path: &str) {
            for child in &branch.children {
                let path = join(path, child.name);
                let key = child.key.unwrap();
                for family in [Family::Chat, Family::Embeddings, Family::Rerank] {
                    let Some(value) = key.preset.value(family) else { continue };
                    if let Kind::List(inner) = key.kind {
                        for item in value.trim_matches(['[', ']']).split(", ") {
                            scalar_fits(*inner, &Scalar::preset(item))
                                .unwrap_or_else(|error| panic!("{path}: {error}"));
                        }
                    } else if let Kind::Either([first, ..]) = key.kind {
                        scalar_fits(*first, &Scalar::preset(value)).unwrap_or_else(|error| panic!("{path}: {error}"));
                    } else {
                        scalar_fits(key.kind, &Scalar::preset(value)).unwrap_or_else(|error| panic!("{path}: {error}"));
                    }
                }
                visit(child, &path);
                if let Some(item) = &child.item {
                    visit(item, &format!("{path}[]"));
                }
            }
        }
        visit(&Branch::root(), "");
    }
}
