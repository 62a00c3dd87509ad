//! Which model has answered, as its answer says: a provider may serve another one than was asked for, such as the dated
//! one behind an alias.

use bytes::Bytes;

use crate::json::{self, Value};
use crate::sse::Reader;

/// Letters of a name at most.
const LONGEST: usize = 128;
/// Answers that are larger are not looked through: that takes a millisecond for each megabyte.
const LARGEST: usize = 1 << 20;
/// Events of a stream that are looked at; the first names it, but with some providers behind an empty one.
const EVENTS: usize = 4;

/// The model that an answer names, a whole one or a stream's beginning; `None` where it names none.
#[must_use]
pub fn model_in(answer: &Bytes) -> Option<Box<str>> {
    if answer.len() > LARGEST {
        return None;
    }
    if answer.trim_ascii_start().starts_with(b"{") {
        return named(json::parse(answer.trim_ascii()).ok()?);
    }
    let mut reader = Reader::new();
    reader.push(answer.clone());
    for _ in 0..EVENTS {
        let event = reader.next().ok()??;
        if let Some(model) = json::parse(event.data).ok().and_then(named) {
            return Some(model);
        }
    }
    None
}

fn named(root: Value<'_>) -> Option<Box<str>> {
    // Events of the Responses API hold the answer in a field.
    let model = root.get("model").or_else(|| root.get("response")?.get("model"))?.as_str()?;
    let is_name = !model.is_empty() && base::illegible(&model).is_none();
    is_name.then(|| model.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_its_model() {
        for (answer, model) in [
            (r#" {"object":"list","data":[{"model":"inner"}],"model":"bge-m3"}"#, Some("bge-m3")),
            (
                "data: {\"model\":\"\"}\n\ndata: {\"model\":\"gpt-4o-2024-08-06\",\"choices\":[]}\n\n",
                Some("gpt-4o-2024-08-06"),
            ),
            ("event: x\ndata: {\"response\":{\"model\":\"o4\"}}\n\n", Some("o4")),
            ("data: {\"model\":\"half", None),
            ("data: [DONE]\n\n", None),
            (r#"{"model":7}"#, None),
            (r#"{"model":"a\u0007"}"#, None),
            (r#"{"choices":[]}"#, None),
            ("", None),
        ] {
            assert_eq!(model_in(&Bytes::from(answer)).as_deref(), model, "{answer}");
        }
        let long = format!(r#"{{"model":"{}"}}"#, "模".repeat(1_000));
        assert_eq!(model_in(&Bytes::from(long)).unwrap().chars().count(), LONGEST);
        let large = format!(r#"{{"model":"m","data":"{}"}}"#, " ".repeat(LARGEST));
        assert_eq!(model_in(&Bytes::from(large)), None);
    }
}
