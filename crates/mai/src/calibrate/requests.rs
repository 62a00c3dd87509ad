//! Pairs of questions out of request records: what callers have asked, each beside the nearest question that was answered
//! before, as the semantic cache has seen it, with a first guess from the answers whether both are the same.
//!
//! The guess is one: two answers in the same words answer the same question, two answers that share hardly a word do not,
//! and of all others nothing is said. Questions below the threshold that was in force were never looked at, and those in
//! the very words of an earlier one are no pair.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::pairs::{self, Pair, Pairs};
use crate::remote::{Peer, encoded, query};
use crate::{complain, files, when};
use mai::args::CalibrateFlags;

/// Requests whose texts are read.
const MOST: usize = 5_000;
/// Pages of the list that are read, of this many requests each.
const MOST_PAGES: usize = 400;
const PAGE: &str = "500";
/// After how many texts long work tells how far it is.
const NEWS: usize = 250;

/// Answers that share so much of their words, and all numbers, are one.
const ALIKE: f64 = 0.9;
/// Answers that share no more than this answer different questions,
const UNLIKE: f64 = 0.25;
/// where both have so many words: «Yes» and «You can, in the portal» may be one.
const TELLING: usize = 8;

/// A question of a caller's, and the nearest that was answered before.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    request: String,
    known: String,
    question: String,
    similarity: f64,
    withheld: Option<String>,
    /// Which share of their words both answers have in common, where there are two.
    alike: Option<f64>,
    same: Option<bool>,
}

/// What a request tells.
#[derive(Debug, PartialEq)]
enum Told {
    Pair(Seen),
    /// Its text was not kept.
    NoText,
    /// No nearest question was kept with it.
    NoNear,
    /// It was known by its words alone.
    SameWords,
}

/// Requests that make no pair, by why.
#[derive(Default)]
struct LeftOut {
    no_text: usize,
    no_near: usize,
    same_words: usize,
}

impl LeftOut {
    /// What is to be told of them.
    fn sentences(&self, of: usize) -> Vec<String> {
        let whys = [
            (self.no_text, "their texts were not kept"),
            (self.no_near, "no near question was kept with their texts"),
            (self.same_words, "they asked in the very words of an earlier question"),
        ];
        let told = whys.into_iter().filter(|(count, _)| *count > 0);
        told.map(|(count, why)| format!("{count} of {of} requests left out: {why}")).collect()
    }
}

/// What was found.
pub struct Found {
    seen: Vec<Seen>,
}

/// Reads them from a gateway that runs.
///
/// # Errors
/// A sentence that says what is missing.
pub fn found(flags: &CalibrateFlags) -> Result<Found, String> {
    let peer = Peer::admin(&flags.at).map_err(|trouble| trouble.to_string())?;
    let ids = matched(&peer, flags)?;
    let (mut each, mut left_out) = (Each::default(), LeftOut::default());
    for (at, (id, is_silent)) in ids.iter().enumerate() {
        match near(&peer, id, *is_silent)? {
            Told::Pair(one) => each.take(one),
            Told::NoText => left_out.no_text += 1,
            Told::NoNear => left_out.no_near += 1,
            Told::SameWords => left_out.same_words += 1,
        }
        if (at + 1).is_multiple_of(NEWS) {
            complain(format!("{} of {} requests read", at + 1, ids.len()));
        }
    }
    left_out.sentences(ids.len()).into_iter().for_each(complain);
    if each.seen.is_empty() {
        return Err(
            "no request since then has the text of a near question: that takes a route with `cache.semantic` (at best \
                    with `shadow: true`) and `records: { content: true }` while requests come in"
                .to_owned(),
        );
    }
    Ok(Found { seen: each.seen })
}

/// Pairs, each once.
#[derive(Default)]
struct Each {
    seen: Vec<Seen>,
    known: HashMap<(String, String), usize>,
}

