//! `calibrate`: what a similarity threshold does to labelled pairs of questions, with the guards and without.

mod curve;
mod embed;
mod pairs;
mod report;
mod store;
mod svg;

use std::process::ExitCode;

use base::Secret;
use semantic::guards;
use serde_json::{Value, json};

use crate::{BAD_CONFIG, CLEAN, complain, say};
use curve::{Curve, Judged, Wish};
use embed::Embedder;
use mai::args::CalibrateFlags;

/// `mai-gateway calibrate`
pub fn calibrate(flags: &CalibrateFlags) -> ExitCode {
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

fn measured(flags: &CalibrateFlags) -> Result<Found, String> {
    let wish = Wish::new(flags.precision, flags.false_hits)?;
    let pairs = pairs::read(&flags.pairs)?;
    let embedder = Embedder::new(&flags.url, flags.key.as_deref().map(Secret::new), &flags.route)?;
    complain(format!("{} pairs in {}; asking {} for their vectors", pairs.len(), flags.pairs.display(), flags.route));
    guards::warm();
    let vectors = embedder.vectors(&pairs)?;
    let traps = embedder.traps(&pairs)?;
    let judged: Vec<Judged> = pairs.iter().map(|pair| Judged::new(pair, &vectors)).collect();
    let curves: Vec<Curve> = pairs::languages(&pairs).iter().map(|lang| Curve::new(lang, &judged)).collect();
    let stores = if flags.store { store::measured(&pairs, &vectors, &flags.margins()?) } else { Vec::new() };
    if let Some(path) = &flags.svg {
        let drawn = svg::draw(&flags.route, &curves, &wish);
        std::fs::write(path, drawn).map_err(|error| format!("{}: {error}", path.display()))?;
        complain(format!("the curves are in {}", path.display()));
    }
    let trapped: Vec<&str> = traps.iter().filter(|trap| trap.is_trap()).map(|trap| trap.lang).collect();
    let advice = curve::advise(&curves, &wish, &trapped);
    let told = json!({
        "route": flags.route,
        "pairs": pairs.len(),
        "wished_precision": wish.precision,
        "languages": curves.iter().map(|curve| report::told(curve, &wish)).collect::<Vec<_>>(),
        "unrelated": traps.iter().map(|trap| json!({ "lang": trap.lang, "similarity": trap.similarity, "blind": trap.is_trap() })).collect::<Vec<_>>(),
        "store": stores.iter().map(store::Row::told).collect::<Vec<_>>(),
        "threshold": advice,
    });
    let text =
        report::text(&report::All { flags, wish: &wish, curves: &curves, traps: &traps, stores: &stores, advice });
    Ok(Found { text, told, reached: advice.is_some() })
}
