//! `calibrate`: what a similarity threshold does to labelled pairs of questions, with the guards and without.

mod curve;
mod embed;
mod pairs;
mod report;
mod requests;
mod store;
mod svg;
mod verify;

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use base::Secret;
use semantic::guards;
use serde_json::{Value, json};

use crate::{BAD_CONFIG, CLEAN, complain, files, say};
use curve::{Curve, Judged, Wish};
use embed::Embedder;
use mai::args::CalibrateFlags;
use pairs::{Pair, Pairs};
use verify::Verifier;

/// `mai-gateway calibrate`
pub fn calibrate(flags: &CalibrateFlags) -> ExitCode {
    if let Some(path) = &flags.write_pairs {
        return match written(flags, path) {
            Ok(told) => {
                say(told);
                CLEAN.into()
            }
            Err(message) => {
                complain(message);
                BAD_CONFIG.into()
            }
        };
    }
    match measured(flags) {
        Ok(found) => {
            say(if flags.json { format!("{:#}", found.told) } else { found.text.trim_end().to_owned() });
            if found.reached { CLEAN.into() } else { BAD_CONFIG.into() }
        }
        Err(message) => {
            complain(message);
            BAD_CONFIG.into()
        }
    }
}

/// What was measured, for people and for programs, and whether a threshold does what was wished.
struct Found {
    text: String,
    told: Value,
    reached: bool,
}

/// Writes the pairs of requests to a file, for a person to label.
fn written(flags: &CalibrateFlags, path: &Path) -> Result<String, String> {
    // Rather now than once all is read.
    if path.exists() {
        return Err(files::unwritten(path, &ErrorKind::AlreadyExists.into()));
    }
    let found = requests::found(flags)?;
    let told = found.told();
    found.write(path)?;
    let path = path.display();
    Ok(format!(
        "{told}\nThey are in {path}. Read each line, write true or false behind `same`, and measure: mai-gateway calibrate {path} --route …"
    ))
}

/// Pairs of which somebody has said whether they are the same, and from where they are.
struct Labelled {
    pairs: Vec<Pair>,
    from: String,
}

fn labelled(flags: &CalibrateFlags) -> Result<Labelled, String> {
    let (Pairs { all, unlabelled }, from) = match &flags.pairs {
        Some(path) => (pairs::read(path)?, path.display().to_string()),
        None => {
            let found = requests::found(flags)?;
            complain(found.told());
            (found.pairs()?, "requests".to_owned())
        }
    };
    if unlabelled > 0 {
        complain(format!("{unlabelled} pairs are left out: nobody says whether they are the same"));
    }
    Ok(Labelled { pairs: all, from })
}

fn measured(flags: &CalibrateFlags) -> Result<Found, String> {
    let wish = Wish::new(flags.precision, flags.false_hits)?;
    if let Some(path) = &flags.svg {
        // Rather now than once all is measured.
        files::probe(path)?;
    }
    let route = flags.route.as_deref().unwrap_or_default();
    let embedder = Embedder::new(&flags.url, flags.key.as_deref().map(Secret::new), route)?;
    let verifier = |route| Verifier::new(&flags.url, flags.key.as_deref().map(Secret::new), route, flags.min_score);
    let verifier = flags.verify.as_deref().map(verifier).transpose()?;
    let Labelled { pairs, from } = labelled(flags)?;
    complain(format!("{} pairs in {from}; asking {route} for their vectors", pairs.len()));
    guards::warm();
    let vectors = embedder.vectors(&pairs)?;
    let traps = embedder.traps(&pairs)?;
    let mut judged: Vec<Judged> = pairs.iter().map(|pair| Judged::new(pair, &vectors)).collect();
    if let Some(verifier) = verifier {
        let texts: Vec<(&str, &str)> = pairs.iter().map(|pair| (&*pair.a, &*pair.b)).collect();
        verifier.ask(&mut judged, &texts)?;
    }
    let curves: Vec<Curve> = pairs::languages(&pairs).iter().map(|lang| Curve::new(lang, &judged)).collect();
    let stores = if flags.store { store::measured(&pairs, &vectors, &flags.margins()?) } else { Vec::new() };
    if let Some(path) = &flags.svg {
        let drawn = svg::draw(route, &curves, &wish);
        std::fs::write(path, drawn).map_err(|error| files::unwritten(path, &error))?;
        complain(format!("the curves are in {}", path.display()));
    }
    let trapped: Vec<&str> = traps.iter().filter(|trap| trap.is_trap()).map(|trap| trap.lang).collect();
    let advice = curve::advise(&curves, &wish, &trapped);
    let doubts = advice.map_or_else(Vec::new, |threshold| curve::doubts(&curves, &wish, (threshold, &trapped)));
    let told = json!({
        "route": route,
        "labels": if flags.from_requests { "answers" } else { "file" },
        "pairs": pairs.len(),
        "wished_precision": wish.precision,
        "languages": curves.iter().map(|curve| report::told(curve, &wish)).collect::<Vec<_>>(),
        "unrelated": traps.iter().map(|trap| json!({ "lang": trap.lang, "similarity": trap.similarity, "blind": trap.is_trap() })).collect::<Vec<_>>(),
        "store": stores.iter().map(store::Row::told).collect::<Vec<_>>(),
        "threshold": advice,
        "threshold_is_sure": advice.map(|_| doubts.is_empty()),
        "doubts": doubts.iter().map(curve::Doubt::told).collect::<Vec<_>>(),
    });
    let text = report::text(&report::All {
        flags,
        route,
        wish: &wish,
        curves: &curves,
        traps: &traps,
        stores: &stores,
        advice,
        doubts: &doubts,
    });
    Ok(Found { text, told, reached: advice.is_some() })
}
