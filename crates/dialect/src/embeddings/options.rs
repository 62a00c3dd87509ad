//! The options beside OpenAI's that embedding providers share under different names.

use std::borrow::Cow;

use base::Refusal;

use crate::json::{self, Value};
use crate::rerank::Truncate;

/// What the vectors are for: `input_type` or `task` in the caller's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    /// A question that is searched with.
    Query,
    /// A text that is searched for.
    Document,
    /// Features of a classifier.
    Classification,
    /// Grouping.
    Clustering,
    /// A word that only the provider knows.
    Other(Cow<'a, str>),
}

/// The options of a body, whatever provider's names the caller used.
#[derive(Clone, Debug)]
pub(crate) struct Options<'a> {
    /// What for, where said.
    pub purpose: Option<Purpose<'a>>,
    /// What becomes of too long a text, where said.
    pub truncate: Option<Truncate>,
    root: Value<'a>,
}

impl<'a> Options<'a> {
    /// Reads a caller's body.
    ///
    /// # Errors
    /// `invalid_request` that names the field.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        let root = json::parse(body).map_err(|error| Refusal::new(base::Code::InvalidJson, error.to_string()))?;
        let mut options = Self { purpose: None, truncate: None, root };
        for name in ["input_type", "task"] {
            let Some(value) = options.get(name) else { continue };
            let word = value.as_str().ok_or_else(|| Refusal::field(name, format!("'{name}' must be a text")))?;
            options.purpose = Some(Purpose::of(word));
            break;
        }
        for name in ["truncate", "truncation"] {
            let Some(value) = options.get(name) else { continue };
            options.truncate = Some(Truncate::read(name, value, options.get("truncation_direction"))?);
            break;
        }
        Ok(options)
    }

    /// Any member of the body, unless null.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        self.root.get(name).filter(|value| !value.is_null())
    }

    /// Its text as written.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.get(name).map(Value::raw)
    }
}

impl<'a> Purpose<'a> {
    fn of(word: Cow<'a, str>) -> Self {
        match &*word {
            "query" | "search_query" | "retrieval.query" => Self::Query,
            "document" | "passage" | "search_document" | "retrieval.passage" => Self::Document,
            "classification" => Self::Classification,
            "clustering" | "separation" => Self::Clustering,
            _ => Self::Other(word),
        }
    }
}
