//! What an upstream says a call consumed.

use base::Usage;

use crate::json::{Kind, Value};

/// Reads a usage object, by OpenAI's names and those of its variants: `prompt_tokens` or
/// `input_tokens`, `completion_tokens` or `output_tokens`; the cached part in
/// `prompt_tokens_details`, `input_tokens_details`, as `cached_tokens` (Moonshot) or
/// `prompt_cache_hit_tokens` (DeepSeek). `None` for anything that is nonsense: negative, not a
/// whole number, more than [`Usage::CEILING`], or without any count.
#[must_use]
pub fn read(usage: Value<'_>) -> Option<Usage> {
    if usage.kind() != Kind::Object {
        return None;
    }
    let (mut prompt, mut completion, mut total, mut cached) = (None, None, None, None);
    for member in usage.members().filter(|member| !member.value.is_null()) {
        let field = match &*member.key {
            "prompt_tokens" | "input_tokens" => &mut prompt,
            "completion_tokens" | "output_tokens" => &mut completion,
            "total_tokens" => &mut total,
            "prompt_tokens_details" | "input_tokens_details" => {
                cached = count(member.value.get("cached_tokens")).flatten().or(cached);
                continue;
            }
            "prompt_cache_hit_tokens" | "cached_tokens" => {
                cached = cached.or(count(Some(member.value)).flatten());
                continue;
            }
            _ => continue,
        };
        *field = Some(count(Some(member.value))??);
    }
    let prompt = match (prompt, completion) {
        (Some(prompt), _) => prompt,
        (None, completion) => total?.saturating_sub(completion.unwrap_or(0)),
    };
    Some(Usage {
        prompt,
        completion: completion.unwrap_or(0),
        cached: cached.unwrap_or(0).min(prompt),
        estimated: false,
    })
}

/// `Some(None)` where nothing is said, `None` where it is nonsense.
#[expect(clippy::option_option, reason = "absent and nonsense are two answers")]
fn count(value: Option<Value<'_>>) -> Option<Option<u64>> {
    match value.filter(|value| !value.is_null()) {
        None => Some(None),
        Some(value) => value.as_u64().filter(|count| *count <= Usage::CEILING).map(Some),
    }
}
