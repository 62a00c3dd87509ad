//! An upstream's error body, whatever its shape.

use std::borrow::Cow;
use std::time::Duration;

use super::{clean, wait};
use crate::json::{self, Kind, Value};

/// What an error body says. Texts are cut to [`super::TOLD_MAX`], names to 256 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The message; the raw text where the body is none of the known shapes.
    pub message: Option<String>,
    /// `type`
    pub kind: Option<String>,
    /// `param`
    pub param: Option<String>,
    /// `code`, numbers as text.
    pub code: Option<String>,
    /// Lower case: everything that is searched for words.
    words: String,
    /// `google.rpc.RetryInfo`
    retry_after: Option<Duration>,
}

/// Wordings of a prompt that does not fit, lower case: OpenAI, vLLM, SGLang, llama.cpp, TEI,
/// Moonshot, DashScope, Gemini, Anthropic, Cohere, Ollama, Mistral.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "model's context length",
    "maximum model length",
    "maximum allowed length",
    "exceeds the model's maximum",
    "exceeds the maximum length",
    "exceeds the available context",
    "exceed context window",
    "exceeds the context",
    "exceeds context",
    "context window",
    "exceeded model token limit",
    "input token length too long",
    "input is too long",
    "input length exceeds",
    "range of input length should be",
    "input token count",
    "is longer than the model",
    "must have less than",
    "prompt is too long",
    "prompt too long",
    "too many tokens",
    "too large for model with",
];

/// Codes, types and wordings of an answer refused for its content.
const CONTENT: &[&str] = &[
    "content_filter",
    "content_policy",
    "content policy",
    "content management policy",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "datainspectionfailed",
    "safety_violation",
    "flagged",
];

impl Said {
    /// Reads a body.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        match json::parse(body.trim_ascii()) {
            Ok(value) => Self::of(value),
            Err(_) => Self::raw(&String::from_utf8_lossy(body)),
        }
    }

    /// Reads a body that is JSON.
    #[must_use]
    pub fn of(body: Value<'_>) -> Self {
        // Gemini's stream route wraps its error object into an array of one.
        let body = if body.kind() == Kind::Array { body.elements().next().unwrap_or(body) } else { body };
        let error = error_in(body);
        let inner = error.unwrap_or(body);
        if inner.kind() != Kind::Object {
            let kind = name(body.get("type")).or_else(|| name(body.get("error_type")));
            return Self { code: name(body.get("code")), kind, ..Self::raw(&flat(inner)) };
        }
        let message = ["message", "error", "detail", "error_msg", "msg", "description"]
            .iter()
            .find_map(|key| inner.get(key).map(flat).filter(|text| !text.is_empty()))
            .or_else(|| ["message", "detail", "error_msg"].iter().find_map(|key| body.get(key).map(flat)));
        let field = |key: &str| name(inner.get(key)).or_else(|| name(body.get(key)));
        let mut said = Self {
            kind: field("type").or_else(|| field("error_type")).or_else(|| field("status")),
            param: field("param"),
            code: field("code"),
            retry_after: inner.get("details").and_then(retry_info),
            ..Self::raw(message.as_deref().unwrap_or_else(|| inner.raw()))
        };
        for extra in [said.kind.as_deref(), said.code.as_deref()].into_iter().flatten() {
            push_words(&mut said.words, extra);
        }
        // OpenRouter keeps the provider's own words apart, Azure its reason.
        for (outer, key) in [("metadata", "raw"), ("innererror", "code")] {
            if let Some(text) = inner.get(outer).and_then(|value| value.get(key)) {
                push_words(&mut said.words, &flat(text));
            }
        }
        said
    }

    fn raw(text: &str) -> Self {
        let text = clean::visible(text);
        let mut words = String::new();
        push_words(&mut words, &text);
        Self { message: (!text.is_empty()).then_some(text), words, ..Self::default() }
    }

    /// One line for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        let message = self.message.as_deref().unwrap_or("no reason given");
        let line = match &self.code {
            Some(code) => format!("{message} ({code})"),
            None => message.to_owned(),
        };
        clean::cut(&line, 512).to_owned()
    }

    /// The HTTP status that an error object inside a success speaks of.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let number = |text: &str| text.parse::<u16>().ok().filter(|status| (400..600).contains(status));
        if let Some(status) = self.code.as_deref().and_then(number).or(self.kind.as_deref().and_then(number)) {
            return Some(status);
        }
        let names = [self.kind.as_deref(), self.code.as_deref()];
        names.into_iter().flatten().find_map(|name| match name.to_ascii_lowercase().as_str() {
            "invalid_request_error" | "badrequesterror" | "badrequest" | "invalid_request" | "invalid_argument" => {
                Some(400)
            }
            "authentication_error" | "authenticationerror" | "invalid_api_key" | "unauthenticated" => Some(401),
            "insufficient_quota" | "exceeded_current_quota_error" => Some(402),
            "permission_error" | "permission_denied" => Some(403),
            "not_found_error" | "notfounderror" | "model_not_found" => Some(404),
            "rate_limit_error"
            | "ratelimiterror"
            | "rate_limit_exceeded"
            | "rate_limit_reached_error"
            | "resource_exhausted"
            | "toomanyrequests" => Some(429),
            "overloaded_error" | "engine_overloaded_error" => Some(529),
            _ => None,
        })
    }

    /// How long the body asks to wait.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// True for a prompt that does not fit, however worded.
    #[must_use]
    pub fn is_context_overflow(&self) -> bool {
        self.says(OVERFLOW)
    }

    /// True where code or type is one of these, whatever the case.
    #[must_use]
    pub fn code_is(&self, known: &[&str]) -> bool {
        let names = [self.code.as_deref(), self.kind.as_deref()];
        names.into_iter().flatten().any(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
    }

    /// True where the content of prompt or answer was refused.
    #[must_use]
    pub fn is_content_refusal(&self) -> bool {
        self.says(CONTENT) || self.code_is(&["1301"])
    }

    /// True where quota or billing is the reason, not the rate.
    #[must_use]
    pub fn is_about_money(&self) -> bool {
        const MONEY: &[&str] = &[
            "insufficient_quota",
            "insufficient quota",
            "exceeded_current_quota",
            "exceeded your current quota",
            "arrearage",
            "accountoverdue",
            "overdue",
            "billing",
            "insufficient credit",
            "insufficient_credit",
        ];
        const RATE: &[&str] =
            &["rate_limit_exceeded", "rate_limit_reached_error", "rate_limit_error", "requests", "tokens"];
        self.says(MONEY)
            || self.code_is(&["1113"])
            || self.words.replace("balancer", "").replace("balanced", "").contains("balance")
            || (self.says(&["quota"]) && !self.code_is(RATE))
    }

    /// True where a 400 is about the gateway's own key (Gemini) or its unpaid account (DashScope).
    #[must_use]
    pub fn is_about_the_key(&self) -> bool {
        self.code_is(&["invalid_api_key", "api_key_invalid", "arrearage", "insufficient_quota", "accountoverdueerror"])
            || self.says(&["api key not valid", "incorrect api key provided"])
    }

    fn says(&self, known: &[&str]) -> bool {
        known.iter().any(|words| self.words.contains(words))
    }
}

