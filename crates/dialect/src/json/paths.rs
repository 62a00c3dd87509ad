//! Fields of a body by their path, for those who rule what may stand there.

use smallvec::SmallVec;

use super::{Error, Member, Value, scan};

/// The top-level members that paths lead through, gathered in one pass over the body.
#[derive(Debug)]
pub struct Paths<'a> {
    root: Value<'a>,
    members: SmallVec<[Member<'a>; 8]>,
}

/// What stands at a path.
#[derive(Debug)]
pub enum Found<'a> {
    /// The field, be it null.
    Field(Member<'a>),
    /// Nothing: the innermost object that does stand on the way, and how many of the path's names
    /// lead to it.
    Nothing(Value<'a>, usize),
    /// A value on the way that is no object, be it null, and how many names lead to it.
    Blocked(Member<'a>, usize),
}

/// Two members that readers would not agree about: of one name, or of names that differ by case
/// alone, which some servers take for one (Go's `encoding/json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguous {
    /// The path's name, from the top.
    pub path: String,
    /// What the caller wrote for it.
    pub written: String,
}

impl<'a> Paths<'a> {
    /// Reads a body; `firsts` are the first names of the paths that will be asked for.
    ///
    /// # Errors
    /// The first byte at fault of what is no JSON.
    pub fn read<'p>(body: &'a [u8], firsts: impl Iterator<Item = &'p str> + Clone) -> Result<Self, Error> {
        // One more than there are names is enough to know that one of them stands twice.
        let most = firsts.clone().count() + 1;
        let mut members = SmallVec::new();
        let root = scan(body, |member| {
            if members.len() < most && firsts.clone().any(|name| is_alike(&member.key, name)) {
                members.push(member);
            }
        })?;
        Ok(Self { root, members })
    }

    /// The whole body.
    #[must_use]
    pub const fn root(&self) -> Value<'a> {
        self.root
    }

    /// What stands at a path. Paths lead through objects, never into arrays.
    ///
    /// # Errors
    /// Where a name on the way stands twice.
    pub fn find(&self, path: &[impl AsRef<str>]) -> Result<Found<'a>, Ambiguous> {
        let mut object = self.root;
        let Some((first, rest)) = path.split_first() else { return Ok(Found::Nothing(object, 0)) };
        let ambiguous = |depth: usize, written: &str| {
            let names: Vec<&str> = path.iter().take(depth + 1).map(AsRef::as_ref).collect();
            Ambiguous { path: names.join("."), written: written.to_owned() }
        };
        let mut found = only(self.members.iter().cloned(), first.as_ref()).map_err(|written| ambiguous(0, &written))?;
        for (depth, name) in (1..).zip(rest) {
            let Some(member) = found else { return Ok(Found::Nothing(object, depth - 1)) };
            if member.value.kind() != super::Kind::Object {
                return Ok(Found::Blocked(member, depth));
            }
            object = member.value;
            found = only(object.members(), name.as_ref()).map_err(|written| ambiguous(depth, &written))?;
        }
        Ok(found.map_or(Found::Nothing(object, rest.len()), Found::Field))
    }
}

/// The one member of that name; what was written where there are several, or one that only some
/// servers take for it.
fn only<'a>(members: impl Iterator<Item = Member<'a>>, name: &str) -> Result<Option<Member<'a>>, String> {
    let mut found = None;
    for member in members {
        if member.key == name {
            if found.is_some() {
                return Err(name.to_owned());
            }
            found = Some(member);
        } else if is_alike(&member.key, name) {
            return Err(member.key.into_owned());
        }
    }
    Ok(found)
}

/// Whether two names are one to a reader who ignores case, as Unicode folds it.
fn is_alike(written: &str, name: &str) -> bool {
    if written.is_ascii() || name.is_ascii() && written.len() > name.len() * 3 {
        return written.eq_ignore_ascii_case(name);
    }
    let folded =
        |text: &'_ str| text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>();
    folded(written) == folded(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body holds at a dotted path.
    fn at(body: &str, path: &str) -> String {
        let names: Vec<&str> = path.split('.').collect();
        let paths = Paths::read(body.as_bytes(), names.first().copied().into_iter()).expect("valid JSON");
        match paths.find(&names) {
            Ok(Found::Field(member)) => format!("field {}", member.value.raw()),
            Ok(Found::Nothing(object, depth)) => format!("nothing below {depth}: {}", object.raw()),
            Ok(Found::Blocked(member, depth)) => format!("blocked at {depth}: {}", member.value.raw()),
            Err(Ambiguous { path, written }) => format!("{written} for {path}"),
        }
    }

    #[test]
    fn a_path_leads_through_objects() {
        let body = r#"{"a":{"b":{"c":1.50},"d":null},"e":[{"f":1}]}"#;
        assert_eq!(at(body, "a.b.c"), "field 1.50");
        assert_eq!(at(body, "a.d"), "field null");
        assert_eq!(at(body, "a.b.x"), r#"nothing below 2: {"c":1.50}"#);
        assert_eq!(at(body, "a.x.y"), r#"nothing below 1: {"b":{"c":1.50},"d":null}"#);
        assert_eq!(at(body, "x.y"), format!("nothing below 0: {body}"));
        assert_eq!(at(body, "a.d.x"), "blocked at 2: null");
        assert_eq!(at(body, "e.f"), r#"blocked at 1: [{"f":1}]"#);
    }

    #[test]
    fn names_are_read_as_any_reader_would() {
        assert_eq!(at(r#"{"m\u0061x":1}"#, "max"), "field 1");
        assert_eq!(at(r#"{"max":1,"max":2}"#, "max"), "max for max");
        assert_eq!(at(r#"{"max":1,"m\u0061x":2}"#, "max"), "max for max");
        assert_eq!(at(r#"{"MAX":1}"#, "max"), "MAX for max");
        assert_eq!(at(r#"{"a":{"b":1,"B":2}}"#, "a.b"), "B for a.b");
        // Letters beyond ASCII that fold to k and s.
        assert_eq!(at("{\"max_to\u{212a}en\u{17f}\":1}", "max_tokens"), "max_to\u{212a}en\u{17f} for max_tokens");
        assert_eq!(at(r#"{"mäx":1,"maxx":2}"#, "max"), r#"nothing below 0: {"mäx":1,"maxx":2}"#);
    }
}
