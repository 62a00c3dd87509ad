//! What another model says of pairs: a rerank or chat route, asked as a gateway asks the one of `semantic.verify`.

use base::{Endpoint, Secret};
use gateway::consult::verify::{Said, put, said};
use serde_json::{Value, json};
use ureq::http::Method;

use super::curve::{Curve, Judged, Point, Wish};
use crate::complain;
use crate::remote::{If, Peer, Trouble};

/// After how many pairs long work tells how far it is.
const NEWS: usize = 50;
/// Failures that are told one by one.
const TOLD: usize = 3;
/// The endpoints that such a route may have, in the order in which they are tried.
const ENDPOINTS: [Endpoint; 2] = [Endpoint::Rerank, Endpoint::Chat];

/// Where another model's word comes from.
pub struct Verifier<'a> {
    peer: Peer,
    model: &'a str,
    min_score: f64,
}

impl<'a> Verifier<'a> {
    /// Of a server's address, and the name that the route has there.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the address or the score.
    pub fn new(url: &str, key: Option<Secret>, model: &'a str, min_score: f64) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&min_score) {
            return Err(format!("--min-score {min_score}: a number from 0 to 1"));
        }
        Ok(Self { peer: super::embed::peer(url, key)?, model, min_score })
    }

    /// Asks about every pair that a gateway would ask about: all whose words pass the guards, and those that only
    /// guards call different which may be overruled.
    ///
    /// # Errors
    /// A sentence that says why the first of them came to no verdict, or that more than a tenth did not.
    pub fn ask(&self, judged: &mut [Judged], texts: &[(&str, &str)]) -> Result<(), String> {
        let asked: Vec<_> = judged.iter_mut().zip(texts).filter(|(pair, _)| pair.is_open()).collect();
        let (mut endpoint, all) = (None, asked.len());
        complain(format!("asking {} about {all} of them", self.model));
        let mut failed = 0;
        for (done, (pair, texts)) in asked.into_iter().enumerate() {
            match self.word(endpoint, *texts) {
                Ok((found, word)) => {
                    endpoint = Some(found);
                    pair.is_verified = Some(word.is_same(self.min_score));
                    pair.score = if let Said::Score(score) = word { Some(score) } else { None };
                }
                Err(why) if endpoint.is_none() => return Err(why),
                // A gateway serves nothing either where it comes to no verdict.
                Err(why) => {
                    failed += 1;
                    if failed <= TOLD {
                        complain(why);
                    }
                    pair.is_verified = Some(false);
                }
            }
            if (done + 1).is_multiple_of(NEWS) {
                complain(format!("{} of {all} pairs verified", done + 1));
            }
        }
        if failed * 10 > all {
            return Err(
                self.told(&format!("{failed} of {all} pairs came to no verdict; figures of the others would mislead"))
            );
        }
        if failed > 0 {
            complain(format!("{failed} of {all} pairs came to no verdict, and count as not the same"));
        }
        Ok(())
    }

    /// What is said of one pair, and by which endpoint: where that is not known yet, by the first that knows the route.
    fn word(&self, endpoint: Option<Endpoint>, (a, b): (&str, &str)) -> Result<(Endpoint, Said), String> {
        let mut tried = endpoint.as_ref().map_or(ENDPOINTS.as_slice(), std::slice::from_ref).iter().peekable();
        loop {
            let Some(endpoint) = tried.next().copied() else { return Err(self.told("answers nowhere")) };
            // What is asked now is the later one of the two.
            let body = put(endpoint, self.model, b, a).to_string();
            let path = format!("/v1/{}", endpoint.tail());
            match self.peer.ask(&Method::POST, &path, Some(&body), If::Whatever) {
                Ok(answer) => {
                    let word = said(endpoint, answer.text.as_bytes());
                    return word
                        .map(|word| (endpoint, word))
                        .ok_or_else(|| self.told("gave an answer that is no verdict"));
                }
                Err(Trouble { status: Some(404), .. }) if tried.peek().is_some() => {}
                Err(trouble) => return Err(self.told(&trouble.to_string())),
            }
        }
    }

    fn told(&self, what: &str) -> String {
        format!("--verify {}: {what}", self.model)
    }
}

/// What the verifier makes of the pairs of one language: at the threshold with most hits at the wished precision, else
/// at the one that the guards are best at.
pub fn text(curve: &Curve, wish: &Wish, lines: &mut Vec<String>) {
    let Some(verified) = &curve.verified else { return };
    let usual = Curve::best(&curve.guarded, wish).map_or_else(|| verified.lowest(), |best| best.threshold);
    lines.push(
        "   with the verifier                    at     precision  recall   hits  false   asked  recall at most"
            .to_owned(),
    );
    for (how, points, asked) in verified.ways() {
        let at = Curve::best(points, wish).map_or(usual, |best| best.threshold);
        // What one that never errs would find, where every pair is near enough.
        let most = asked.first().map_or(0.0, Point::recall);
        if let (Some(point), Some(asked)) = (Curve::at(points, at), Curve::at(asked, at)) {
            lines.push(format!(
                "      {how:<30} {at:.3}   {:<9}  {:<6.2}   {:>4}  {:>5}   {:>5}  {:.2}",
                point.shown(),
                point.recall(),
                point.hits,
                point.wrong,
                asked.hits + asked.wrong,
                most
            ));
        }
    }
    if !verified.by_score.is_empty() {
        lines.push("   by `min_score`                 behind the guards      overruling".to_owned());
    }
    for (score, behind, over) in &verified.by_score {
        let told = |points: &[Point]| match Curve::best(points, wish) {
            Some(best) => format!("{}/{:.2} at {:.3}", best.shown(), best.recall(), best.threshold),
            None => format!("never {:.2}", wish.precision),
        };
        lines.push(format!("      {score:<27} {:<22} {}", told(behind), told(over)));
    }
}

/// For programs.
pub fn told(curve: &Curve) -> Value {
    let Some(verified) = &curve.verified else { return Value::Null };
    let points = |points: &[Point]| -> Vec<Value> { points.iter().map(Point::told).collect() };
    let [(_, behind, asked), (_, over, over_asked)] = verified.ways();
    json!({
        "behind_guards": points(behind), "asked_behind_guards": points(asked),
        "overruling": points(over), "asked_overruling": points(over_asked),
        "by_min_score": verified.by_score.iter().map(|(score, behind, over)| json!({
            "min_score": score, "behind_guards": points(behind), "overruling": points(over),
        })).collect::<Vec<_>>(),
    })
}
