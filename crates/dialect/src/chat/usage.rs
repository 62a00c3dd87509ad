//! What an upstream says a call consumed.

use base::Usage;

use crate::json::{Kind, Member, Value};

/// Reads a usage object, by OpenAI's names and those of its variants: `prompt_tokens` or
/// `input_tokens`, `completion_tokens` or `output_tokens`; the cached part in
/// `prompt_tokens_details`, `input_tokens_details`, as `cached_tokens` (Moonshot) or
/// `prompt_cache_hit_tokens` (DeepSeek). What `total_tokens` has beyond both was written too: xAI counts
/// reasoning apart from `completion_tokens` and within the total (docs.x.ai, Reasoning), as Google's
/// compatible endpoint does. `None` for anything that is nonsense: negative, not a
/// whole number, more than [`Usage::CEILING`], or without any count.
#[must_use]
pub fn read(usage: Value<'_>) -> Option<Usage> {
    let mut counts = Counts::default();
    usage.members().for_each(|member| counts.take(&member));
    counts.usage(usage)
}

/// Whether a usage object says anything of what was written: a count of it, or a total.
pub(super) fn tells_written(usage: Value<'_>) -> bool {
    usage.members().any(|member| {
        let is_it = matches!(&*member.key, "completion_tokens" | "output_tokens" | "total_tokens");
        is_it && !member.value.is_null()
    })
}

/// What a usage object's members say, taken one by one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    is_nonsense: bool,
}

impl Counts {
    /// Reads one member.
    pub(super) fn take(&mut self, member: &Member<'_>) {
        if member.value.is_null() {
            return;
        }
        let field = match &*member.key {
            "prompt_tokens" | "input_tokens" => &mut self.prompt,
            "completion_tokens" | "output_tokens" => &mut self.completion,
            "total_tokens" => &mut self.total,
            "prompt_tokens_details" | "input_tokens_details" => {
                self.cached = count(member.value.get("cached_tokens")).flatten().or(self.cached);
                return;
            }
            "prompt_cache_hit_tokens" | "cached_tokens" => {
                self.cached = self.cached.or(count(Some(member.value)).flatten());
                return;
            }
            _ => return,
        };
        match count(Some(member.value)).flatten() {
            Some(count) => *field = Some(count),
            None => self.is_nonsense = true,
        }
    }

    /// What they come to, if it was `whole` whose members they are.
    pub(super) fn usage(self, whole: Value<'_>) -> Option<Usage> {
        if whole.kind() != Kind::Object || self.is_nonsense {
            return None;
        }
        let prompt = match (self.prompt, self.completion) {
            (Some(prompt), _) => prompt,
            (None, completion) => self.total?.saturating_sub(completion.unwrap_or(0)),
        };
        // What was thought is not in `completion_tokens` of some (xAI, Gemini), only in the total.
        let rest = self.total.unwrap_or(0).saturating_sub(prompt);
        Some(Usage {
            prompt,
            completion: self.completion.unwrap_or(0).max(rest),
            cached: self.cached.unwrap_or(0).min(prompt),
            units: 0,
            estimated: false,
        })
    }
}

/// `Some(None)` where nothing is said, `None` where it is nonsense.
#[expect(clippy::option_option, reason = "absent and nonsense are two answers")]
fn count(value: Option<Value<'_>>) -> Option<Option<u64>> {
    match value.filter(|value| !value.is_null()) {
        None => Some(None),
        Some(value) => value.as_u64().filter(|count| *count <= Usage::CEILING).map(Some),
    }
}
