//! The embeddings endpoint: what a caller asks for, and how an answer is judged and given back in
//! exactly the encoding that was asked for.
//!
//! Both bodies are large (400 KB of texts, 400 KB of numbers) and mostly of no concern to a
//! gateway, so both are read by leaping through them. The answer of an upstream that already speaks
//! the caller's encoding goes back untouched, to the byte.

mod answer;
mod batch;
mod inputs;
mod options;
mod request;
mod stored;
mod vectors;
mod walk;

use base::Refusal;

use crate::ask::Fields;
use crate::json::{Kind, Span, Value};

pub use answer::{Counted, like_openai};
pub(crate) use answer::{Made, Shape, from_lists};
pub use batch::{join, merge, split, subset};
pub use inputs::{Input, Spelling, deciding, inputs, joint_call, normalized};
pub(crate) use options::{Options, Purpose};
pub use request::encode_openai;
pub(crate) use request::{known_encoding, text_array, text_input, usage_or_estimate};
pub use stored::{Vectors, answer, answer_spelled, piece, share_out, shares, spell, vectors};

/// Top-level fields that the view reads.
pub const FIELDS: &[&str] = &["input", "dimensions", "encoding_format"];

/// The form of the vectors that the caller asked for (`encoding_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON numbers: asked for, or nothing said.
    #[default]
    Float,
    /// Base64 of little-endian `f32`. OpenAI's own clients ask for it unless told otherwise.
    Base64,
    /// Anything else: for the upstream to understand, its answer passes unconverted.
    Other,
}

/// What kind of inputs a request carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// One text.
    #[default]
    Text,
    /// An array of texts.
    Texts,
    /// An array of token ids: one input.
    Ids,
    /// An array of arrays of token ids.
    IdArrays,
}

impl Form {
    /// Whether the inputs are token ids.
    #[must_use]
    pub const fn is_ids(self) -> bool {
        matches!(self, Self::Ids | Self::IdArrays)
    }

    /// Whether there may be more than one input.
    #[must_use]
    pub const fn is_several(self) -> bool {
        matches!(self, Self::Texts | Self::IdArrays)
    }
}

/// What is known of an embeddings request.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How many vectors are asked for, at least 1.
    pub inputs: usize,
    /// What `input` consists of.
    pub form: Form,
    /// The form of the vectors in the answer.
    pub encoding: Encoding,
    /// `dimensions`, where given.
    pub dimensions: Option<usize>,
    /// Where the value of `input` stands in the body.
    pub input: Span,
}

impl View {
    /// Reads the fields of a body.
    ///
    /// # Errors
    /// `invalid_request` that names `input` or `dimensions`.
    pub fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let encoding = match fields.get("encoding_format").map(Value::as_str) {
            None => Encoding::Float,
            Some(Some(name)) if name == "float" => Encoding::Float,
            Some(Some(name)) if name == "base64" => Encoding::Base64,
            Some(_) => Encoding::Other,
        };
        let dimensions = fields.get("dimensions").map(read_dimensions).transpose()?;
        let input = fields.required("input")?;
        let (form, inputs) = measure(input).map_err(|why| Refusal::field("input", why))?;
        Ok(Self { inputs, form, encoding, dimensions, input: input.span() })
    }
}

fn read_dimensions(value: Value<'_>) -> Result<usize, Refusal> {
    value
        .as_u64()
        .and_then(|dimensions| usize::try_from(dimensions).ok())
        .filter(|dimensions| (1..=vectors::MAX_DIMENSION).contains(dimensions))
        .ok_or_else(|| Refusal::field("dimensions", "'dimensions' must be a whole number of at least 1"))
}

