//! The command line. Its help texts are its reference.

mod admin;
mod objects;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use admin::*;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Parser, Subcommand};
pub use objects::*;

/// The one entry in front of all models: chat, embeddings and rerank over many providers, behind
/// one address and one key per team.
#[derive(Debug, Parser)]
#[command(name = "mai-gateway", version, about, long_about = None, arg_required_else_help = true,
    after_help = "First steps:\n  mai-gateway serve              run with what is found: provider keys, Ollama, else a mock\n  mai-gateway check -c my.yaml   find every problem of a configuration\n  mai-gateway serve -c my.yaml   run with it\n\nWhile it runs, with MAI_ADMIN_TOKEN set (to a token of the gateway; without a\nconfiguration to the `adm-…` that serve prints):\n  mai-gateway keys new --client online-qa   give a team a key\n  mai-gateway requests list                 see what was called, and how it went\n  mai-gateway breakers list                 see which upstreams take calls\n\nEnvironment, beside what stands with each option:\n  MAI_SECRET_KEY   64 hex digits, under which secrets made through the admin API are\n                   kept; else a key is made in the data folder (secrets.key)\n\nExit codes: 0 done or a clean stop, 1 bad configuration or a refusal, 2 bad usage.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway
    ///
    /// Without any configuration it serves what it finds: provider keys in the usual environment
    /// variables, an Ollama on its usual port, else the built-in mock; it makes a client key and an
    /// admin token and prints once how to call it.
    Serve(ServeFlags),
    /// Validate a configuration and print every problem with its place and what to do
    Check(ConfigAt),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print what would happen to a request, without sending anything
    Explain(ExplainFlags),
    /// Print what was used, by client, route, model and day, as a running gateway has it
    ///
    /// Requests, tokens and cost, including what is not written to the database yet. Sums of several
    /// currencies stand side by side; what has no known price is said to have none. The client `-` is the gateway
    /// itself, which asks for vectors of questions to match; the model `-` stands where no upstream was asked or none
    /// has answered.
    Usage(UsageFlags),
    /// Give clients keys while the gateway runs, list them, take them back
    #[command(subcommand)]
    Keys(Keys),
    /// Look at routes and change them while the gateway runs
    #[command(subcommand)]
    Routes(Objects),
    /// Look at providers and change them while the gateway runs
    #[command(subcommand)]
    Providers(Objects),
    /// Look at clients and change them while the gateway runs
    #[command(subcommand)]
    Clients(Objects),
    /// Print providers, routes and clients of a running gateway as a configuration file
    #[command(
        after_help = "Example:\n  mai-gateway export > all.yaml\n  mai-gateway import all.yaml --admin http://other:8081"
    )]
    Export(ExportFlags),
    /// Make all providers, routes and clients of a configuration file in a running gateway, or none
    #[command(
        after_help = "Examples:\n  mai-gateway import team.yaml --dry-run\n  CLOUD_KEY=sk-… mai-gateway import team.yaml"
    )]
    Import(ImportFlags),
    /// What is cached, and the levers over it
    #[command(subcommand)]
    Cache(Cache),
    /// Which upstreams take calls; take calls away from one, or give them back
    #[command(subcommand)]
    Breakers(Breakers),
    /// What was called and how it went: a list, or one request as a story
    #[command(subcommand)]
    Requests(Requests),
    /// Who has changed what, the newest first
    #[command(after_help = "Example:\n  mai-gateway audit --object routes/rag-chat --since 7d")]
    Audit(AuditFlags),
    /// Inject faults into an upstream, to see what callers would see
    #[command(subcommand)]
    Drills(Drills),
    /// Recommend a threshold for semantic matching, from labelled pairs of questions or from request records
    ///
    /// A similarity means nothing without the model that it comes from: 0.93 is a copy to one model and any
    /// question to another. So measure: give pairs of questions that are the same and pairs that only look
    /// so, at best your own callers' words and their near misses (another number, another product, the
    /// opposite), fifty of each or more. Each pair's similarity is asked of the embedding route of a gateway
    /// that runs, and held against the words' own differences, which no match may have (the guards).
    ///
    /// The tables say, by threshold, how many of the hits would be right (precision) and how many of the
    /// paraphrases would be hit (recall), with the guards and without. The recommended threshold is the one
    /// with most hits at the wished precision. Where none reaches it, this says so and ends with code 1.
    #[command(
        after_help = "Pairs are JSON objects, one a line; `lang` and `kind` may be missing:\n  {\"a\": \"How do I get a refund?\", \"b\": \"What are the steps to be refunded?\", \"same\": true}\n  {\"a\": \"How do I open an account?\", \"b\": \"How do I close an account?\", \"same\": false}\n\nPairs that your callers have asked come from request records, from shadow mode at best:\n  mai-gateway calibrate --from-requests --write-pairs pairs.jsonl   # label them, then\n  mai-gateway calibrate pairs.jsonl --route rag-embedding --svg curve.svg\n  mai-gateway calibrate --from-requests --route rag-embedding       # a first look, by guessed labels"
    )]
    Calibrate(CalibrateFlags),
    /// Run a scripted upstream: chat, embeddings, rerank, and every kind of fault
    Mock(MockFlags),
}

