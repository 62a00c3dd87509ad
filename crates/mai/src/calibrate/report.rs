//! What was measured, as tables for people and as JSON for programs.

use serde_json::{Value, json};

use super::curve::{Curve, Doubt, Point, Wish, shown};
use super::embed::Trap;
use super::store::Row;
use super::verify;
use mai::args::CalibrateFlags;

/// Everything there is to tell.
pub struct All<'a> {
    pub flags: &'a CalibrateFlags,
    /// The embedding route.
    pub route: &'a str,
    pub wish: &'a Wish,
    pub curves: &'a [Curve],
    pub traps: &'a [Trap],
    pub stores: &'a [Row],
    /// The threshold for all languages.
    pub advice: Option<f64>,
    /// Where it is a guess.
    pub doubts: &'a [Doubt],
}

/// For people.
pub fn text(all: &All<'_>) -> String {
    let mut lines = Vec::new();
    if all.flags.from_requests {
        lines.push(GUESSED.to_owned());
    }
    for curve in all.curves {
        language(curve, all.wish, &mut lines);
    }
    for trap in all.traps {
        lines.push(format!(
            "{}: two questions that have nothing in common come out at {:.3}",
            trap.lang, trap.similarity
        ));
        if trap.is_trap() {
            lines.push(format!(
                "   this model does not know the language: it takes different questions in it for one. Do not match {} by it.",
                trap.lang
            ));
        }
    }
    if !all.stores.is_empty() {
        store(all.stores, &mut lines);
    }
    lines.push(String::new());
    match all.advice {
        Some(threshold) => {
            let guess = if all.doubts.is_empty() { "" } else { ", a guess from few hits" };
            lines.push(format!(
                "Threshold: {threshold:.3}{guess} (precision at least {:.2} in each language)",
                all.wish.precision
            ));
            lines.extend(all.doubts.iter().map(|doubt| told_doubt(doubt, all.wish)));
            lines.push(format!(
                "   cache: {{ mode: semantic, kb_version: \"1\", semantic: {{ route: {}, threshold: {threshold:.3}, shadow: true }} }}",
                all.route
            ));
            lines.push(
                "   It holds for this model with this prefix alone. With `shadow: true` nothing is served yet: watch it first."
                    .to_owned(),
            );
        }
        None => lines.push(format!(
            "No threshold reaches a precision of {:.2} on these pairs: do not match by this model, or wish for less.",
            all.wish.precision
        )),
    }
    lines.join("\n")
}

const GUESSED: &str = "These pairs are labelled by a guess from their answers, and none of them lies below the threshold that was in force: the\n\
    figures show a tendency. Before you serve by them, write the pairs out (--write-pairs), label them, and measure again.\n";

