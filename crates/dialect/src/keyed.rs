//! What no key is made of, and what is given no key.

use std::fmt;

use crate::json::Unfit;

/// Fields that do not decide what is answered: who asks, what the caller notes down, and the form in
/// which the answer travels. Providers document `user`, `safety_identifier` and `prompt_cache_key` as
/// names for their own use.
pub(crate) const VOLATILE: [&str; 6] =
    ["user", "safety_identifier", "prompt_cache_key", "metadata", "stream", "stream_options"];

/// Fields of objects that say the same in any order. In all others, known or not, it may decide: of a schema
/// (`response_format`, `tools`, `guided_json`, …) a model writes the members in the order in which they stand.
const ORDERLESS: [&str; 9] = [
    "messages",
    "documents",
    "logit_bias",
    "tool_choice",
    "reasoning",
    "thinking",
    "prediction",
    "audio",
    "web_search_options",
];

/// Whether the order of members counts beneath a field of a body.
pub(crate) fn is_ordered(field: &str) -> bool {
    !ORDERLESS.contains(&field)
}

/// Why an answer to a call must not be stored, nor a stored one be given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKeyed {
    /// Nothing is known about what decides the answers of this endpoint.
    Endpoint,
    /// Vectors in a form that only caller and upstream know.
    Encoding,
    /// The inputs are read together, so that no vector has one input.
    Together,
    /// A text of which nothing is left.
    Empty,
    /// The body has no canonical form.
    Body(Unfit),
}

impl fmt::Display for NotKeyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint => f.write_str("answers of this endpoint are not stored"),
            Self::Encoding => f.write_str("the form of the vectors is not known"),
            Self::Together => f.write_str("the inputs are read together"),
            Self::Empty => f.write_str("the text is empty"),
            Self::Body(unfit) => write!(f, "the body has no canonical form: {unfit}"),
        }
    }
}

impl std::error::Error for NotKeyed {}

impl From<Unfit> for NotKeyed {
    fn from(unfit: Unfit) -> Self {
        Self::Body(unfit)
    }
}