/// Where the configuration is.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigAt {
    /// A YAML or JSON file, or a folder of them [default: /etc/mai-gateway where it exists]
    // An empty variable is let through here: it counts as not set.
    #[arg(short, long, env = "MAI_CONFIG", value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub config: Option<PathBuf>,
}

/// Flags of `serve`. A flag beats its environment variable, which beats the file.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeFlags {
    /// Where the configuration is.
    #[command(flatten)]
    pub at: ConfigAt,
    /// The data port, for callers [default: 0.0.0.0:8080]
    #[arg(long, env = "MAI_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// The admin port: health, metrics, levers [default: 127.0.0.1:8081]
    #[arg(long, env = "MAI_ADMIN_LISTEN", value_name = "ADDR:PORT")]
    pub admin_listen: Option<String>,
    /// Where the gateway keeps its data [default: /var/lib/mai-gateway; without a configuration ./mai-data where that
    /// cannot be written]
    #[arg(long, env = "MAI_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<String>,
    /// error, warn, info, debug or trace [default: info]
    #[arg(long, env = "MAI_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Threads that serve calls [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
}

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainFlags {
    /// Where the configuration is.
    #[command(flatten)]
    pub at: ConfigAt,
    /// The client that asks, by its configured name
    #[arg(long, value_name = "NAME")]
    pub client: String,
    /// The request's JSON body in a file; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub request: PathBuf,
    /// The path that it would be posted to [default: told by its fields]
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Flags of `usage`.
#[derive(Debug, clap::Args)]
pub struct UsageFlags {
    /// Which gateway.
    #[command(flatten)]
    pub at: AdminAt,
    /// By what: client, route, model, upstream and day, in this order
    #[arg(long, visible_alias = "group-by", default_value = "client", value_name = "NAME,…")]
    pub by: String,
    /// From this day (UTC) or instant on [default: the beginning]
    #[arg(long, value_name = "2026-11-30")]
    pub from: Option<String>,
    /// Up to the end of this day, or to this instant [default: now]
    #[arg(long, value_name = "2026-11-30")]
    pub to: Option<String>,
    /// Of this client alone
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Print JSON instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print CSV instead of a table
    #[arg(long)]
    pub csv: bool,
}

/// Flags of `calibrate`.
#[derive(Debug, clap::Args)]
pub struct CalibrateFlags {
    /// Labelled pairs, one JSON object a line; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "from_requests", conflicts_with = "from_requests")]
    pub pairs: Option<PathBuf>,
    /// Take pairs from the request records of a gateway instead: what was asked, and the nearest question before
    ///
    /// That takes `records: { content: true }`, a route with `cache.semantic` and a token of role admin. Whether both
    /// are the same is guessed from the answers to both, where these say so.
    #[arg(long)]
    pub from_requests: bool,
    /// Only write the pairs of the requests to this new file, for a person to label
    #[arg(long, value_name = "FILE", requires = "from_requests")]
    pub write_pairs: Option<PathBuf>,
    /// With `--from-requests`: those of this route alone
    #[arg(long, value_name = "NAME", requires = "from_requests")]
    pub of_route: Option<String>,
    /// With `--from-requests`: from then on, a day, an instant, or so long ago
    #[arg(long, value_name = "2026-11-30|2h", default_value = "7d")]
    pub since: String,
    /// The embedding route, as callers name it
    #[arg(long, value_name = "NAME", required_unless_present = "write_pairs")]
    pub route: Option<String>,
    /// The data port of a gateway, or any server with `/v1/embeddings`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// A key of a client that may use the route
    #[arg(long, env = "MAI_KEY", value_name = "KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Of a hundred hits, how many must be right: 0.95 is 95
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = number)]
    pub precision: f64,
    /// The same, the other way round: the share of false hits that is borne
    #[arg(long, value_name = "SHARE", conflicts_with = "precision", value_parser = number)]
    pub false_hits: Option<f64>,
    /// Also put all questions into one store, and ask each of all others
    #[arg(long)]
    pub store: bool,
    /// With `--store`: how far a match must stand above the best entry that is a different question
    #[arg(long, value_name = "NUMBER,…", default_value = "0,0.02")]
    pub margin: String,
    /// Also ask this rerank or chat route whether both are the same, as `semantic.verify` does
    ///
    /// It is asked about what the guards let through, and about what only the guards call different that
    /// `semantic.verify.overrules` may name: one call a pair.
    #[arg(long, value_name = "NAME", conflicts_with = "write_pairs")]
    pub verify: Option<String>,
    /// With `--verify`: the least score of a rerank route
    #[arg(long, value_name = "SCORE", default_value_t = 0.9, requires = "verify", value_parser = number)]
    pub min_score: f64,
    /// Draw the curves into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Whose requests.
    #[command(flatten)]
    pub at: AdminAt,
}