/// The error inside a body: `error` (object or string), Cohere's `data.error`.
fn error_in(body: Value<'_>) -> Option<Value<'_>> {
    let found = |value: Value<'_>| matches!(value.kind(), Kind::Object | Kind::String) && !value.is_empty();
    body.get("error").filter(|value| found(*value)).or_else(|| {
        let data = body.get("data").filter(|data| data.kind() == Kind::Object)?;
        data.get("error").filter(|value| found(*value))
    })
}

/// A text, or the first text inside an object or array of messages.
fn flat(value: Value<'_>) -> String {
    /// Deeper than this nobody hides a message.
    const LEVELS: usize = 4;
    fn inner<'a>(value: Value<'a>, levels: usize) -> Option<Cow<'a, str>> {
        match value.kind() {
            Kind::String => value.as_str_lossy(),
            Kind::Null => None,
            Kind::Bool | Kind::Number => Some(Cow::Borrowed(value.raw())),
            _ if levels == 0 => Some(Cow::Borrowed(value.raw())),
            Kind::Array => value.elements().find_map(|element| inner(element, levels - 1)),
            Kind::Object => {
                let text = ["message", "msg", "detail", "reason", "error"]
                    .iter()
                    .find_map(|key| value.get(key).and_then(|text| inner(text, levels - 1)));
                let place = value.get("loc").filter(|place| place.kind() == Kind::Array).map(|place| {
                    let parts = place.elements().filter_map(|part| inner(part, 0));
                    parts.collect::<Vec<_>>().join(".")
                });
                match (place, text) {
                    (Some(place), Some(text)) => Some(Cow::Owned(format!("{place}: {text}"))),
                    (None, Some(text)) => Some(text),
                    _ => Some(Cow::Borrowed(value.raw())),
                }
            }
        }
    }
    inner(value, LEVELS).map(Cow::into_owned).unwrap_or_default()
}

/// A short name: a string, or a number as text.
fn name(value: Option<Value<'_>>) -> Option<String> {
    let value = value?;
    let text = match value.kind() {
        Kind::String => value.as_str_lossy()?,
        Kind::Number => Cow::Borrowed(value.raw()),
        _ => return None,
    };
    let text = clean::visible(&text);
    (!text.is_empty()).then(|| clean::cut(&text, 256).to_owned())
}

/// `details[].retryDelay`, e.g. `"38s"`.
fn retry_info(details: Value<'_>) -> Option<Duration> {
    let delay = details.elements().find_map(|detail| detail.get("retryDelay"))?;
    wait::duration(&delay.as_str()?)
}

/// Lower case, without links: what an upstream's advice links to is not what it says.
fn push_words(words: &mut String, text: &str) {
    for word in text.split_whitespace().filter(|word| !word.contains("://")) {
        words.push_str(&word.to_lowercase());
        words.push(' ');
    }
}
