//! Requests that read like sentences: `chat("rag-chat").user("Hi").stream().key("K1")`.

use bytes::Bytes;
use serde_json::{Value, json};

/// A request under construction.
#[derive(Clone, Debug)]
pub struct Ask {
    method: &'static str,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    json: Value,
    /// A body that is not the JSON above.
    raw: Option<Bytes>,
}

fn post(path: &str, json: Value) -> Ask {
    let headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
    Ask { method: "POST", path: path.to_owned(), headers, json, raw: None }
}

/// `POST /v1/chat/completions` with an empty conversation.
#[must_use]
pub fn chat(model: &str) -> Ask {
    post("/v1/chat/completions", json!({"model": model, "messages": []}))
}

/// `POST /v1/embeddings` of this input.
#[must_use]
pub fn embeddings(model: &str, input: impl Into<Value>) -> Ask {
    post("/v1/embeddings", json!({"model": model, "input": input.into()}))
}

/// `POST /v1/rerank` of these documents.
#[must_use]
pub fn rerank<D: Into<Value>>(model: &str, query: &str, documents: impl IntoIterator<Item = D>) -> Ask {
    let documents: Vec<Value> = documents.into_iter().map(Into::into).collect();
    post("/v1/rerank", json!({"model": model, "query": query, "documents": documents}))
}

/// `GET PATH`.
#[must_use]
pub fn get(path: &str) -> Ask {
    Ask { method: "GET", path: path.to_owned(), headers: Vec::new(), json: Value::Null, raw: Some(Bytes::new()) }
}

impl Ask {
    /// Adds a user's message.
    #[must_use]
    pub fn user(self, text: &str) -> Self {
        self.message(json!({"role": "user", "content": text}))
    }

    /// Adds a system message.
    #[must_use]
    pub fn system(self, text: &str) -> Self {
        self.message(json!({"role": "system", "content": text}))
    }

    /// Adds a message.
    ///
    /// # Panics
    /// Where the request has no messages.
    #[must_use]
    pub fn message(mut self, message: Value) -> Self {
        self.json["messages"].as_array_mut().expect("a request with messages").push(message);
        self
    }

    /// Asks for a stream.
    #[must_use]
    pub fn stream(self) -> Self {
        self.with("stream", true)
    }

    /// Asks for usage at the stream's end.
    #[must_use]
    pub fn usage(self) -> Self {
        self.with("stream_options", json!({"include_usage": true}))
    }

    /// Sets a field of the body.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.json[field] = value.into();
        self
    }

    /// Sends these bytes as the body instead.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.raw = Some(bytes.into());
        self
    }

    /// Another path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Another method.
    #[must_use]
    pub fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// Adds a header field; bytes that are not text are allowed.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The caller's key, as bearer.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    /// The body that goes out.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.raw.clone().unwrap_or_else(|| self.json.to_string().into())
    }

    /// The request as bytes of HTTP/1.1.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        let body = self.bytes();
        let mut wire = self.head();
        wire.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        wire.extend_from_slice(&body);
        wire
    }

    /// The head alone, up to where a body's framing would be told; the blank line is not in it.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: gateway\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head
    }

    /// The request as a value.
    ///
    /// # Panics
    /// Where path or header fields are not valid.
    #[must_use]
    pub fn http(&self) -> http::Request<Bytes> {
        let mut builder = http::Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            builder = builder.header(name, value.as_slice());
        }
        builder.body(self.bytes()).expect("a valid request")
    }
}