/// Tells the form of `input` and counts the vectors that it asks for.
fn measure(input: Value<'_>) -> Result<(Form, usize), &'static str> {
    const MIXED: &str = "'input' must be a text, an array of texts, an array of token ids or an array of such arrays, \
                         not a mixture";
    const EMPTY: &str = "'input' must not be empty, nor hold an empty array";
    match input.kind() {
        Kind::String => return Ok((Form::Text, 1)),
        Kind::Array => {}
        _ => return Err(MIXED),
    }
    let (mut first, mut count) = (None, 0_usize);
    for element in input.elements() {
        let form = match element.kind() {
            Kind::String => Form::Texts,
            Kind::Number if is_id(element) => Form::Ids,
            Kind::Array if element.is_empty() => return Err(EMPTY),
            Kind::Array if element.elements().all(is_id) => Form::IdArrays,
            _ => return Err(MIXED),
        };
        if *first.get_or_insert(form) != form {
            return Err(MIXED);
        }
        count += 1;
    }
    match first {
        None => Err(EMPTY),
        Some(Form::Ids) => Ok((Form::Ids, 1)),
        Some(form) => Ok((form, count)),
    }
}

/// Whether a value is written as a token id is. Whether a vocabulary has it is another question.
fn is_id(value: Value<'_>) -> bool {
    value.as_u64().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Endpoint;

    fn read(body: &str) -> Result<View, Refusal> {
        View::read(&Fields::read(Endpoint::Embeddings, body.as_bytes())?)
    }

    #[test]
    fn every_form_of_input_is_counted() {
        for (input, form, count) in [
            (r#""abc""#, Form::Text, 1),
            (r#""""#, Form::Text, 1),
            (r#"["abc"]"#, Form::Texts, 1),
            (r#"["a",""]"#, Form::Texts, 2),
            ("[101,202,303]", Form::Ids, 1),
            ("[ [101,202] , [303] ]", Form::IdArrays, 2),
            (r#"["]\"[", "\\"]"#, Form::Texts, 2),
        ] {
            let body = format!(r#"{{"model":"e","input":{input}}}"#);
            let view = read(&body).unwrap();
            assert_eq!((view.form, view.inputs), (form, count), "{input}");
            assert_eq!(body.get(view.input.range()), Some(input));
        }
        let many = format!(r#"{{"input":["{}"]}}"#, vec!["x"; 2049].join("\",\""));
        assert_eq!(read(&many).unwrap().inputs, 2049);
    }

    #[test]
    fn what_is_no_input_is_refused_by_name() {
        for input in [
            "[]",
            "[[]]",
            "[[1],[]]",
            r#"["a",5]"#,
            r#"[5,"a"]"#,
            r#"[[1],"a"]"#,
            r#"[["a"]]"#,
            "[1.5]",
            "[-1]",
            "5",
            "null",
            "{}",
            "true",
            "[null]",
            r#"[{"text":"a"}]"#,
            "[[1,[2]]]",
        ] {
            let refusal = read(&format!(r#"{{"model":"e","input":{input}}}"#)).unwrap_err();
            assert_eq!(refusal.param.as_deref(), Some("input"), "{input}");
        }
        assert_eq!(read("{}").unwrap_err().param.as_deref(), Some("input"));
        assert!(read(r#"{"input":"a","input":"b"}"#).is_err());
    }

    #[test]
    fn the_encoding_asked_for_is_known() {
        for (field, encoding) in [
            ("", Encoding::Float),
            (r#","encoding_format":null"#, Encoding::Float),
            (r#","encoding_format":"float""#, Encoding::Float),
            (r#","encoding_format":"base64""#, Encoding::Base64),
            (r#","encoding_format":"int8""#, Encoding::Other),
            (r#","encoding_format":5"#, Encoding::Other),
        ] {
            assert_eq!(read(&format!(r#"{{"input":"a"{field}}}"#)).unwrap().encoding, encoding, "{field}");
        }
    }

    #[test]
    fn dimensions_are_a_whole_number_or_absent() {
        assert_eq!(read(r#"{"input":"a","dimensions":256}"#).unwrap().dimensions, Some(256));
        assert_eq!(read(r#"{"input":"a","dimensions":null}"#).unwrap().dimensions, None);
        for wrong in ["0", "-1", "1.5", "\"256\"", "[]", "99999999999"] {
            let refusal = read(&format!(r#"{{"input":"a","dimensions":{wrong}}}"#)).unwrap_err();
            assert_eq!(refusal.param.as_deref(), Some("dimensions"), "{wrong}");
        }
    }
}
