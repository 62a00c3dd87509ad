//! All questions in one store: each asked of all others, as a cache would be.

use semantic::guards::{Question, compare};
use serde_json::{Value, json};

use super::curve::as_f64;
use super::embed::{Vectors, cosine};
use super::pairs::{self, Pair};

/// What a threshold and a margin do to a store.
pub struct Row {
    pub lang: String,
    pub threshold: f64,
    /// None: without guards and margin.
    pub margin: Option<f64>,
    pub hits: usize,
    pub wrong: usize,
    /// Questions that have a paraphrase in the store.
    pub same: usize,
    pub questions: usize,
}

impl Row {
    /// The share of hits that are right; 1 where nothing is hit.
    pub fn precision(&self) -> f64 {
        if self.hits + self.wrong == 0 { 1.0 } else { as_f64(self.hits) / as_f64(self.hits + self.wrong) }
    }

    /// The share of questions with a paraphrase that were answered by one.
    pub fn recall(&self) -> f64 {
        if self.same == 0 { 0.0 } else { as_f64(self.hits) / as_f64(self.same) }
    }

    /// For programs.
    pub fn told(&self) -> Value {
        json!({
            "lang": self.lang, "threshold": self.threshold, "guards": self.margin.is_some(), "margin": self.margin,
            "hits": self.hits, "false": self.wrong, "questions": self.questions, "with_paraphrase": self.same,
            "precision": self.precision(), "recall": self.recall(),
        })
    }
}

/// A question in the store, with the group of those that mean the same.
struct Entry<'a> {
    text: &'a str,
    group: usize,
    read: Question,
}

/// One candidate of a lookup.
struct Near {
    similarity: f64,
    same: bool,
    passes: bool,
}

/// The whole store by language, threshold and margin.
pub fn measured(pairs: &[Pair], vectors: &Vectors, margins: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for lang in pairs::languages(pairs) {
        let entries = entries(pairs, &lang);
        let looked: Vec<Vec<Near>> = (0..entries.len()).map(|at| look(&entries, at, vectors)).collect();
        for threshold in [0.80, 0.84, 0.86, 0.88, 0.90, 0.92, 0.94, 0.96, 0.98] {
            for margin in std::iter::once(None).chain(margins.iter().copied().map(Some)) {
                rows.push(row(&lang, &looked, threshold, margin));
            }
        }
    }
    rows
}

fn entries<'a>(pairs: &'a [Pair], lang: &str) -> Vec<Entry<'a>> {
    let mut found: Vec<Entry<'a>> = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.lang == lang) {
        let mut place = |text: &'a str| {
            found.iter().position(|entry| entry.text == text).unwrap_or_else(|| {
                found.push(Entry { text, group: found.len(), read: Question::read(text) });
                found.len() - 1
            })
        };
        let (a, b) = (place(&pair.a), place(&pair.b));
        if pair.same
            && let (Some(from), Some(to)) =
                (found.get(b).map(|entry| entry.group), found.get(a).map(|entry| entry.group))
        {
            found.iter_mut().filter(|entry| entry.group == from).for_each(|entry| entry.group = to);
        }
    }
    found
}

/// All others, the nearest first.
fn look(entries: &[Entry<'_>], at: usize, vectors: &Vectors) -> Vec<Near> {
    let Some(asked) = entries.get(at) else { return Vec::new() };
    let others = entries.iter().enumerate().filter(|(other, _)| *other != at);
    let mut near: Vec<Near> = others
        .map(|(_, entry)| Near {
            similarity: cosine(vectors, asked.text, entry.text),
            same: entry.group == asked.group,
            passes: compare(&asked.read, &entry.read).is_ok(),
        })
        .collect();
    near.sort_by(|one, two| two.similarity.total_cmp(&one.similarity));
    near
}

fn row(lang: &str, looked: &[Vec<Near>], threshold: f64, margin: Option<f64>) -> Row {
    let mut row = Row { lang: lang.to_owned(), threshold, margin, hits: 0, wrong: 0, same: 0, questions: looked.len() };
    for near in looked {
        row.same += usize::from(near.iter().any(|other| other.same));
        let found = match margin {
            None => near.first(),
            Some(margin) => near.iter().find(|other| other.passes).filter(|found| {
                let other = near.iter().find(|other| !other.passes).map_or(-1.0, |other| other.similarity);
                margin <= 0.0 || found.similarity - other >= margin
            }),
        };
        match found.filter(|found| found.similarity >= threshold) {
            Some(found) if found.same => row.hits += 1,
            Some(_) => row.wrong += 1,
            None => {}
        }
    }
    row
}
