//! What an answer says that it used, although it is none.

use base::Usage;

use crate::json::{self, Value};
use crate::{chat, rerank};

/// The usage that stands in a 2xx whose answer could not be taken, wherever providers write it: an upstream
/// bills what it says that it has used, whatever became of its answer. `None` where it says nothing.
#[must_use]
pub fn usage_in(body: &[u8]) -> Option<Usage> {
    let root = json::parse(body).ok()?;
    let of_chat = || chat::usage::read(root.get("usage")?);
    let of_rerank = || Some(Usage { prompt: rerank::counted(root)?, ..Usage::default() });
    let usage = of_chat().or_else(of_rerank).or_else(|| of_ollama(root));
    match (usage, rerank::counted_units(root)) {
        (None, None) => None,
        (usage, units) => Some(Usage { units: units.unwrap_or_default(), ..usage.unwrap_or_default() }),
    }
}

/// Ollama counts in the answer itself.
fn of_ollama(root: Value<'_>) -> Option<Usage> {
    let count = |name| root.get(name).and_then(Value::as_u64).filter(|count| *count <= Usage::CEILING);
    let (prompt, completion) = (count("prompt_eval_count"), count("eval_count"));
    prompt.or(completion)?;
    let (prompt, completion) = (prompt.unwrap_or_default(), completion.unwrap_or_default());
    Some(Usage { prompt, completion, ..Usage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_wherever_providers_write_it() {
        for (body, tokens, units) in [
            (r#"{"data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}"#, 7, 0),
            (r#"{"data":[],"usage":{"total_tokens":7}}"#, 7, 0),
            (r#"{"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}"#, 12, 0),
            (r#"{"results":7,"meta":{"tokens":{"input_tokens":9},"billed_units":{"search_units":2}}}"#, 9, 2),
            (r#"{"results":7,"meta":{"billed_units":{"search_units":2}}}"#, 0, 2),
            (r#"{"done":false,"prompt_eval_count":3,"eval_count":4}"#, 7, 0),
            (r#"{"error":{"message":"no"},"usage":{"input_tokens":3,"output_tokens":1}}"#, 4, 0),
        ] {
            let usage = usage_in(body.as_bytes()).unwrap();
            assert_eq!((usage.tokens(), usage.units, usage.estimated), (tokens, units, false), "{body}");
        }
    }

    #[test]
    fn nothing_and_nonsense_are_no_usage() {
        for body in ["", "no JSON", "[]", "{}", r#"{"usage":null}"#, r#"{"usage":{"prompt_tokens":-1}}"#] {
            assert_eq!(usage_in(body.as_bytes()), None, "{body}");
        }
    }
}
