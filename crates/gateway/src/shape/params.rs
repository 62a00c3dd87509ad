//! Parameter policies, spliced into a body's own bytes.

use base::{Code, Endpoint, Refusal};
use bytes::Bytes;
use dialect::Ask;
use dialect::json::{Ambiguous, Found, Member, Patch, Paths, Value, quoted};
use rules::params::{ANSWER_LIMITS, By, Field, OLLAMA_NAMES, OLLAMA_WORDS, Policy, Ruled, Verdict, Written, ruled};
use smallvec::SmallVec;

/// One change of a body.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The names that lead to the field.
    pub path: &'a [Box<str>],
    /// The one that is changed of its names, where the field goes by several.
    pub name: Option<&'a str>,
    /// What stood there as JSON; none where nothing did.
    pub before: Option<&'a str>,
    /// What is sent as JSON; none where the field is left out.
    pub after: Option<&'a str>,
    /// By which rule.
    pub by: By,
}

/// Told of each change.
pub type Note<'n> = &'n mut dyn FnMut(Change<'_>);

type Fields<'a> = SmallVec<[Ruled<'a>; 8]>;

/// A call with what its route's and its client's policy change. Uploads are no JSON and go as they came.
///
/// # Errors
/// `parameter_denied` that names the field; `invalid_request` for a bounded field that is no number, for
/// one that stands twice, and where the changed body is no longer what the endpoint takes.
pub fn apply(ask: Ask, route: &Policy, client: &Policy, note: Note<'_>) -> Result<Ask, Refusal> {
    if ask.content_type.is_some() {
        return Ok(ask);
    }
    let mut fields: Fields<'_> = ruled(route, client, ask.endpoint).collect();
    // What holds an object comes before what stands in it.
    fields.sort_by_key(|ruled| ruled.field.path.len());
    let mut body = ask.body.clone();
    let mut rest = fields.as_slice();
    while !rest.is_empty() {
        let changed;
        (changed, rest) = pass(&body, rest, rest.len() == fields.len(), ask.endpoint, &mut *note)?;
        body = changed;
    }
    if body == ask.body {
        return Ok(ask);
    }
    // Read again, so that what later steps know of the body is true of the bytes that go out.
    let shaped = Ask::read(ask.endpoint, None, body)?;
    Ok(Ask { tag: ask.tag, query: ask.query, ..shaped })
}

/// Changes what can be changed in one go, and says what is left: fields within what was changed.
fn pass<'f, 'p>(
    body: &Bytes,
    fields: &'f [Ruled<'p>],
    is_first: bool,
    endpoint: Endpoint,
    note: Note<'_>,
) -> Result<(Bytes, &'f [Ruled<'p>]), Refusal> {
    let names = |field: &Field| names(field, fields);
    let mut firsts: SmallVec<[&str; 16]> = SmallVec::new();
    for ruled in fields {
        match names(ruled.field) {
            [] => firsts.extend(ruled.field.path.first().map(|name| &**name)),
            names => firsts.extend(names.iter().map(|name| first(name))),
        }
    }
    let paths = Paths::read(body, firsts.iter().copied())
        .map_err(|error| Refusal::new(Code::InvalidJson, error.to_string()))?;
    if is_first {
        // What the caller wrote is judged before anything of ours stands beside it.
        fields.iter().try_for_each(|ruled| refuse_denied(&paths, ruled, names(ruled.field)))?;
    }
    let mut edit = Edit { endpoint, patch: Patch::new(), touched: SmallVec::new(), note };
    for (at, ruled) in fields.iter().enumerate() {
        if edit.touched.iter().any(|touched| is_within(touched, &ruled.field.path)) {
            return Ok((edit.patch.apply(body), fields.get(at..).unwrap_or_default()));
        }
        match names(ruled.field) {
            [] => edit.field(&paths, ruled)?,
            names => edit.named(&paths, ruled, names)?,
        }
    }
    Ok((edit.patch.apply(body), &[]))
}

