//! The command line.

use std::io;
use std::path::PathBuf;

use crate::measure::Measure;
use crate::target::Kind;

pub(crate) const USAGE: &str = "\
usage: bench [run]   [options]     measures and prints a table, ratios first
       bench limits [options]      what limits cost, and how a loud client disturbs another (--rounds, --gateway, --polite)
       bench caches [options]      what an exact hit costs beside nginx, and what a knowledge base's questions save (--rounds, --gateway, --polite)
       bench records [options]     what request records and kept texts cost (--rounds, --gateway, --polite)
       bench nearest [options]     how the semantic cache's index finds the nearest vectors (--entries, --dimensions, --seconds, --polite)
       bench profile [options]     loads one target with one measure under `perf` and prints where the time goes

  --quick              fewer rounds, shorter samples, no flood: at most a minute
  --polite             does not run before other programs of the machine
  --rounds N           rounds (5; with --quick 3)
  --seconds S          length of one sample, for all measures alike
  --max-seconds S      no round begins that would end after this (230; with --quick 58)
  --targets A,B,…      of direct, nginx, nginx-tuned, relay, gateway (all)
  --only A,B,…         of latency, chat, stream, crowd, flood, embeddings, prompt, memory (all)
  --gateway PATH       the gateway's binary (target/release/mai-gateway)
  --json FILE          writes every sample and every ratio
  --markdown FILE      writes the table for documents
  --perf FILE          profile: keeps perf's data there";

/// Rounds by default.
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 3;

/// Bounds of a whole run, in seconds.
const MAX_SECONDS: f64 = 230.0;
const QUICK_MAX_SECONDS: f64 = 58.0;

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    /// Leave other programs their share of the machine.
    pub(crate) polite: bool,
    pub(crate) rounds: usize,
    /// Length of every sample, where it was given.
    pub(crate) seconds: Option<f64>,
    pub(crate) max_seconds: f64,
    pub(crate) targets: Vec<Kind>,
    pub(crate) measures: Vec<Measure>,
    pub(crate) gateway: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) perf: Option<PathBuf>,
}

impl Options {
    /// Reads the words after the command.
    pub(crate) fn parse(words: &[String]) -> io::Result<Self> {
        let quick = words.iter().any(|word| word == "--quick");
        let words_name_measures = words.iter().any(|word| word == "--only");
        let mut options = Self {
            quick,
            polite: words.iter().any(|word| word == "--polite"),
            rounds: if quick { QUICK_ROUNDS } else { ROUNDS },
            seconds: None,
            max_seconds: if quick { QUICK_MAX_SECONDS } else { MAX_SECONDS },
            targets: Kind::ALL.to_vec(),
            measures: Measure::ALL.to_vec(),
            gateway: PathBuf::from("target/release/mai-gateway"),
            json: None,
            markdown: None,
            perf: None,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            if matches!(flag.as_str(), "--quick" | "--polite") {
                continue;
            }
            let value = words.next().ok_or_else(|| wrong(flag, "needs a value"))?;
            options.set(flag, value)?;
        }
        if quick && !words_name_measures {
            options.measures.retain(|measure| *measure != Measure::Flood);
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> io::Result<()> {
        match flag {
            "--rounds" => self.rounds = number::<usize>(flag, value)?.max(1),
            "--seconds" => self.seconds = Some(number::<f64>(flag, value)?.clamp(0.05, 120.0)),
            "--max-seconds" => self.max_seconds = number(flag, value)?,
            "--targets" => self.targets = list(flag, value, Kind::named)?,
            "--only" => self.measures = list(flag, value, Measure::named)?,
            "--gateway" => self.gateway = value.into(),
            "--json" => self.json = Some(value.into()),
            "--markdown" => self.markdown = Some(value.into()),
            "--perf" => self.perf = Some(value.into()),
            _ => return Err(wrong(flag, "is not known")),
        }
        Ok(())
    }
}

fn list<T>(flag: &str, value: &str, named: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
    value
        .split(',')
        .map(|name| named(name.trim()).ok_or_else(|| wrong(flag, &format!("does not know {name}"))))
        .collect()
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> io::Result<T> {
    value.parse().map_err(|_| wrong(flag, "needs a number"))
}

fn wrong(flag: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{flag} {what}\n\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn flags_are_read() {
        let options = Options::parse(&words("--quick --targets nginx,relay --only chat --seconds 2")).unwrap();
        assert_eq!((options.rounds, options.seconds), (QUICK_ROUNDS, Some(2.0)));
        assert_eq!(options.targets, [Kind::Nginx, Kind::Relay]);
        assert_eq!(options.measures, [Measure::Chat]);
    }

    #[test]
    fn what_is_not_known_is_refused_with_the_usage() {
        for line in ["--fast 1", "--rounds", "--rounds many", "--targets apache"] {
            let error = Options::parse(&words(line)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("usage:"), "{line}");
        }
    }
}
