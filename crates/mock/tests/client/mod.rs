//! A caller that sees every byte and how a connection ends.

use bytes::{Buf, BytesMut};
use mock::{Mock, Running, Scenario};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

/// How the other side ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With FIN.
    Closed,
    /// With RST.
    Reset,
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    ahead: BytesMut,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub async fn connect(mock: &Running) -> Self {
        Self { stream: TcpStream::connect(mock.addr()).await.unwrap(), ahead: BytesMut::new() }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn begin(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: mock\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.write(&[head.as_bytes(), body].concat()).await;
    }

    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.begin(method, path, headers, body).await;
        self.answer().await
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
        self.rest().await
    }

    /// What each read gave, up to the connection's end.
    pub async fn post_reads(&mut self, path: &str, body: &Value) -> Vec<Vec<u8>> {
        self.begin("POST", path, &[], body.to_string().as_bytes()).await;
        let mut reads = Vec::new();
        let mut buf = vec![0; 65536];
        while let Ok(count @ 1..) = self.stream.read(&mut buf).await {
            reads.push(buf[..count].to_vec());
        }
        reads
    }

    pub async fn rest(&mut self) -> (Vec<u8>, Ended) {
        loop {
            match self.stream.read_buf(&mut self.ahead).await {
                Ok(0) => return (self.ahead.split().to_vec(), Ended::Closed),
                Ok(_) => {}
                Err(_) => return (self.ahead.split().to_vec(), Ended::Reset),
            }
        }
    }

    pub async fn read(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            assert_ne!(self.stream.read_buf(&mut self.ahead).await.unwrap(), 0, "the mock hung up");
        }
        self.ahead.split_to(count).to_vec()
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line = self.ahead.split_to(end);
                self.ahead.advance(2);
                return String::from_utf8(line.to_vec()).unwrap();
            }
            assert_ne!(self.stream.read_buf(&mut self.ahead).await.unwrap(), 0, "the mock hung up");
        }
    }

    /// One answer, by its length or its chunks.
    pub async fn answer(&mut self) -> Answer {
        let status = self.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line().await, 16).unwrap();
                let chunk = self.read(size).await;
                answer.body.extend(chunk);
                assert_eq!(self.line().await, "");
                if size == 0 {
                    return answer;
                }
            }
        }
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        answer.body = self.read(length).await;
        answer
    }
}