impl Each {
    /// Of those of one pair the first, but rather one whose answers tell something: an application looks up what it then
    /// asks.
    fn take(&mut self, one: Seen) {
        match self.known.entry((one.known.clone(), one.question.clone())) {
            Entry::Vacant(room) => {
                room.insert(self.seen.len());
                self.seen.push(one);
            }
            Entry::Occupied(at) => {
                let before = self.seen.get_mut(*at.get()).filter(|before| before.alike.is_none());
                if let (Some(before), true) = (before, one.alike.is_some()) {
                    *before = one;
                }
            }
        }
    }
}

/// The requests that had a near question, the last first, and whether the answers that they got show nothing.
fn matched(peer: &Peer, flags: &CalibrateFlags) -> Result<Vec<(String, bool)>, String> {
    let since = when::back(&flags.since, when::now()).map_err(|how| format!("--since: {how}"))?;
    let (mut ids, mut after, mut last) = (Vec::new(), None::<String>, None);
    for _ in 0..MOST_PAGES {
        let wanted = [
            ("route", flags.of_route.as_deref()),
            ("since", Some(since.as_str())),
            ("limit", Some(PAGE)),
            ("after", after.as_deref()),
        ];
        let page = peer.get(&format!("/admin/v1/requests{}", query(wanted))).and_then(|told| told.json());
        let page = page.map_err(|trouble| trouble.to_string())?;
        for record in page.get("data").and_then(Value::as_array).into_iter().flatten() {
            last = record.get("time").and_then(Value::as_str).map(str::to_owned).or(last);
            if let Some(id) = record.get("request_id").and_then(Value::as_str).filter(|_| has_near(record)) {
                ids.push((id.to_owned(), is_silent(record)));
            }
        }
        after = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if ids.len() >= MOST {
            complain(format!("the last {MOST} requests with a near question are read; older ones are left out"));
            ids.truncate(MOST);
            return Ok(ids);
        }
        if after.is_none() {
            return Ok(ids);
        }
    }
    let read_to = last.map_or_else(String::new, |last| format!(", back to {last}"));
    complain(format!(
        "{MOST_PAGES} pages of requests are read{read_to}; older ones are left out: ask for one `--of-route`"
    ));
    Ok(ids)
}

/// Whether the answer of a request shows nothing beside a stored one: it is that very one, or says what went wrong, as that
/// a look-up has found nothing.
fn is_silent(record: &Value) -> bool {
    let is_served = record.get("cache").and_then(Value::as_str) == Some("semantic");
    is_served || record.get("status").and_then(Value::as_u64) != Some(200)
}

/// Whether a near question was found, be its answer withheld or not.
fn has_near(record: &Value) -> bool {
    let is_matched = record.get("matched").is_some_and(Value::is_string);
    let word = |step: &Value, name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    // A look-up that came to no end, and one that was not made, have found none.
    let is_withheld =
        |step: &Value| word(step, "what") == "match_withheld" && !matches!(&*word(step, "by"), "error" | "resting");
    is_matched || record.get("decisions").and_then(Value::as_array).is_some_and(|steps| steps.iter().any(is_withheld))
}

/// What a request tells.
fn near(peer: &Peer, id: &str, is_silent: bool) -> Result<Told, String> {
    let told = match peer.get(&format!("/admin/v1/requests/{}/content", encoded(id))) {
        Err(trouble) if trouble.status == Some(404) => return Ok(Told::NoText),
        told => told.and_then(|told| told.json()).map_err(|trouble| trouble.to_string())?,
    };
    Ok(as_pair(seen(&told, id, is_silent)))
}

/// A question and its nearest, if they are a pair that teaches anything.
fn as_pair(seen: Option<Seen>) -> Told {
    let in_words = |text: &str| dialect::embeddings::normalized(text).into_owned();
    match seen {
        None => Told::NoNear,
        Some(seen) if in_words(&seen.question) == in_words(&seen.known) => Told::SameWords,
        Some(seen) => Told::Pair(seen),
    }
}

