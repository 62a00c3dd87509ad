//! The tool calls of a choice, put together of their pieces.
//!
//! `OpenAI` numbers calls by `index` and names an `id` with the first piece of each. Others leave out one or the other, number
//! all calls alike, or write another id with each piece; then the function's name and what its arguments have come to say
//! where a call begins.

use super::Broken;
use super::node::{self, Budget, Fields, How};
use crate::json::{self, Kind, Member, Value};

/// Tool calls under construction, as they came.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The id as JSON writes it, where it is known.
    id: Option<String>,
    fields: Fields,
}

/// How far a call's arguments have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    None,
    Begun,
    /// They are an object, of which nothing is missing.
    Whole,
}

/// Whom a piece seems to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Its id is this call's.
    Id,
    /// Its index is, and one of both has no id.
    Index,
    /// Its index is, or it has none, and its id is another one.
    OtherId,
    /// It has neither, and this is the last call.
    Order,
}

/// What a piece of a call says.
#[derive(Clone, Copy)]
struct Piece<'a> {
    value: Value<'a>,
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    has_arguments: bool,
}

impl<'a> Piece<'a> {
    fn of(value: Value<'a>) -> Self {
        let said = |text: &&str| !text.is_empty();
        let function = value.get("function").or_else(|| value.get("custom"));
        let arguments = function.and_then(|function| function.get("arguments").or_else(|| function.get("input")));
        Self {
            value,
            index: value.get("index").and_then(Value::as_u64),
            id: value.get("id").and_then(Value::as_escaped).filter(said),
            name: function.and_then(|function| function.get("name")).and_then(Value::as_escaped).filter(said),
            has_arguments: arguments.is_some_and(|arguments| !arguments.is_null() && !arguments.is_empty()),
        }
    }
}

impl Call {
    fn name(&self) -> Option<&str> {
        let function = self.fields.get("function").or_else(|| self.fields.get("custom"))?;
        function.escaped_in("name").filter(|name| !name.is_empty())
    }

    fn arguments(&self) -> Arguments {
        let known = self.fields.get("function").and_then(|function| function.escaped_in("arguments"));
        let known = known.or_else(|| self.fields.get("custom").and_then(|custom| custom.escaped_in("input")));
        match known.map(str::trim) {
            None | Some("") => Arguments::None,
            // Read only where that may be.
            Some(text) if text.starts_with('{') && text.ends_with('}') => {
                let text = json::unescaped(text);
                let is_whole = json::parse(text.as_bytes()).is_ok_and(|whole| whole.kind() == Kind::Object);
                if is_whole { Arguments::Whole } else { Arguments::Begun }
            }
            Some(_) => Arguments::Begun,
        }
    }

    /// Whether a piece that seems to go on with this call does; else another call begins with it.
    fn goes_on(&self, piece: &Piece<'_>, by: By) -> Result<bool, Broken> {
        let Some(name) = piece.name else {
            // A call has a name: what has another id with each piece is one call.
            return match by {
                By::Id | By::Index => Ok(true),
                By::OtherId if self.name().is_none() => Ok(false),
                _ if piece.has_arguments && self.arguments() == Arguments::Whole => Err(Broken::Unclear),
                By::OtherId | By::Order => Ok(true),
            };
        };
        let Some(known) = self.name().filter(|_| by != By::OtherId) else { return Ok(by != By::OtherId) };
        match self.arguments() {
            Arguments::Whole => Ok(!piece.has_arguments && name == known),
            _ if name == known || by == By::Id => Ok(true),
            // A name in pieces.
            Arguments::None if by == By::Index => Ok(true),
            _ => Err(Broken::Unclear),
        }
    }
}

impl Calls {
    /// Takes the calls of one delta: those without an index and an id are as many calls as there are.
    pub(super) fn take(&mut self, calls: Value<'_>, budget: &mut Budget) -> Result<(), Broken> {
        let pieces = calls.elements().filter(|call| call.kind() == Kind::Object);
        pieces.enumerate().try_for_each(|(place, value)| self.take_piece(Piece::of(value), place == 0, budget))
    }

    /// The call that a piece seems to go on with.
    fn sought(&self, piece: &Piece<'_>, is_first: bool) -> Option<(usize, By)> {
        let last = self.0.len().checked_sub(1);
        let Piece { index, id, .. } = *piece;
        // Of two numbers both must be the same: some number their calls, and write one id for all of them.
        let is_numbered = |call: &Call| index.is_none() || call.index.is_none() || call.index == index;
        let named =
            id.and_then(|id| self.0.iter().rposition(|call| is_numbered(call) && call.id.as_deref() == Some(id)));
        if let Some(at) = named {
            return Some((at, By::Id));
        }
        match (index, id) {
            (None, None) => last.filter(|_| is_first).map(|at| (at, By::Order)),
            (None, Some(_)) => last.filter(|_| is_first).map(|at| (at, By::OtherId)),
            (Some(_), _) => {
                let at =
                    self.0.iter().rposition(|call| call.index == index || (id.is_none() && call.index.is_none()))?;
                let has_other = id.is_some() && self.0.get(at).is_some_and(|call| call.id.is_some());
                Some((at, if has_other { By::OtherId } else { By::Index }))
            }
        }
    }

    fn take_piece(&mut self, piece: Piece<'_>, is_first: bool, budget: &mut Budget) -> Result<(), Broken> {
        let mut known = None;
        if let Some((at, by)) = self.sought(&piece, is_first)
            && let Some(call) = self.0.get(at)
            && call.goes_on(&piece, by)?
        {
            known = Some(at);
        }
        let at = match known {
            Some(at) => at,
            None => {
                budget.add_place(self.0.len(), size_of::<Call>())?;
                self.0.push(Call { index: piece.index, id: None, fields: Fields::default() });
                self.0.len() - 1
            }
        };
        let Some(call) = self.0.get_mut(at) else { return Ok(()) };
        // The first id counts.
        let has_id = call.id.is_some();
        if !has_id {
            call.id = piece.id.map(str::to_owned);
        }
        let goes_in = |member: &Member<'_>| member.key != "index" && !(has_id && member.key == "id");
        let mut members = piece.value.members().filter(goes_in);
        Ok(members.try_for_each(|member| call.fields.merge(&member, How::Joined, budget))?)
    }

    /// Writes the member of a message, where there are any.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.0.is_empty() {
            return;
        }
        node::push_name(out, "tool_calls");
        out.push(b'[');
        let mut calls: Vec<&Call> = self.0.iter().collect();
        // Those without an index keep their places behind the others'.
        calls.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        for (at, call) in calls.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            call.fields.write(out);
        }
        out.push(b']');
    }
}
