//! The tables: ratios to nginx first, against what is wanted, then the figures themselves.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};

use serde_json::{Value, json};

use crate::book::Book;
use crate::measure::Figure;
use crate::options::Options;
use crate::target::Kind;
use crate::workload;

/// Other processes' share of the machine above which the report warns.
const BUSY: f64 = 0.1;

/// How a row compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The figure over nginx's.
    Ratio,
    /// What the target adds to the direct way, over what nginx adds.
    AddedRatio,
    /// The figure itself.
    Value,
}

/// What is wanted of a row.
#[derive(Clone, Copy)]
enum Wanted {
    AtMost(f64),
    AtLeast(f64),
    Nothing,
}

/// A row of the first table.
struct Row {
    key: &'static str,
    label: &'static str,
    figure: Figure,
    by: By,
    wanted: Wanted,
}

const fn row(key: &'static str, label: &'static str, figure: Figure, by: By, wanted: Wanted) -> Row {
    Row { key, label, figure, by, wanted }
}

const ROWS: [Row; 16] = [
    row("chat_cpu", "CPU per short chat", Figure::ChatCpuUs, By::Ratio, Wanted::AtMost(2.0)),
    row("chat_calls", "calls/s, 32 connections", Figure::ChatCallsPerSecond, By::Ratio, Wanted::AtLeast(0.7)),
    row("latency_added", "added p50, 1 connection, 1 core", Figure::LatencyP50Us, By::AddedRatio, Wanted::AtMost(1.6)),
    row("chunk_cpu", "CPU per stream chunk", Figure::ChunkCpuUs, By::Ratio, Wanted::AtMost(1.5)),
    row("chunk_delay_added", "added chunk delay p50", Figure::ChunkDelayUs, By::AddedRatio, Wanted::AtMost(2.0)),
    row("crowd_chunks", "chunks/s, 1,000 streams", Figure::CrowdChunksPerSecond, By::Ratio, Wanted::AtLeast(0.9)),
    row("crowd_chunk_cpu", "CPU per chunk, 1,000 streams", Figure::CrowdChunkCpuUs, By::Ratio, Wanted::Nothing),
    row("flood_chunks", "chunks/s, 1,000 streams flat out", Figure::FloodChunksPerSecond, By::Ratio, Wanted::Nothing),
    row("flood_chunk_cpu", "CPU per chunk, flat out", Figure::FloodChunkCpuUs, By::Ratio, Wanted::Nothing),
    row("embeddings_cpu", "CPU per 32 x 1,024 embeddings", Figure::EmbeddingsCpuUs, By::Ratio, Wanted::AtMost(1.5)),
    row("embeddings_calls", "embeddings calls/s", Figure::EmbeddingsCallsPerSecond, By::Ratio, Wanted::Nothing),
    row("prompt_cpu", "CPU per 200 KB prompt", Figure::PromptCpuUs, By::Ratio, Wanted::AtMost(2.0)),
    row("prompt_calls", "200 KB prompts/s", Figure::PromptCallsPerSecond, By::Ratio, Wanted::Nothing),
    row("idle_mb", "MB idle", Figure::IdleMb, By::Value, Wanted::AtMost(20.0)),
    row("streams_mb", "MB with 1,000 streams open", Figure::StreamsMb, By::Value, Wanted::AtMost(80.0)),
    row("flood_mb", "MB with 1,000 streams flat out", Figure::FloodMb, By::Value, Wanted::Nothing),
];

/// Median, least and most of the rounds.
#[derive(Clone, Copy)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(Spread { median: f64::midpoint(lower, upper), least: *values.first()?, most: *values.last()? })
}

impl Row {
    /// The row's comparison for `kind`, paired by round.
    fn compare(&self, book: &Book, kind: Kind) -> Option<Spread> {
        let rounds = 0..book.rounds.max(1);
        spread(rounds.filter_map(|round| self.compare_in(book, round, kind)).collect())
    }