/// The names of a field that goes by several. Who rules `think`, `format` or something in `options` by that name means it: it
/// is no other name of another field then. What is left for a later pass stands inside of something, and has one name.
fn names(field: &Field, all: &[Ruled<'_>]) -> &'static [&'static str] {
    let is_ruled = |name: &str| all.iter().any(|ruled| ruled.field.path.first().is_some_and(|first| **first == *name));
    match field.names {
        _ if field.limit.is_some() => &ANSWER_LIMITS,
        [_, other] if is_ruled(first(other)) => &[],
        names => names,
    }
}

/// The member of the body in which a dotted name begins.
fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// What stands under a dotted name.
fn find<'a>(paths: &Paths<'a>, name: &str) -> Result<Found<'a>, Refusal> {
    let path: SmallVec<[&str; 2]> = name.split('.').collect();
    paths.find(&path).map_err(ambiguous)
}

/// One pass over a body.
struct Edit<'p, 'n> {
    endpoint: Endpoint,
    patch: Patch<'p>,
    /// The outermost thing that each edit changed, by its path.
    touched: SmallVec<[&'p [Box<str>]; 8]>,
    note: Note<'n>,
}

impl<'p> Edit<'p, '_> {
    fn field(&mut self, paths: &Paths<'_>, ruled: &Ruled<'p>) -> Result<(), Refusal> {
        let path = &ruled.field.path;
        let found = paths.find(path).map_err(ambiguous)?;
        let before = match &found {
            Found::Field(member) => Some(member.value),
            _ => None,
        };
        let (after, by) = match ruled.judge(before.map_or(Written::Nothing, written)) {
            Verdict::Denied => return Err(denied(&path.join("."))),
            Verdict::NotANumber => return Err(no_number(&path.join("."))),
            Verdict::Set(json, by) => (Some(json), by),
            Verdict::Remove(by) => (None, by),
            Verdict::Keep if ruled.drops_null() => (None, By::Deny),
            Verdict::Keep => return Ok(()),
        };
        let touched = match (found, after) {
            (Found::Field(member), Some(json)) => {
                self.patch.replace(member.value.span(), json);
                path.len()
            }
            (Found::Field(member), None) => {
                self.patch.remove(&member);
                path.len()
            }
            (Found::Nothing(object, depth), Some(json)) => {
                let Some((name, rest)) = path.get(depth..).and_then(<[_]>::split_first) else { return Ok(()) };
                self.patch.insert_into(object, name, &nested(rest, json));
                depth + 1
            }
            (Found::Blocked(member, depth), Some(json)) if member.value.is_null() || ruled.is_forced() => {
                self.patch.replace(member.value.span(), nested(path.get(depth..).unwrap_or_default(), json));
                depth
            }
            (Found::Nothing(..) | Found::Blocked(..), _) => return Ok(()),
        };
        self.touched.extend(path.get(..touched));
        (self.note)(Change { path, name: None, before: before.map(Value::raw), after, by });
        Ok(())
    }

