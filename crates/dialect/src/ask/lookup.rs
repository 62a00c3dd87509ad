//! A look-up before a call: what the call would be.

use base::{Endpoint, Refusal};
use bytes::Bytes;

use super::{Ask, not_json, wrong_kind};
use crate::json::{self, Kind, Member, Patch, Value, quoted};

impl Ask {
    /// Reads what `POST /v1/cache/lookup` is asked: `query`, and beside it what the coming chat call is made of, as far as
    /// that is known. Unless a message of the user stands last already, the question becomes one.
    ///
    /// # Errors
    /// `invalid_json` or `invalid_request` that names the field.
    pub fn read_lookup(body: Bytes) -> Result<Self, Refusal> {
        let body = if body.starts_with(b"\xef\xbb\xbf") { body.slice(3..) } else { body };
        let (mut query, mut messages, mut patch) = (None, None::<Member<'_>>, Patch::new());
        let object = json::scan(&body, |member| match &*member.key {
            "query" => {
                patch.remove(&member);
                query = Some(member.value);
            }
            "messages" => messages = Some(member),
            _ => {}
        })
        .map_err(not_json)?;
        let query = read_query(query)?;
        let question = format!(r#"{{"role":"user","content":{}}}"#, quoted(&query));
        match messages.map(|messages| messages.value) {
            None if object.kind() == Kind::Object => patch.insert_into(object, "messages", &format!("[{question}]")),
            // What is no list, or no object, is refused where the call is read.
            Some(list) if list.kind() == Kind::Array && !ends_with_user(list) => {
                let all: Vec<&str> = list.elements().map(Value::raw).chain([question.as_str()]).collect();
                patch.replace(list.span(), format!("[{}]", all.join(",")));
            }
            _ => {}
        }
        let ask = Self::read(Endpoint::Chat, None, patch.apply(&body))?;
        Ok(Self { query: Some(query), ..ask })
    }
}

fn read_query(query: Option<Value<'_>>) -> Result<String, Refusal> {
    let Some(query) = query else { return Err(Refusal::field("query", "the field 'query' is missing")) };
    match query.as_str() {
        Some(text) if text.trim().is_empty() => Err(Refusal::field("query", "'query' must not be empty")),
        Some(text) => Ok(text.into_owned()),
        None if query.kind() == Kind::String => Err(Refusal::field("query", "'query' is not valid text")),
        None => Err(wrong_kind("query", "a string", query)),
    }
}

fn ends_with_user(messages: Value<'_>) -> bool {
    let role = messages.elements().last().and_then(|message| message.get("role"));
    role.and_then(Value::as_str).is_some_and(|role| role == "user")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat;

    fn read(body: &str) -> Result<Ask, Refusal> {
        Ask::read_lookup(Bytes::copy_from_slice(body.as_bytes()))
    }

    /// What decides beside the question.
    fn around(ask: &Ask) -> Vec<u8> {
        let question = chat::question(ask, ask.query.as_deref(), None, None).unwrap();
        let mut out = Vec::new();
        ask.around_question(&question, &mut |piece| out.extend_from_slice(piece)).unwrap();
        out
    }

    #[test]
    fn a_question_becomes_the_call_that_it_will_be() {
        let alone = read(r#"{"model":"chat","query":"Why?"}"#).unwrap();
        assert_eq!(alone.query.as_deref(), Some("Why?"));
        assert_eq!(alone.body, r#"{"model":"chat","messages":[{"role":"user","content":"Why?"}]}"#);
        let told =
            read(r#"{"query":"Wh\"y?","model":"chat","messages":[{"role":"system","content":"s"}],"seed":1}"#).unwrap();
        let messages = r#"[{"role":"system","content":"s"},{"role":"user","content":"Wh\"y?"}]"#;
        assert_eq!(told.body, format!(r#"{{"model":"chat","messages":{messages},"seed":1}}"#));
        assert!(read(r#"{"model":"chat","query":"Why?","messages":[],"stream":true}"#).unwrap().stream);
    }

    #[test]
    fn it_stands_among_the_same_as_the_call_with_what_was_retrieved() {
        let before =
            read(r#"{"model":"chat","query":"Why?","messages":[{"role":"system","content":"s"}],"seed":1}"#).unwrap();
        let call = r#"{"model":"chat","seed":1,"mai":{"query":"Why?"},"messages":[
            {"role":"system","content":"s"},{"role":"user","content":"Read: lorem ipsum. Why?"}]}"#;
        let call = Ask::read(Endpoint::Chat, None, Bytes::from_static(call.as_bytes())).unwrap();
        assert_eq!(around(&before), around(&call));
        let whole = read(r#"{"query":"Why?","model":"chat","seed":1,"messages":[{"role":"system","content":"s"},{"role":"user","content":"Read: Why?"}]}"#).unwrap();
        assert_eq!(around(&whole), around(&call), "also where the call is given as it will be");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, param) in [
            (r#"{"model":"chat"}"#, "query"),
            (r#"{"model":"chat","query":" "}"#, "query"),
            (r#"{"model":"chat","query":7}"#, "query"),
            (r#"{"query":"Why?"}"#, "model"),
            (r#"{"model":"chat","query":"Why?","messages":"none"}"#, "messages"),
            (r#"{"model":"chat","query":"Why?","mai":{"question":"Why?"}}"#, "mai.question"),
        ] {
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for body in ["", "[]", "7", "{"] {
            assert!(read(body).is_err(), "{body}");
        }
    }
}
