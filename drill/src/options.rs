//! The command line.

use std::io;
use std::path::PathBuf;

use crate::incident::Incident;
use crate::incidents::ALL;

pub(crate) const USAGE: &str = "\
usage: drill [options]     plays incidents against the gateway and prints what its callers saw of them

  --gateway PATH       the gateway's binary (target/debug/mai-gateway)
  --only A,B,…         of the incidents' names (all)
  --json FILE          writes every figure and every promise
  --keep DIR           leaves the gateway's configuration, access log and own log there, and what reached upstreams";

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) gateway: PathBuf,
    pub(crate) incidents: Vec<&'static Incident>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) keep: Option<PathBuf>,
}

impl Options {
    /// Reads the words of the command line.
    pub(crate) fn parse(words: &[String]) -> io::Result<Self> {
        let mut options = Self {
            gateway: PathBuf::from("target/debug/mai-gateway"),
            incidents: ALL.iter().collect(),
            json: None,
            keep: None,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| wrong(&format!("{flag} needs a value")))?;
            match flag.as_str() {
                "--gateway" => options.gateway = value.into(),
                "--only" => options.incidents = value.split(',').map(named).collect::<io::Result<_>>()?,
                "--json" => options.json = Some(value.into()),
                "--keep" => options.keep = Some(value.into()),
                _ => return Err(wrong(&format!("{flag} is not known"))),
            }
        }
        Ok(options)
    }
}

fn named(name: &str) -> io::Result<&'static Incident> {
    ALL.iter().find(|incident| incident.name == name.trim()).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|incident| incident.name).collect();
        wrong(&format!("no incident is called {name}; there are {}", names.join(", ")))
    })
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}\n\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> io::Result<Options> {
        Options::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read() {
        let options = parse("--only hung,storm --json a.json").unwrap();
        let names: Vec<&str> = options.incidents.iter().map(|incident| incident.name).collect();
        assert_eq!(names, ["hung", "storm"]);
        assert_eq!(options.json, Some(PathBuf::from("a.json")));
        assert_eq!(parse("").unwrap().incidents.len(), ALL.len());
    }

    #[test]
    fn what_is_not_known_is_refused_with_the_usage() {
        for line in ["--fast 1", "--only", "--only flood", "--help"] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("usage:"), "{line}");
        }
    }
}