    fn compare_in(&self, book: &Book, round: usize, kind: Kind) -> Option<f64> {
        let own = book.find(round, kind, self.figure)?;
        let ratio = match self.by {
            By::Value => return Some(own),
            By::Ratio => own / book.find(round, Kind::Nginx, self.figure)?,
            By::AddedRatio => {
                let direct = book.find(round, Kind::Direct, self.figure)?;
                let nginx = book.find(round, Kind::Nginx, self.figure)? - direct;
                // A round in which nginx seems to add nothing was disturbed and says nothing.
                if nginx <= 0.0 {
                    return None;
                }
                (own - direct) / nginx
            }
        };
        ratio.is_finite().then_some(ratio)
    }

    /// The figure of `kind` itself; for `AddedRatio` what it adds to the direct way.
    fn absolute(&self, book: &Book, kind: Kind) -> Option<Spread> {
        let rounds = 0..book.rounds.max(1);
        let values = rounds.filter_map(|round| {
            let own = book.find(round, kind, self.figure)?;
            match (self.by, kind) {
                (By::AddedRatio, Kind::Nginx | Kind::Tuned | Kind::Relay | Kind::Gateway) => {
                    Some(own - book.find(round, Kind::Direct, self.figure)?)
                }
                _ => Some(own),
            }
        });
        spread(values.collect())
    }

    fn verdict(&self, value: f64) -> &'static str {
        let kept = match self.wanted {
            Wanted::AtMost(most) => value <= most,
            Wanted::AtLeast(least) => value >= least,
            Wanted::Nothing => return "",
        };
        if kept { "ok" } else { "MISSED" }
    }

    fn wanted_text(&self) -> String {
        match self.wanted {
            Wanted::AtMost(most) => format!("<= {most}"),
            Wanted::AtLeast(least) => format!(">= {least}"),
            Wanted::Nothing => String::new(),
        }
    }
}

const fn unit(figure: Figure) -> &'static str {
    match figure {
        Figure::LatencyP50Us
        | Figure::ChatCpuUs
        | Figure::ChunkCpuUs
        | Figure::ChunkDelayUs
        | Figure::CrowdChunkCpuUs
        | Figure::FloodChunkCpuUs
        | Figure::EmbeddingsCpuUs
        | Figure::PromptCpuUs => "µs",
        Figure::ChatCallsPerSecond
        | Figure::CrowdChunksPerSecond
        | Figure::FloodChunksPerSecond
        | Figure::EmbeddingsCallsPerSecond
        | Figure::PromptCallsPerSecond => "/s",
        Figure::IdleMb | Figure::StreamsMb | Figure::FloodMb => "MB",
    }
}

const fn key(figure: Figure) -> &'static str {
    match figure {
        Figure::LatencyP50Us => "latency_p50_us",
        Figure::ChatCpuUs => "chat_cpu_us",
        Figure::ChatCallsPerSecond => "chat_calls_per_second",
        Figure::ChunkCpuUs => "chunk_cpu_us",
        Figure::ChunkDelayUs => "chunk_delay_p50_us",
        Figure::CrowdChunksPerSecond => "crowd_chunks_per_second",
        Figure::CrowdChunkCpuUs => "crowd_chunk_cpu_us",
        Figure::FloodChunksPerSecond => "flood_chunks_per_second",
        Figure::FloodChunkCpuUs => "flood_chunk_cpu_us",
        Figure::EmbeddingsCpuUs => "embeddings_cpu_us",
        Figure::EmbeddingsCallsPerSecond => "embeddings_calls_per_second",
        Figure::PromptCpuUs => "prompt_cpu_us",
        Figure::PromptCallsPerSecond => "prompt_calls_per_second",
        Figure::IdleMb => "idle_mb",
        Figure::StreamsMb => "streams_mb",
        Figure::FloodMb => "flood_mb",
    }
}

/// A figure with its name, for a line of progress.
pub(crate) fn figure(figure: Figure, value: f64) -> String {
    format!("{} {}", key(figure), plain(value))
}

fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints the tables, writes the files that were asked for; an error where an answer was wrong.
pub(crate) fn write(options: &Options, book: &Book) -> io::Result<()> {
    let table = tables(options, book);
    io::stdout().write_all(table.as_bytes())?;
    if let Some(file) = &options.markdown {
        fs::write(file, &table)?;
    }
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_vec_pretty(&as_json(options, book))?)?;
    }
    if book.wrong.is_empty() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{} samples had wrong answers; their figures do not count", book.wrong.len())))
    }
}

/// Both tables in Markdown, padded so that they read well as they are.
fn tables(options: &Options, book: &Book) -> String {
    let kinds: Vec<Kind> = [Kind::Gateway, Kind::Relay, Kind::Nginx, Kind::Tuned, Kind::Direct]
        .into_iter()
        .filter(|kind| options.targets.contains(kind))
        .collect();
    let mut text = String::new();
    text.push_str(&ratio_table(book, &kinds));
    text.push('\n');
    text.push_str(&absolute_table(book, &kinds));
    let _ = write!(
        text,
        "\n{} rounds in {:.0} s; medians of rounds, least and most in brackets. Other processes used {:.0} % of the machine.\n{}\n",
        book.rounds,
        book.seconds,
        book.foreign_share * 100.0,
        bodies()
    );
    if book.foreign_share > BUSY {
        text.push_str(
            "The machine was busy: calls per second, latencies and delays are disturbed, CPU ratios less so.\n",
        );
    }
    for wrong in &book.wrong {
        let _ = writeln!(text, "WRONG: {wrong}");
    }
    text
}

fn ratio_table(book: &Book, kinds: &[Kind]) -> String {
    let compared: Vec<Kind> =
        kinds.iter().copied().filter(|kind| matches!(kind, Kind::Gateway | Kind::Relay | Kind::Tuned)).collect();
    let names = compared.iter().map(|kind| kind.name());
    let mut lines = vec![["against nginx", "wanted"].into_iter().chain(names).chain([""]).map(String::from).collect()];
    for row in &ROWS {
        let mut line = vec![row.label.to_owned(), row.wanted_text()];
        let mut verdict = String::new();
        for kind in &compared {
            let spread = row.compare(book, *kind);
            line.push(spread.map_or_else(String::new, |s| match row.by {
                By::Value => format!("{:.1} MB", s.median),
                By::Ratio | By::AddedRatio => format!("{:.2} ({:.2} to {:.2})", s.median, s.least, s.most),
            }));
            if let (Kind::Gateway, Some(spread)) = (kind, spread) {
                row.verdict(spread.median).clone_into(&mut verdict);
            }
        }
        if line.iter().skip(2).any(|cell| !cell.is_empty()) {
            line.push(verdict);
            lines.push(line);
        }
    }
    render(&lines)
}

fn absolute_table(book: &Book, kinds: &[Kind]) -> String {
    let names = kinds.iter().map(|kind| kind.name());
    let mut lines = vec![std::iter::once("figures").chain(names).map(String::from).collect()];
    for row in &ROWS {
        let mut line = vec![format!("{}, {}", row.label, unit(row.figure))];
        for kind in kinds {
            let spread = row.absolute(book, *kind);
            let note = if row.by == By::AddedRatio && *kind == Kind::Direct { " in all" } else { "" };
            line.push(spread.map_or_else(String::new, |s| match (*kind, row.figure) {
                // The direct way has no process of its own, and so no CPU and no memory.
                (Kind::Direct, _) if s.median <= 0.0 => String::new(),
                _ => format!("{}{note}", plain(s.median)),
            }));
        }
        if line.iter().skip(1).any(|cell| !cell.is_empty()) {
            lines.push(line);
        }
    }
    render(&lines)
}

/// A Markdown table whose first line is the head.
fn render(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text.push('|');
        for column in 0..columns {
            let cell = line.get(column).map_or("", String::as_str);
            let _ = write!(text, " {cell:<width$} |", width = width(column));
        }
        text.push('\n');
        if at == 0 {
            text.push('|');
            for column in 0..columns {
                let _ = write!(text, " {:-<width$} |", "", width = width(column));
            }
            text.push('\n');
        }
    }
    text
}

