//! Paths, queries and bodies as handlers take them: whatever is wrong with one becomes an [`Error`] that names the field.
//!
//! They are named as axum's own, so that utoipa finds them among a handler's arguments and documents them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use percent_encoding::percent_decode_str;
use serde::de::value::{Error as ValueError, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::error::Error;

/// Bytes of a body at most.
pub const LARGEST: usize = 1 << 20;
/// A body that is not here by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What stands in the path, its percent-encoding undone: also names with slashes, and Chinese ones.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let wrong = |_| Error::whole("the path says no name: it must be UTF-8 once its percent-encoding is undone");
        found.map(|axum::extract::Path(found)| Self(found)).map_err(wrong)
    }
}

/// The query. Give its struct `#[serde(deny_unknown_fields)]`.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let pairs = parameters(parts.uri.query().unwrap_or_default())?;
        let words = pairs.into_iter().map(|(name, value)| (name, Word(value)));
        serde_path_to_error::deserialize(MapDeserializer::<_, ValueError>::new(words))
            .map(Self)
            .map_err(|error| wrong("parameter", &error.path().to_string(), &error.inner().to_string()))
    }
}

/// A JSON object as body, whatever `content-type` says of it; none at all is an empty one. Give its struct
/// `#[serde(deny_unknown_fields)]`.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        object(&whole(request.into_body(), LARGEST).await?).map(Self)
    }
}

/// A body of that many bytes at most.
///
/// # Errors
/// 413, 408, and 400 where it breaks off.
pub async fn whole(body: Body, most: usize) -> Result<Bytes, Error> {
    let reading = tokio::time::timeout(PATIENCE, axum::body::to_bytes(body, most));
    let is_too_large =
        |error: &axum::Error| error.source().is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
    match reading.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => Err(Error::BodyTooLarge(most)),
        Ok(Err(_)) => Err(Error::whole("the body broke off")),
        Err(_) => Err(Error::BodyTimeout),
    }
}

/// What a JSON object says.
fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Error::whole("the body must be a JSON object"));
    }
    json::<Keys>(body)?;
    json(body)
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    let mut text = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut text).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        let told = error.to_string();
        if !error.is_data() {
            return Error::whole(format!("the body is no JSON: {told}"));
        }
        let at = format!(" at line {} column {}", error.line(), error.column());
        wrong("field", &path, told.strip_suffix(&at).unwrap_or(&told))
    })?;
    text.end().map_err(|error| Error::whole(format!("the body is no JSON object alone: {error}")))?;
    Ok(read)
}

/// What serde says of a field, in words of ours.
fn wrong(what: &str, path: &str, told: &str) -> Error {
    let path = if path == "." { "" } else { path };
    let quoted =
        |of: &str| told.strip_prefix(of).and_then(|rest| rest.split_once('`')).map(|(name, _)| name.to_owned());
    if let Some((name, known)) = told.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "))
    {
        // The hint names what there is, and what was probably meant.
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        // Before a name that was just read, a reader of paths has it as its last part already.
        let above = path.strip_suffix(name).map_or(path, |above| above.trim_end_matches('.'));
        let param = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        return Error::of(param, unknown(what, name, &known));
    }
    if let Some(name) = told.strip_prefix("unknown field `").map(|rest| rest.trim_end_matches("`, there are no fields"))
    {
        return Error::of(name, unknown(what, name, &[]));
    }
    if let Some(name) = quoted("missing field `") {
        let param = if path.is_empty() { name } else { format!("{path}.{name}") };
        return Error::of(&param, format!("the {what} `{param}` is missing"));
    }
    if let Some(name) = quoted("duplicate field `") {
        let param = if path.is_empty() || path.ends_with(&name) { name } else { format!("{path}.{name}") };
        return Error::of(&param, format!("`{param}` is written twice"));
    }
    match path {
        "" => Error::whole(told),
        path => Error::of(path, format!("`{path}`: {told}")),
    }
}

/// That there is no such field or parameter, and what there is.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    match all.split_last() {
        None => format!("there is no {what} `{name}`; there is none here"),
        Some((last, [])) => format!("there is no {what} `{name}`; write {last}"),
        Some((last, before)) => format!("there is no {what} `{name}`; write {} or {last}", before.join(", ")),
    }
}

/// The parameters of a query as forms write it (WHATWG URL, application/x-www-form-urlencoded).
///
/// # Errors
/// 400 for what is not UTF-8, and for a parameter that is written twice.
pub(crate) fn parameters(query: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] = [name, value].map(|part| part.replace('+', " "));
        let Ok(name) = percent_decode_str(&name).decode_utf8() else {
            return Err(Error::of(&name, format!("the name of the parameter `{name}` is not UTF-8")));
        };
        let Ok(value) = percent_decode_str(&value).decode_utf8() else {
            return Err(Error::of(name.clone(), format!("`{name}` is `{value}`, which is not UTF-8")));
        };
        if parameters.insert(name.clone().into_owned(), value.into_owned()).is_some() {
            return Err(Error::of(name.clone(), format!("`{name}` is written twice")));
        }
    }
    Ok(parameters)
}

/// A parameter's value: text, from which numbers and truths are read.
struct Word(String);