fn seen(told: &Value, id: &str, is_silent: bool) -> Option<Seen> {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let near = told.get("near").filter(|near| near.is_object())?;
    let (question, known) = (text(near, "question"), text(near, "known_question"));
    if question.is_empty() || known.is_empty() {
        return None;
    }
    // Half of an answer shows nothing either.
    let is_cut = told.get("truncated").and_then(Value::as_bool) == Some(true);
    let answers = [text(told, "answer"), text(near, "known_answer")];
    let has_both = !is_silent && !is_cut && answers.iter().all(|answer| !answer.is_empty());
    let (alike, same) = if has_both { guess(&answers[0], &answers[1]) } else { (None, None) };
    Some(Seen {
        request: id.to_owned(),
        known,
        question,
        similarity: near.get("similarity").and_then(Value::as_f64).unwrap_or_default(),
        withheld: near.get("withheld").and_then(Value::as_str).map(str::to_owned),
        alike,
        same,
    })
}

/// How alike two answers are by their words, and whether they answer one question, as far as that tells.
fn guess(one: &str, other: &str) -> (Option<f64>, Option<bool>) {
    let (one, other) = (words(one), words(other));
    if one.is_empty() || other.is_empty() {
        return (None, None);
    }
    if one == other {
        return (Some(1.0), Some(true));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    one.iter().for_each(|word| *left.entry(word).or_default() += 1);
    let shared = other.iter().filter(|word| {
        let count = left.get_mut(word.as_str()).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    });
    let alike = 2.0 * super::curve::as_f64(shared.count()) / super::curve::as_f64(one.len() + other.len());
    let numbers = |words: &[String]| {
        let mut numbers: Vec<String> =
            words.iter().filter(|word| word.chars().any(char::is_numeric)).cloned().collect();
        numbers.sort_unstable();
        numbers
    };
    let is_telling = one.len() >= TELLING && other.len() >= TELLING;
    let same = match alike {
        alike if alike >= ALIKE && numbers(&one) == numbers(&other) => Some(true),
        alike if alike <= UNLIKE && is_telling => Some(false),
        _ => None,
    };
    (Some(alike), same)
}

/// The words of a text in small letters; each sign of Chinese is one.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let is_han = |sign: char| matches!(sign, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}');
    for sign in text.chars().flat_map(char::to_lowercase) {
        if sign.is_alphanumeric() && !is_han(sign) {
            word.push(sign);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_han(sign) {
            words.push(sign.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

impl Found {
    /// The pairs of which the answers tell whether they are the same.
    ///
    /// # Errors
    /// A sentence that says what is missing, and what to do.
    pub fn pairs(&self) -> Result<Pairs, String> {
        let told = |seen: &Seen| {
            let (a, b) = (seen.known.clone(), seen.question.clone());
            Some(Pair { lang: pairs::language(&a, &b), same: seen.same?, a, b })
        };
        let all: Vec<Pair> = self.seen.iter().filter_map(told).collect();
        let unlabelled = self.seen.len() - all.len();
        pairs::balanced(&all).map_err(|what| {
            format!(
                "{}: {what}\nWrite the pairs to a file with `--write-pairs FILE`, say in each line whether both are the \
                 same, and give that file instead of `--from-requests`",
                self.told()
            )
        })?;
        Ok(Pairs { all, unlabelled })
    }

    /// How many there are, and what their answers tell.
    pub fn told(&self) -> String {
        let count = |same: Option<bool>| self.seen.iter().filter(|seen| seen.same == same).count();
        format!(
            "{} pairs from requests: by their answers {} are the same, {} are not, and of {} nothing can be said",
            self.seen.len(),
            count(Some(true)),
            count(Some(false)),
            count(None)
        )
    }

    /// Writes them for a person, the nearest first, in a file that nobody else may read: it holds what callers wrote.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn write(mut self, path: &Path) -> Result<(), String> {
        self.seen.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
        let lines: String = self.seen.iter().map(|seen| format!("{}\n", line(seen))).collect();
        let mut options = std::fs::OpenOptions::new();
        // What a person has labelled is not written over.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(path).and_then(|mut file| file.write_all(lines.as_bytes()));
        written.map_err(|error| files::unwritten(path, &error))
    }
}

fn line(seen: &Seen) -> Value {
    json!({
        "a": seen.known, "b": seen.question, "same": seen.same, "lang": pairs::language(&seen.known, &seen.question),
        "similarity": seen.similarity, "withheld": seen.withheld, "answers_alike": seen.alike, "request": seen.request,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Each, LeftOut, Told, as_pair, guess, has_near, is_silent, seen, words};

    #[test]
    fn look_ups_that_came_to_no_end_have_found_no_near_question() {
        let withheld = |by: &str| json!({ "decisions": [{ "what": "cache" }, { "what": "match_withheld", "by": by }] });
        for (record, is_near) in [
            (withheld("error"), false),
            (withheld("resting"), false),
            (withheld("margin"), true),
            (json!({ "matched": "x", "decisions": [] }), true),
            (json!({ "matched": null }), false),
        ] {
            assert_eq!(has_near(&record), is_near, "{record}");
        }
        let left_out = LeftOut { no_text: 2, no_near: 0, same_words: 1 };
        assert_eq!(
            left_out.sentences(9),
            [
                "2 of 9 requests left out: their texts were not kept",
                "1 of 9 requests left out: they asked in the very words of an earlier question"
            ]
        );
    }

    #[test]
    fn what_a_caller_was_told_in_the_place_of_an_answer_is_none() {
        for (record, silent) in [
            (json!({ "cache": "miss", "status": 200 }), false),
            (json!({ "cache": "semantic", "status": 200 }), true),
            (json!({ "cache": "miss", "status": 404, "code": "cache_miss" }), true),
            (json!({ "cache": "miss", "status": 502 }), true),
        ] {
            assert_eq!(is_silent(&record), silent, "{record}");
        }
    }

    #[test]
    fn of_a_look_up_and_its_call_the_one_with_an_answer_is_taken() {
        let near = json!({ "question": "b", "known_question": "a", "known_answer": "x y", "similarity": 0.9 });
        let told = json!({ "prompt": "p", "answer": "x y", "near": near });
        let (look_up, call) = (seen(&told, "look-up", true).unwrap(), seen(&told, "call", false).unwrap());
        for order in [[&look_up, &call], [&call, &look_up]] {
            let mut each = Each::default();
            order.into_iter().for_each(|one| each.take(one.clone()));
            assert_eq!(each.seen.iter().map(|seen| &*seen.request).collect::<Vec<_>>(), ["call"]);
        }
    }

    #[test]
    fn answers_tell_as_much_as_their_words_do() {
        let long = "Open the portal, choose reset and follow the link that is sent to you within 10 minutes.";
        for (one, other, told) in [
            ("Open the portal.", "open  the portal", Some(true)),
            (long, &*long.replace("choose", "press"), Some(true)),
            (long, &*long.replace("10", "30"), None),
            (long, "Salaries are paid on the last working day of each month, by bank transfer alone.", Some(false)),
            ("Yes.", "You can, in the portal.", None),
            ("在门户里提交申请，三天内批准。", "在门户里提交申请,三天内批准", Some(true)),
        ] {
            assert_eq!(guess(one, other).1, told, "{one} | {other}");
        }
        assert_eq!(words("Reset 报销 2FA!"), ["reset", "报", "销", "2fa"]);
    }

    #[test]
    fn who_was_served_the_stored_answer_shows_nothing() {
        let near = json!({ "question": "b", "known_question": "a", "known_answer": "x y", "similarity": 0.9, "withheld": null });
        let told = |truncated: bool| json!({ "prompt": "p", "answer": "x y", "truncated": truncated, "near": near });
        assert_eq!(seen(&told(false), "id", false).unwrap().same, Some(true));
        assert_eq!(seen(&told(false), "id", true).unwrap().same, None);
        assert_eq!(seen(&told(true), "id", false).unwrap().same, None);
        assert_eq!(seen(&json!({ "prompt": "p", "answer": "x", "near": null }), "id", false), None);
        assert_eq!(as_pair(None), Told::NoNear);
        assert!(matches!(as_pair(seen(&told(false), "id", false)), Told::Pair(_)));
        let same = json!({ "near": { "question": "a ", "known_question": "a" } });
        assert_eq!(as_pair(seen(&same, "id", false)), Told::SameWords, "they teach nothing");
    }
}
