//! Vectors of questions, from a gateway that runs or from any server that speaks the same.

use std::collections::HashMap;

use base::Secret;
use serde_json::{Value, json};
use ureq::http::Method;

use super::pairs::{self, Pair};
use crate::complain;
use crate::remote::{If, Peer};

/// How many texts go in one call.
const BATCH: usize = 32;
/// After how many texts long work tells how far it is.
const NEWS: usize = 256;

/// Unit vectors by text.
pub type Vectors = HashMap<String, Vec<f32>>;

/// The cosine of two texts; nothing where one has no vector.
pub fn cosine(vectors: &Vectors, a: &str, b: &str) -> f64 {
    let (Some(a), Some(b)) = (vectors.get(a), vectors.get(b)) else { return 0.0 };
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Where vectors come from.
pub struct Embedder<'a> {
    url: &'a str,
    peer: Peer,
    model: &'a str,
}

/// Two questions of a language that have nothing in common, and what the model makes of them.
pub struct Trap {
    pub lang: &'static str,
    pub similarity: f64,
}

impl Trap {
    /// Whether the model takes them for one: it does not know the language.
    pub fn is_trap(&self) -> bool {
        self.similarity >= 0.95
    }
}

/// Unrelated questions by language.
const PROBES: [(&str, &str, &str); 2] = [
    ("zh", "护照丢了怎么补办", "明天北京下雨吗"),
    ("en", "How do I replace a lost passport?", "Is it going to rain in London tomorrow?"),
];

impl<'a> Embedder<'a> {
    /// Of a server's address and the name that the route has there.
    ///
    /// # Errors
    /// A sentence that says what the address should be.
    pub fn new(url: &'a str, key: Option<Secret>, model: &'a str) -> Result<Self, String> {
        Ok(Self { url, peer: peer(url, key)?, model })
    }

    /// The vectors of all questions.
    ///
    /// # Errors
    /// A sentence that says what failed, and what to do.
    pub fn vectors(&self, pairs: &[Pair]) -> Result<Vectors, String> {
        let mut texts: Vec<&str> = pairs.iter().flat_map(|pair| [pair.a.as_str(), pair.b.as_str()]).collect();
        texts.sort_unstable();
        texts.dedup();
        let mut vectors = Vectors::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            let found = self.ask(batch)?;
            vectors.extend(batch.iter().map(|text| (*text).to_owned()).zip(found));
            if vectors.len().is_multiple_of(NEWS) {
                complain(format!("{} of {} questions embedded", vectors.len(), texts.len()));
            }
        }
        let lengths: Vec<usize> = vectors.values().map(Vec::len).collect();
        if lengths.iter().min() != lengths.iter().max() {
            return Err(format!("{} gives vectors of different lengths", self.model));
        }
        Ok(vectors)
    }

    /// How near the model puts unrelated questions of each language among the pairs.
    ///
    /// # Errors
    /// As [`Self::vectors`].
    pub fn traps(&self, pairs: &[Pair]) -> Result<Vec<Trap>, String> {
        let languages = pairs::languages(pairs);
        let mut found = Vec::new();
        for (lang, a, b) in PROBES.into_iter().filter(|(lang, ..)| languages.iter().any(|known| known == lang)) {
            let vectors: Vectors = [a, b].map(str::to_owned).into_iter().zip(self.ask(&[a, b])?).collect();
            found.push(Trap { lang, similarity: cosine(&vectors, a, b) });
        }
        Ok(found)
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" }).to_string();
        let answer = self.peer.ask(&Method::POST, "/v1/embeddings", Some(&body), If::Whatever);
        let told = answer.and_then(|answer| answer.json()).map_err(|trouble| match trouble.status {
            Some(401) => format!("{trouble}; calibrate takes it from --key or MAI_KEY"),
            _ => trouble.to_string(),
        })?;
        let rows = told.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut vectors = vec![Vec::new(); texts.len()];
        for (at, row) in rows.iter().enumerate() {
            let place = row.get("index").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()).unwrap_or(at);
            let numbers = row.get("embedding").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if let Some(slot) = vectors.get_mut(place) {
                *slot = unit(numbers);
            }
        }
        if vectors.iter().any(Vec::is_empty) {
            return Err(format!("{} answered {} texts with {} usable vectors", self.url, texts.len(), rows.len()));
        }
        Ok(vectors)
    }
}

/// The server at `--url`.
///
/// # Errors
/// A sentence that says what the address should be.
pub fn peer(url: &str, key: Option<Secret>) -> Result<Peer, String> {
    let url = url.trim_end_matches('/').trim_end_matches("/v1");
    Peer::at(url, key, None, "is a gateway running there (`--url`)?").map_err(|why| format!("--url {url}: {why}"))
}

/// A vector of length one; empty where it has no direction.
fn unit(numbers: &[Value]) -> Vec<f32> {
    let numbers: Vec<f64> = numbers.iter().filter_map(Value::as_f64).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    if !length.is_normal() {
        return Vec::new();
    }
    #[expect(clippy::cast_possible_truncation, reason = "vectors are sent with single precision")]
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}
