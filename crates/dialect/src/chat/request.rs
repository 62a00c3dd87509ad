//! A request that generates text, as an OpenAI-like upstream wants to see it.

use crate::ask::{Ask, Chat};
use crate::json::{self, Kind, Patch};
use crate::{Added, Encoded, Target};

/// The body with the upstream's model name, and with `stream_options.include_usage` where the
/// gateway wants to know what a stream consumed and the caller did not ask.
#[must_use]
pub fn encode(ask: &Ask, chat: &Chat, target: &Target<'_>) -> Encoded {
    let mut patch = Patch::new();
    let mut added = Added::default();
    ask.patch_model(&mut patch, target.model);
    if hides_usage(ask, chat, target) {
        added.stream_options = ask_for_usage(ask, chat, &mut patch);
    }
    Encoded { body: patch.apply(&ask.body), added }
}

/// Whether usage is asked for by the gateway alone, so that callers must not see it.
pub(super) fn hides_usage(ask: &Ask, chat: &Chat, target: &Target<'_>) -> bool {
    ask.stream && target.ask_usage && chat.include_usage != Some(true)
}

/// True where it could be put in.
fn ask_for_usage(ask: &Ask, chat: &Chat, patch: &mut Patch<'_>) -> bool {
    const ASKED: &str = r#"{"include_usage":true}"#;
    let Some(span) = chat.stream_options else {
        patch.insert(ask.spans.object, "stream_options", ASKED);
        return true;
    };
    let text = ask.body.slice(span.range());
    let Ok(options) = json::parse(&text) else { return false };
    match options.kind() {
        Kind::Null => patch.replace(span, ASKED),
        Kind::Object => {
            let mut inner = Patch::new();
            match options.get("include_usage") {
                Some(value) => inner.replace(value.span(), "true"),
                None => inner.insert_into(options, "include_usage", "true"),
            }
            let text = inner.apply(&text);
            patch.replace(span, String::from_utf8_lossy(&text).into_owned());
        }
        // Not what OpenAI's API takes: the upstream will say so.
        _ => return false,
    }
    true
}
