//! Server-sent events taken apart for assertions, by the grammar of the WHATWG HTML standard
//! (section 9.2.6), independently of the gateway's own reader.

use serde_json::Value;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field.
    pub name: Option<String>,
    /// The `data` fields, joined by line feeds.
    pub data: String,
}

impl Event {
    /// The data as JSON; null where it is not.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// What a stream held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The events.
    pub events: Vec<Event>,
    /// The comments, without their colons.
    pub comments: Vec<String>,
    /// What stands behind the last blank line; a sound stream leaves nothing.
    pub unfinished: String,
}

/// Takes a stream apart.
///
/// # Panics
/// Where it is not UTF-8.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("not UTF-8: {error}"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut parsed = Parsed::default();
    let (whole, unfinished) = text.rsplit_once("\n\n").unwrap_or(("", &text));
    parsed.unfinished = unfinished.trim_start_matches('\n').to_owned();
    for block in whole.split("\n\n") {
        let mut data: Option<String> = None;
        let mut name = None;
        for line in block.split('\n') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.starts_with(':') => parsed.comments.push(value.to_owned()),
                "data" => match &mut data {
                    None => data = Some(value.to_owned()),
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                },
                "event" => name = Some(value.to_owned()),
                _ => {}
            }
        }
        parsed.events.extend(data.map(|data| Event { name, data }));
    }
    parsed
}

impl Parsed {
    /// The JSON of every event but `[DONE]`.
    ///
    /// # Panics
    /// Where one is not JSON, as a client would.
    #[must_use]
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events.iter().filter(|event| event.data != "[DONE]");
        events
            .map(|event| serde_json::from_str(&event.data).unwrap_or_else(|_| panic!("not JSON: {}", event.data)))
            .collect()
    }

    /// The chat text of the first choice.
    #[must_use]
    pub fn said(&self) -> String {
        let chunks = self.chunks().into_iter();
        chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    }

    /// True where the last event is `[DONE]`.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.events.last().is_some_and(|event| event.data == "[DONE]")
    }

    /// Every usage object that is not null.
    #[must_use]
    pub fn usages(&self) -> Vec<Value> {
        self.chunks().iter().map(|chunk| chunk["usage"].clone()).filter(|usage| !usage.is_null()).collect()
    }

    /// The error of an `error` event.
    #[must_use]
    pub fn error(&self) -> Option<Value> {
        self.chunks().iter().map(|chunk| chunk["error"].clone()).find(|error| !error.is_null())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_comments_and_line_ends_are_read_by_the_grammar() {
        let parsed = parse(b"\xef\xbb\xbf: ping\r\n\r\ndata:{\"a\":\r\ndata: 1}\r\n\r\nevent: x\rdata: y\r\r:\n\ndata: [DONE]\n\ndata: cut");
        let event = |name: Option<&str>, data: &str| Event { name: name.map(str::to_owned), data: data.to_owned() };
        assert_eq!(parsed.events, [event(None, "{\"a\":\n1}"), event(Some("x"), "y"), event(None, "[DONE]")]);
        assert_eq!(parsed.comments, ["ping", ""]);
        assert_eq!(parsed.unfinished, "data: cut");
        assert!(parsed.is_done());
        assert_eq!(parse(b"").events, []);
    }
}