fn language(curve: &Curve, wish: &Wish, lines: &mut Vec<String>) {
    lines.push(format!("{}: {} pairs that are the same, {} that are not", curve.lang, curve.same, curve.different));
    lines.push("   threshold   similarity alone      with the guards".to_owned());
    lines.push("               precision  recall     precision  recall   hits  false".to_owned());
    for threshold in curve.rows() {
        let (Some(plain), Some(guarded)) = (Curve::at(&curve.plain, threshold), Curve::at(&curve.guarded, threshold))
        else {
            continue;
        };
        lines.push(format!(
            "   {threshold:<9.3}   {:<9}  {:<6.2}     {:<9}  {:<6.2}   {:>4}  {:>5}",
            plain.shown(),
            plain.recall(),
            guarded.shown(),
            guarded.recall(),
            guarded.hits,
            guarded.wrong
        ));
    }
    let refused: Vec<String> = curve
        .refused
        .iter()
        .map(|(guard, wrong, right)| {
            let lost = if *right > 0 { format!(" and {right}") } else { String::new() };
            format!("{} {wrong}{lost}", guard.name())
        })
        .collect();
    lines.push(format!("   refused by guards, different pairs and paraphrases: {}", refused.join(", ")));
    let best = Curve::best(&curve.guarded, wish);
    if let Some(best) = best {
        let without = curve.without.iter().filter_map(|(guard, points)| {
            let point = Curve::at(points, best.threshold)?;
            Some(format!("{} {}/{:.2}", guard.name(), point.shown(), point.recall()))
        });
        lines.push(format!(
            "   at {:.3} without one of them: {}",
            best.threshold,
            without.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.push(told_best("with the guards", best, wish));
    verify::text(curve, wish, lines);
    lines.push(told_best("by similarity alone", Curve::best(&curve.plain, wish), wish));
    lines.push(String::new());
}

fn told_best(how: &str, best: Option<Point>, wish: &Wish) -> String {
    match best {
        Some(best) => format!(
            "   {how}: {:.3} gives precision {:.2} at recall {:.2}; with so few pairs up to {:.0} % of the hits may be false",
            best.threshold,
            best.precision(),
            best.recall(),
            best.worst() * 100.0
        ),
        None => format!("   {how}: no threshold reaches a precision of {:.2}", wish.precision),
    }
}

/// Where a threshold is a guess, and what would make it more.
fn told_doubt(doubt: &Doubt, wish: &Wish) -> String {
    let Doubt { lang, at, more } = doubt;
    let most = wish.false_hits() * 100.0;
    let needed = match more {
        Some(more) => format!("at least {more} more without a false one are needed to be sure"),
        None => "hardly any number of hits makes that sure: allow more (--false-hits 0.02, say)".to_owned(),
    };
    format!(
        "   {lang}: a guess from {} hits, of which up to {:.1} % may be false where {most:.1} % are allowed; {needed}",
        at.hits + at.wrong,
        at.worst() * 100.0
    )
}

fn store(rows: &[Row], lines: &mut Vec<String>) {
    lines.push(String::new());
    lines.push("All questions in one store, each asked of all others: precision/recall".to_owned());
    let mut head = Vec::new();
    for row in rows {
        let name = row.margin.map_or("similarity alone".to_owned(), |margin| format!("guards, margin {margin}"));
        if !head.contains(&name) {
            head.push(name);
        }
    }
    lines.push(format!(
        "   {:<6}{:<11}{}",
        "",
        "threshold",
        head.iter().map(|name| format!("{name:<20}")).collect::<String>()
    ));
    for line in rows.chunks(head.len().max(1)) {
        let Some(first) = line.first() else { continue };
        let cells: String = line
            .iter()
            .map(|row| format!("{:<20}", format!("{}/{:.2}", shown(row.hits, row.wrong), row.recall())))
            .collect();
        lines.push(format!("   {:<6}{:<11.2}{}", first.lang, first.threshold, cells.trim_end()));
    }
}

/// For programs.
pub fn told(curve: &Curve, wish: &Wish) -> Value {
    let points = |points: &[Point]| -> Vec<Value> { points.iter().map(Point::told).collect() };
    let best = Curve::best(&curve.guarded, wish);
    let at = best.map_or(0.0, |best| best.threshold);
    let guards: Vec<Value> = curve
        .refused
        .iter()
        .map(|(guard, wrong, right)| {
            let without =
                curve.without.iter().find(|(other, _)| other == guard).and_then(|(_, points)| Curve::at(points, at));
            json!({
                "guard": guard.name(), "refused_different": wrong, "refused_same": right,
                "without_it": best.and(without).as_ref().map(Point::told),
            })
        })
        .collect();
    json!({
        "lang": curve.lang, "same": curve.same, "different": curve.different,
        "similarity_alone": points(&curve.plain), "with_guards": points(&curve.guarded), "guards": guards,
        "verifier": verify::told(curve),
        "best": best.as_ref().map(Point::told),
        "best_alone": Curve::best(&curve.plain, wish).as_ref().map(Point::told),
    })
}
