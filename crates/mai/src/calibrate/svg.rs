//! The curves as a picture: precision and recall by threshold, one panel for each language.

use std::fmt::Write as _;

use super::curve::{Curve, Point, Wish, as_f64};

/// Of one panel, and of the drawing in it.
const PANEL: (f64, f64) = (460.0, 360.0);
const LEFT: f64 = 52.0;
const TOP: f64 = 56.0;
const INNER: (f64, f64) = (384.0, 236.0);

/// What is drawn: its name, colour and dashes.
const LINES: [(&str, &str, &str); 4] = [
    ("precision, with the guards", "#0b6e4f", ""),
    ("recall, with the guards", "#1d4e89", ""),
    ("precision, similarity alone", "#0b6e4f", "3 4"),
    ("recall, similarity alone", "#1d4e89", "3 4"),
];

/// Draws the curves of all languages.
pub fn draw(route: &str, curves: &[Curve], wish: &Wish) -> String {
    let width = PANEL.0 * as_f64(curves.len().max(1));
    let height = PANEL.1 + 40.0;
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>Precision and recall by threshold, {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escaped(route)
    );
    for (at, curve) in curves.iter().enumerate() {
        let _ = write!(svg, "<g transform=\"translate({},0)\">", PANEL.0 * as_f64(at));
        panel(&mut svg, route, curve, wish);
        svg.push_str("</g>\n");
    }
    legend(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, route: &str, curve: &Curve, wish: &Wish) {
    let (low, high) = range(curve);
    let x = |threshold: f64| LEFT + (threshold - low) / (high - low) * INNER.0;
    let y = |share: f64| TOP + (1.0 - share) * INNER.1;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}, {}</text>\
         <text x=\"{LEFT}\" y=\"42\" fill=\"#555\">{} pairs the same, {} not</text>",
        escaped(route),
        escaped(&curve.lang),
        curve.same,
        curve.different
    );
    axes(svg, (low, high), wish);
    let drawn = [(&curve.guarded, true), (&curve.guarded, false), (&curve.plain, true), (&curve.plain, false)];
    for ((points, is_precision), (_, colour, dashes)) in drawn.into_iter().zip(LINES) {
        let share = |point: &Point| if is_precision { point.precision() } else { point.recall() };
        let shown = points.iter().filter(|point| (low..=high).contains(&point.threshold));
        // Where nothing is hit there is no precision.
        let shown = shown.filter(|point| point.hits + point.wrong > 0);
        let path: Vec<String> =
            shown.map(|point| format!("{:.1},{:.1}", x(point.threshold), y(share(point)))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            path.join(" ")
        );
    }
    if let Some(best) = Curve::best(&curve.guarded, wish) {
        let at = x(best.threshold);
        let _ = write!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#b3541e\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#b3541e\" text-anchor=\"{}\">{:.3}</text>",
            TOP + INNER.1,
            if at > LEFT + INNER.0 / 2.0 { at - 5.0 } else { at + 5.0 },
            TOP + INNER.1 - 8.0,
            if at > LEFT + INNER.0 / 2.0 { "end" } else { "start" },
            best.threshold
        );
    }
}

/// The frame with its scales, and the precision that is wished.
fn axes(svg: &mut String, (low, high): (f64, f64), wish: &Wish) {
    let x = |threshold: f64| LEFT + (threshold - low) / (high - low) * INNER.0;
    let y = |share: f64| TOP + (1.0 - share) * INNER.1;
    for step in 0..=5 {
        let share = f64::from(step) / 5.0;
        let (at, end) = (y(share), LEFT + INNER.0);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" stroke=\"#e3e3e3\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{share:.1}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for step in 0..=4 {
        let threshold = low + (high - low) * f64::from(step) / 4.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{threshold:.2}</text>",
            x(threshold),
            TOP + INNER.1 + 18.0
        );
    }
    let _ = write!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">threshold (cosine similarity)</text>\
         <line x1=\"{LEFT}\" y1=\"{wished:.1}\" x2=\"{}\" y2=\"{wished:.1}\" stroke=\"#b3541e\" stroke-dasharray=\"6 3\"/>",
        INNER.0,
        INNER.1,
        LEFT + INNER.0 / 2.0,
        TOP + INNER.1 + 38.0,
        LEFT + INNER.0,
        wished = y(wish.precision),
    );
}

fn legend(svg: &mut String) {
    let names = LINES.into_iter().chain([("wished precision, and the best threshold", "#b3541e", "6 3")]);
    let mut at = (LEFT, PANEL.1);
    for (place, (name, colour, dashes)) in names.enumerate() {
        if place % 2 == 0 && place > 0 {
            at = (LEFT, at.1 + 18.0);
        }
        let _ = write!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            at.0,
            at.1 - 4.0,
            at.0 + 26.0,
            at.1 - 4.0,
            at.0 + 32.0,
            at.1
        );
        at.0 += 210.0;
    }
    svg.push('\n');
}

/// The thresholds worth drawing, a little beyond those that tell anything.
fn range(curve: &Curve) -> (f64, f64) {
    let rows = curve.rows();
    let low = rows.first().copied().unwrap_or(0.5);
    ((low - 0.02).max(0.5), 1.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
