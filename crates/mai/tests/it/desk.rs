//! An admin port that is scripted: it notes what it is asked, and answers what the test says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::process::{Ran, program, run};

/// The token that commands are given.
pub const TOKEN: &str = "adm-script-3c81f6";

/// What a command has asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Method, path and query: `GET /admin/v1/routes?limit=500`.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// What is answered: status, further heads, body.
pub type Reply = (u16, &'static [&'static str], String);

pub fn ok(body: impl ToString) -> Reply {
    (200, &[], body.to_string())
}

/// An error in the form of every error.
pub fn error(status: u16, code: &str, message: &str) -> Reply {
    let body = serde_json::json!({ "error": { "message": message, "type": "x", "param": null, "code": code } });
    (status, &[], body.to_string())
}

pub struct Desk {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Desk {
    /// Answers by the request's line.
    pub fn saying(reply: impl Fn(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let desk = Self { addr: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = desk.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(&stream, &asked, &reply);
            }
        });
        desk
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    /// Runs a command against it.
    pub fn run(&self, words: &[&str]) -> Ran {
        run(program().args(words).args(["--admin", &self.url()]).env("MAI_ADMIN_TOKEN", TOKEN))
    }
}

fn serve(mut stream: &TcpStream, asked: &Mutex<Vec<Asked>>, reply: &dyn Fn(&Asked) -> Reply) {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut request = Asked { line: first.trim_end_matches(" HTTP/1.1").to_owned(), headers, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    asked.lock().unwrap().push(request.clone());
    let (status, more, body) = reply(&request);
    let more: String = more.iter().map(|head| format!("{head}\r\n")).collect();
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status} X\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
}
