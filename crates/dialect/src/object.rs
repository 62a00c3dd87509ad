//! Writes one JSON object, member by member, for requests and answers that are made anew.

use bytes::Bytes;

use crate::json;

/// An object under construction. What is put in as JSON is taken at its word.
#[derive(Debug)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    /// An empty object with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut text = Vec::with_capacity(bytes + 2);
        text.push(b'{');
        Self(text)
    }

    /// Writes a name and gives the buffer that its value is to be written to.
    pub(crate) fn key(&mut self, key: &'static str) -> &mut Vec<u8> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        json::push_quoted(&mut self.0, key);
        self.0.push(b':');
        &mut self.0
    }

    /// A member whose value is JSON already.
    pub(crate) fn json(&mut self, key: &'static str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    /// The same where there is a value.
    pub(crate) fn json_if(&mut self, key: &'static str, json: Option<&str>) {
        if let Some(json) = json {
            self.json(key, json);
        }
    }

    /// A text.
    pub(crate) fn text(&mut self, key: &'static str, text: &str) {
        json::push_quoted(self.key(key), text);
    }

    /// A whole number.
    pub(crate) fn number(&mut self, key: &'static str, number: u64) {
        let out = self.key(key);
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// The same where there is one.
    pub(crate) fn number_if(&mut self, key: &'static str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(key, number);
        }
    }

    /// The whole object.
    pub(crate) fn close(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// The whole object as a body.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from(self.close())
    }
}