impl CalibrateFlags {
    /// The margins to measure.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub fn margins(&self) -> Result<Vec<f64>, String> {
        let margins = self.margin.split(',').map(|margin| margin.trim().parse::<f64>().ok());
        let margins = margins.map(|margin| margin.filter(|margin| (0.0..=1.0).contains(margin)));
        margins
            .collect::<Option<_>>()
            .ok_or_else(|| format!("--margin {}: numbers from 0 to 1, such as 0,0.02", self.margin))
    }
}

/// Flags of `mock`.
#[derive(Debug, clap::Args)]
pub struct MockFlags {
    /// The port; 0 takes a free one and prints it
    #[arg(long, default_value_t = 9090, value_name = "N")]
    pub port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR", value_parser = address)]
    pub host: std::net::IpAddr,
    /// What it plays: a YAML or JSON file; without one it answers everything pleasantly
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "write a number such as 0.9".to_owned())
}

fn address(text: &str) -> Result<std::net::IpAddr, String> {
    text.parse().map_err(|_| "write an IP address such as 127.0.0.1, or 0.0.0.0 for all of this machine".to_owned())
}

impl MockFlags {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_begin_with_a_hyphen() {
        for words in [
            &["cache", "remove", "-wz0_K"][..],
            &["keys", "revoke", "-wz0_K"],
            &["drills", "stop", "-wz0_K"],
            &["requests", "show", "-wz0_K"],
            &["cache", "kb-version", "rag-chat", "-1"],
        ] {
            let given = ["mai-gateway"].iter().chain(words).chain(&["--admin", "http://a:1"]);
            assert!(Args::try_parse_from(given).is_ok(), "{words:?}");
        }
        let unset = ["mai-gateway", "cache", "kb-version", "rag-chat", "--unset"];
        let Command::Cache(Cache::KbVersion { version, unset, .. }) = Args::parse_from(unset).command else {
            panic!("another command")
        };
        assert_eq!((version, unset), (None, true));
    }
}