fn as_json(options: &Options, book: &Book) -> Value {
    let mut ratios = serde_json::Map::new();
    for row in &ROWS {
        let mut targets = serde_json::Map::new();
        for kind in options.targets.iter().filter(|kind| **kind != Kind::Direct) {
            if let Some(s) = row.compare(book, *kind) {
                let verdict = row.verdict(s.median);
                let value = json!({ "median": s.median, "least": s.least, "most": s.most, "verdict": verdict });
                targets.insert(kind.name().to_owned(), value);
            }
        }
        ratios.insert(row.key.to_owned(), json!({ "wanted": row.wanted_text(), "targets": targets }));
    }
    let samples = book.entries.iter().map(|entry| {
        json!({ "round": entry.round + 1, "target": entry.kind.name(), "figure": key(entry.figure), "value": entry.value })
    });
    json!({
        "rounds": book.rounds,
        "seconds": book.seconds,
        "foreign_share": book.foreign_share,
        "wrong": book.wrong,
        "against_nginx": ratios,
        "samples": samples.collect::<Vec<_>>(),
    })
}

/// What the report says about the bodies.
fn bodies() -> String {
    format!(
        "bodies: short chat {} B with its head, answer {} B; chunk {} B; embeddings answer {} KB; long prompt {} KB",
        workload::short_chat().bytes.len(),
        workload::chat_answer().len(),
        workload::EVENT_BYTES,
        workload::embeddings_answer().len() / 1000,
        workload::long_prompt().bytes.len() / 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Entry;

    fn book(figure: Figure, rounds: &[[f64; 3]]) -> Book {
        let kinds = [Kind::Direct, Kind::Nginx, Kind::Gateway];
        let entries = rounds.iter().enumerate().flat_map(|(round, values)| {
            kinds.iter().zip(values).map(move |(kind, value)| Entry { round, kind: *kind, figure, value: *value })
        });
        Book { entries: entries.collect(), rounds: rounds.len(), ..Book::default() }
    }

    fn row(figure: Figure) -> &'static Row {
        ROWS.iter().find(|row| row.figure == figure).unwrap()
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let book = book(Figure::ChatCpuUs, &[[0.0, 10.0, 20.0], [0.0, 20.0, 30.0], [0.0, 10.0, 18.0]]);
        let spread = row(Figure::ChatCpuUs).compare(&book, Kind::Gateway).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.5, 1.8, 2.0));
    }

    #[test]
    fn what_is_added_is_compared_with_what_nginx_adds() {
        let book = book(Figure::LatencyP50Us, &[[10.0, 20.0, 25.0], [10.0, 30.0, 50.0]]);
        let spread = row(Figure::LatencyP50Us).compare(&book, Kind::Gateway).unwrap();
        assert_eq!((spread.least, spread.most), (1.5, 2.0));
    }

    #[test]
    fn a_round_in_which_nginx_seems_to_add_nothing_says_nothing() {
        let book = book(Figure::LatencyP50Us, &[[10.0, 9.0, 25.0]]);
        assert!(row(Figure::LatencyP50Us).compare(&book, Kind::Gateway).is_none());
    }

    #[test]
    fn a_verdict_looks_the_right_way() {
        assert_eq!(row(Figure::ChatCpuUs).verdict(1.9), "ok");
        assert_eq!(row(Figure::ChatCpuUs).verdict(2.1), "MISSED");
        assert_eq!(row(Figure::CrowdChunksPerSecond).verdict(0.8), "MISSED");
    }

    #[test]
    fn a_target_without_figures_leaves_its_cells_empty() {
        let table = ratio_table(&book(Figure::ChatCpuUs, &[[0.0, 10.0, 20.0]]), &[Kind::Gateway, Kind::Relay]);
        assert_eq!(table.lines().count(), 3);
        assert!(table.contains("| 2.00 (2.00 to 2.00) |"));
    }
}