    /// A field that goes by several names, under whichever of them the caller wrote.
    fn named(&mut self, paths: &Paths<'_>, ruled: &Ruled<'p>, names: &[&str]) -> Result<(), Refusal> {
        let mut members: SmallVec<[(&str, Member<'_>); 3]> = SmallVec::new();
        for name in names {
            if let Found::Field(member) = find(paths, name)? {
                members.push((name, member));
            }
        }
        let (nulls, mut values): (SmallVec<[_; 3]>, SmallVec<[_; 3]>) =
            members.into_iter().partition(|(_, member)| member.value.is_null());
        values.retain(|(name, member)| !self.makes_room(ruled, name, member));
        for (name, member) in &values {
            match ruled.judge(written(member.value)) {
                Verdict::Denied => return Err(denied(name)),
                Verdict::NotANumber => return Err(no_number(name)),
                Verdict::Set(json, by) => {
                    self.patch.replace(member.value.span(), json);
                    self.note_named(ruled, name, Some(member.value), (Some(json), by));
                }
                Verdict::Remove(by) => {
                    self.patch.remove(member);
                    self.note_named(ruled, name, Some(member.value), (None, by));
                }
                Verdict::Keep => {}
            }
        }
        // The name that is sent where the caller wrote none, unless nothing is to be: where no text is asked for there is
        // no answer to limit.
        let name = match (ruled.field.limit, self.endpoint) {
            (Some(_), Endpoint::Responses) => Some("max_output_tokens"),
            (Some("max_output_tokens"), Endpoint::Chat | Endpoint::Completions) => Some("max_tokens"),
            (Some(ours), Endpoint::Chat | Endpoint::Completions) => Some(ours),
            (Some(_), _) => None,
            (None, _) => names.first().copied(),
        };
        let filled = match (ruled.judge(Written::Nothing), name) {
            (Verdict::Set(json, by), Some(name)) if values.is_empty() => Some((json, by, name)),
            _ => None,
        };
        // A null of Ollama's says nothing, and holds no place.
        let own = filled.map(|(_, _, name)| name);
        let is_taken = |of: &&(&str, Member<'_>)| Some(of.0) == own || ruled.field.limit.is_some();
        let taken = nulls.iter().find(|(name, _)| Some(*name) == own).or(nulls.first().filter(is_taken));
        let taken = taken.map(|(_, member)| member.key_span);
        if let Some((json, by, name)) = filled
            && taken.is_none()
        {
            self.patch.insert_into(paths.root(), name, json);
            self.note_named(ruled, name, None, (Some(json), by));
        }
        for (name, null) in &nulls {
            match filled {
                Some((json, by, _)) if taken == Some(null.key_span) => {
                    self.patch.replace(null.value.span(), json);
                    self.note_named(ruled, name, Some(null.value), (Some(json), by));
                }
                Some(_) => self.patch.remove(null),
                None if ruled.drops_null() => {
                    self.patch.remove(null);
                    self.note_named(ruled, name, Some(null.value), (None, By::Deny));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Ollama's own name goes where a value is forced: other servers read the field alone.
    fn makes_room(&mut self, ruled: &Ruled<'p>, name: &str, member: &Member<'_>) -> bool {
        let is_ollamas = OLLAMA_NAMES.iter().chain(&OLLAMA_WORDS).any(|[_, other]| *other == name);
        let goes = ruled.is_forced() && is_ollamas;
        if goes {
            self.patch.remove(member);
            self.note_named(ruled, name, Some(member.value), (None, By::Force));
        }
        goes
    }

    fn note_named(
        &mut self,
        ruled: &Ruled<'p>,
        name: &str,
        before: Option<Value<'_>>,
        (after, by): (Option<&str>, By),
    ) {
        let before = before.map(Value::raw);
        self.touched.push(&ruled.field.path);
        (self.note)(Change { path: &ruled.field.path, name: Some(name), before, after, by });
    }
}

fn refuse_denied(paths: &Paths<'_>, ruled: &Ruled<'_>, names: &[&str]) -> Result<(), Refusal> {
    let judge = |found| match found {
        Found::Field(member) => ruled.judge(written(member.value)) == Verdict::Denied,
        Found::Nothing(..) | Found::Blocked(..) => false,
    };
    if names.is_empty() {
        let path = &ruled.field.path;
        return if judge(paths.find(path).map_err(ambiguous)?) { Err(denied(&path.join("."))) } else { Ok(()) };
    }
    for name in names {
        if judge(find(paths, name)?) {
            return Err(denied(name));
        }
    }
    Ok(())
}

fn written(value: Value<'_>) -> Written {
    if value.is_null() {
        return Written::Nothing;
    }
    value.as_f64().map_or(Written::Other, Written::Number)
}

/// A value inside the objects that these names make around it.
fn nested(names: &[Box<str>], json: &str) -> String {
    names.iter().rev().fold(json.to_owned(), |inner, name| format!("{{{}:{inner}}}", quoted(name)))
}

/// Whether one path leads to, or through, what the other leads to.
fn is_within(one: &[Box<str>], other: &[Box<str>]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

fn denied(path: &str) -> Refusal {
    let message = format!("the field '{path}' may not be set here; leave it out");
    Refusal { param: Some(path.to_owned().into()), ..Refusal::new(Code::ParameterDenied, message) }
}

fn no_number(path: &str) -> Refusal {
    Refusal::field(path.to_owned(), format!("'{path}' must be a number; its range is bounded here"))
}

fn ambiguous(Ambiguous { path, written }: Ambiguous) -> Refusal {
    let last = path.rsplit('.').next().unwrap_or_default();
    let message = if last == written {
        format!("the field '{path}' stands twice in the body")
    } else {
        format!("some servers would read '{written}' as '{path}', which is ruled here; write '{last}'")
    };
    Refusal::field(path.clone(), message)
}
