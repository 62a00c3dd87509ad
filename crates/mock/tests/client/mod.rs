//! A mock on a port, and a caller on a socket.

use mock::{Mock, Running, Scenario};
use serde_json::{Value, json};
use testkit::{Answer, Caller, Ended};
use tokio::net::TcpStream;

pub async fn start(scenario: Scenario) -> Running {
    Mock::start(([127, 0, 0, 1], 0).into(), scenario).await.unwrap()
}

pub async fn start_yaml(text: &str) -> Running {
    start(Scenario::read(text).unwrap()).await
}

pub fn chat() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "How are you?"}]})
}

pub fn streaming() -> Value {
    let mut body = chat();
    body["stream"] = true.into();
    body
}

pub fn events(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).map(str::to_owned).collect()
}

pub fn said(events: &[String]) -> String {
    let chunks = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

/// One connection.
pub struct Client(Caller<TcpStream>);

impl Client {
    pub async fn connect(mock: &Running) -> Self {
        Self(Caller::on(TcpStream::connect(mock.addr()).await.unwrap()))
    }

    pub async fn begin(&mut self, method: &'static str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let ask = testkit::get(path).method(method).body(body.to_vec());
        let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
        self.0.begin(&ask).await;
    }

    pub async fn send(&mut self, method: &'static str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.begin(method, path, headers, body).await;
        self.0.answer().await.unwrap()
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body.to_string().as_bytes()).await
    }

    /// Everything up to the connection's end.
    pub async fn post_raw(&mut self, path: &str, body: &Value) -> (Vec<u8>, Ended) {
        self.begin("POST", path, &[], body.to_string().as_bytes()).await;
        self.0.rest().await
    }

    /// What each read gave, up to the connection's end.
    pub async fn post_reads(&mut self, path: &str, body: &Value) -> Vec<Vec<u8>> {
        self.begin("POST", path, &[], body.to_string().as_bytes()).await;
        let mut reads = Vec::new();
        loop {
            let read = self.0.read().await;
            if read.is_empty() {
                return reads;
            }
            reads.push(read);
        }
    }
}

impl std::ops::Deref for Client {
    type Target = Caller<TcpStream>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