impl Word {
    fn read<T: std::str::FromStr>(&self, what: &str) -> Result<T, ValueError> {
        self.0.parse().map_err(|_| ValueError::custom(format!("is `{}`, but must be {what}", self.0)))
    }
}

impl<'de> IntoDeserializer<'de, ValueError> for Word {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! read {
    ($($method:ident => $visit:ident, $what:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            visitor.$visit(self.read($what)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Word {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    read! {
        deserialize_bool => visit_bool, "`true` or `false`";
        deserialize_u8 => visit_u8, "a whole number of at most 255";
        deserialize_u16 => visit_u16, "a whole number of at most 65535";
        deserialize_u32 => visit_u32, "a whole number";
        deserialize_u64 => visit_u64, "a whole number";
        deserialize_i64 => visit_i64, "a whole number";
        deserialize_f64 => visit_f64, "a number";
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// Looks a JSON value through for fields that are written twice: readers would disagree about which one counts.
struct Keys;

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_str<E>(self, _: &str) -> Result<Keys, E> {
                Ok(Keys)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
                while list.next_element::<Keys>()?.is_some() {}
                Ok(Keys)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if seen.contains(&key) {
                        return Err(A::Error::custom(format!("duplicate field `{key}`")));
                    }
                    seen.insert(key);
                    map.next_value::<Keys>()?;
                }
                Ok(Keys)
            }
        }
        value.deserialize_any(Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        limit: Option<u16>,
        dry_run: Option<bool>,
        #[serde(default)]
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        name: String,
    }

    async fn query(written: &str) -> Result<Asked, Error> {
        let request = Request::builder().uri(format!("/?{written}")).body(()).unwrap();
        Query::from_request_parts(&mut request.into_parts().0, &()).await.map(|Query(asked)| asked)
    }

    fn told(error: Error) -> (String, String) {
        let Error::Invalid { param, message } = error else { panic!("{error:?}") };
        (param.unwrap_or_default(), message)
    }

    #[tokio::test]
    async fn a_query_is_read_by_form_and_its_mistakes_name_the_parameter() {
        let asked = Asked { limit: Some(5), dry_run: Some(true), inner: None };
        assert_eq!(query("limit=5&dry_run=true").await.unwrap(), asked);
        for (written, param, message) in [
            ("limt=5", "limt", "there is no parameter `limt`; write `limit`, `dry_run` or `inner`"),
            ("limit=many", "limit", "`limit`: is `many`, but must be a whole number of at most 65535"),
            ("limit=1&limit=2", "limit", "`limit` is written twice"),
            ("dry_run=yes", "dry_run", "`dry_run`: is `yes`, but must be `true` or `false`"),
        ] {
            assert_eq!(told(query(written).await.unwrap_err()), (param.to_owned(), message.to_owned()));
        }
    }

    #[test]
    fn a_body_is_a_json_object_and_its_mistakes_name_the_field() {
        assert_eq!(object::<Asked>(b" ").unwrap(), Asked { limit: None, dry_run: None, inner: None });
        for (body, param, message) in [
            (r#"{"limt": 5}"#, "limt", "there is no field `limt`; write `limit`, `dry_run` or `inner`"),
            (r#"{"inner": {"nam": 5}}"#, "inner.nam", "there is no field `nam`; write `name`"),
            (r#"{"inner": {}}"#, "inner.name", "the field `inner.name` is missing"),
            (r#"{"limit": "5"}"#, "limit", "`limit`: invalid type: string \"5\", expected u16"),
            (r#"{"limit": 5, "limit": 6}"#, "limit", "`limit` is written twice"),
            (r#"{"inner": {"name": "a", "name": "b"}}"#, "inner.name", "`inner.name` is written twice"),
            ("[5]", "", "the body must be a JSON object"),
            ("{\"limit\": 5} {}", "", "the body is no JSON object alone: trailing characters at line 1 column 14"),
            ("{\"limit\"", "", "the body is no JSON: EOF while parsing an object at line 1 column 8"),
        ] {
            assert_eq!(told(object::<Asked>(body.as_bytes()).unwrap_err()), (param.to_owned(), message.to_owned()));
        }
    }

    #[test]
    fn parameters_are_read_as_forms_write_them() {
        let read = parameters("client=%E9%97%AE+%2B1&group_by=client%2Cday&&from").unwrap();
        let seen: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(seen, [("client", "问 +1"), ("from", ""), ("group_by", "client,day")]);
        for (query, param, message) in [
            ("client=%FF", "client", "`client` is `%FF`, which is not UTF-8"),
            ("%FF=1", "%FF", "the name of the parameter `%FF` is not UTF-8"),
            ("to=2026-11-30&client=a&client=b", "client", "`client` is written twice"),
        ] {
            assert_eq!(told(parameters(query).unwrap_err()), (param.to_owned(), message.to_owned()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_have_so_many_bytes_and_must_come_in_time() {
        assert_eq!(whole(Body::from("12345"), 5).await.unwrap(), "12345");
        assert_eq!(whole(Body::from("123456"), 5).await.unwrap_err(), Error::BodyTooLarge(5));
        let never = Body::new(Never);
        assert_eq!(whole(never, 5).await.unwrap_err(), Error::BodyTimeout);
    }

    /// A body of which nothing ever comes.
    struct Never;

    impl http_body::Body for Never {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
            std::task::Poll::Pending
        }
    }
}
