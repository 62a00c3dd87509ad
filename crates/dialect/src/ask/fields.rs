//! The top-level fields of a body that the gateway reads, gathered while the body is validated.

use base::{Endpoint, Refusal};
use smallvec::SmallVec;

use super::{not_json, wrong_kind};
use crate::json::{self, Kind, Member, Span, Value};
use crate::{embeddings, rerank};

/// Whether an endpoint's view reads that field.
/// Fields by which the gateway decides who answers, how, and what it may cost.
const RULING: [&str; 6] = ["model", "stream", "messages", "input", "prompt", "n"];

/// Whether a server that does not look at case takes one name for the other, as those written in Go do (`encoding/json`
/// folds these two signs too); the last one counts there.
fn is_alike(key: &str, name: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    key != name && (name.len()..=3 * name.len()).contains(&key.len()) && key.chars().map(fold).eq(name.chars())
}

fn is_read(endpoint: Endpoint, name: &str) -> bool {
    match name {
        "model" | "stream" | "mai" | "metadata" => true,
        "messages"
        | "prompt"
        | "n"
        | "stream_options"
        | "tools"
        | "functions"
        | "max_tokens"
        | "max_completion_tokens"
        | "best_of"
        | "thinking_budget" => {
            matches!(endpoint, Endpoint::Chat | Endpoint::Completions)
        }
        "max_output_tokens" => endpoint == Endpoint::Responses,
        _ => match endpoint {
            Endpoint::Embeddings => embeddings::FIELDS.contains(&name),
            Endpoint::Rerank => rerank::FIELDS.contains(&name),
            _ => false,
        },
    }
}

/// The fields that an endpoint's view reads. At most one of each name: a body that gives one twice
/// is refused, because no two readers would agree on what it means.
#[derive(Debug)]
pub struct Fields<'a> {
    root: Span,
    members: SmallVec<[Member<'a>; 8]>,
}

impl<'a> Fields<'a> {
    /// Validates a whole body and keeps what the endpoint's view reads.
    ///
    /// # Errors
    /// `invalid_json`; `invalid_request` for a body that is no object, and for a doubled field.
    pub fn read(endpoint: Endpoint, body: &'a [u8]) -> Result<Self, Refusal> {
        let mut members: SmallVec<[Member<'a>; 8]> = SmallVec::new();
        let (mut doubled, mut alike) = (None, None);
        let root = json::scan(body, |member| {
            if !is_read(endpoint, &member.key) {
                if alike.is_none() {
                    alike = RULING.into_iter().find(|name| is_alike(&member.key, name)).map(|name| (member.key, name));
                }
                return;
            }
            if members.iter().any(|known| known.key == member.key) {
                doubled.get_or_insert(member.key);
            } else {
                members.push(member);
            }
        })
        .map_err(not_json)?;
        if root.kind() != Kind::Object {
            return Err(Refusal::new(
                base::Code::InvalidRequest,
                format!("the body must be a JSON object, not {}", root.kind().name()),
            ));
        }
        if let Some(key) = doubled {
            return Err(Refusal::field(key.to_string(), format!("the field '{key}' stands twice in the body")));
        }
        if let Some((key, name)) = alike {
            let why =
                format!("some servers would read '{key}' as '{name}', which the gateway rules by; write '{name}'");
            return Err(Refusal::field(name, why));
        }
        Ok(Self { root: root.span(), members })
    }

    /// Where the object stands.
    #[must_use]
    pub const fn object(&self) -> Span {
        self.root
    }

    /// A field with its place, be it null.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.key == name)
    }

    /// A field's value; null counts as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.member(name).map(|member| member.value).filter(|value| !value.is_null())
    }

    /// A field's value.
    ///
    /// # Errors
    /// `invalid_request` where it is absent or null.
    pub fn required(&self, name: &'static str) -> Result<Value<'a>, Refusal> {
        match self.member(name) {
            None => Err(Refusal::field(name, format!("the field '{name}' is missing"))),
            Some(member) if member.value.is_null() => Err(wrong_kind(name, "given", member.value)),
            Some(member) => Ok(member.value),
        }
    }
}
