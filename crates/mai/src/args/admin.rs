//! Commands that speak to the admin port of a running gateway.

use std::path::PathBuf;

use base::{Cached, Matched, Outcome};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;

/// The heading of [`AdminAt`]'s options in every help.
pub const WHICH_GATEWAY: &str = "Which gateway";

/// Where a running gateway's admin port is, and who asks.
#[derive(Debug, Clone, clap::Args)]
pub struct AdminAt {
    /// The admin port of the gateway, over http or https
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081", help_heading = WHICH_GATEWAY)]
    pub admin: String,
    /// A token of `admin.tokens`; better in the variable: everybody on the machine sees command lines
    #[arg(long, env = "MAI_ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = WHICH_GATEWAY)]
    pub token: Option<String>,
    /// A file that holds the token; goes before --token
    #[arg(long, value_name = "FILE", help_heading = WHICH_GATEWAY)]
    pub token_file: Option<PathBuf>,
    /// Certificates to trust besides the system's, in PEM, where the URL begins with https
    #[arg(long, value_name = "FILE", help_heading = WHICH_GATEWAY)]
    pub ca: Option<PathBuf>,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Form {
    /// Print JSON, as the admin API answers, instead of a text for people
    #[arg(long)]
    pub json: bool,
}

/// What `keys` does.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a key for a client; it is shown this once
    ///
    /// The key alone goes to standard output and everything else to standard error, so that a script can keep it.
    /// The gateway keeps a digest: nobody can look the key up later.
    #[command(
        after_help = "Examples:\n  mai-gateway keys new --client online-qa --note \"for the search team\"\n  KEY=$(mai-gateway keys new --client online-qa --expires 90d)"
    )]
    New {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The client, by name; it may be one of a file
        #[arg(long, value_name = "NAME")]
        client: String,
        /// What the key is for, or who has it
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// How long it is good: a day (to its end, UTC), an instant, or a length of time [default: for good]
        #[arg(long, value_name = "2027-01-01|90d")]
        expires: Option<String>,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// List the keys of a client, or of all; never the keys themselves
    ///
    /// Keys that were issued have ids such as `key_2f9c41d07b`. Those that stand in a client's own `keys` have no names, and are
    /// numbered in their order: `written_1` is the first. They are taken out where the client is written, not by `keys revoke`.
    #[command(after_help = "Example:\n  mai-gateway keys list --client online-qa")]
    List {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Of this client alone
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Take a key back at once: the next call with it is refused
    #[command(
        after_help = "Example:\n  mai-gateway keys revoke key_2f9c41d07b\n\nIds are those of `keys list`. A key that stands in a client's own `keys` (`written_1` and so on)\nis taken out where the client is written."
    )]
    Revoke {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The key's id
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
        /// Whose it is [default: it is looked for]
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
    },
}

/// What `cache` does.
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// What is cached, in memory and on disk, by route
    Stats {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Remove what matches all that is given; it is served no more from then on
    #[command(
        after_help = "Examples:\n  mai-gateway cache purge --route rag-chat --dry-run   # how much would go\n  mai-gateway cache purge --route rag-chat\n  mai-gateway cache purge --all"
    )]
    Purge {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// What goes.
        #[command(flatten)]
        which: Which,
        /// Only count it
        #[arg(long)]
        dry_run: bool,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Remove one answer, by the id that came with it (`x-mai-cache-id`)
    #[command(after_help = "Example:\n  mai-gateway cache remove 8c0f…   # the id of the answer's header")]
    Remove {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The answer's id
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
    /// Say that a route's knowledge base is a new one: answers that rest on an older are served no more
    #[command(
        after_help = "Examples:\n  mai-gateway cache kb-version rag-chat 2026-12   # after documents were replaced\n  mai-gateway cache kb-version rag-chat           # which one holds\n  mai-gateway cache kb-version rag-chat --unset   # leave it to the file again"
    )]
    KbVersion {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The route, by name
        #[arg(value_name = "ROUTE")]
        route: String,
        /// The version from now on [default: print the one that holds]
        #[arg(value_name = "VERSION", allow_hyphen_values = true)]
        version: Option<String>,
        /// Leave it to the file again
        #[arg(long, conflicts_with = "version")]
        unset: bool,
    },
}

/// What of the cache goes.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Which {
    /// Of this route
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,
    /// Kept for this client alone
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Of this kind: answer, ranking, vector, replay or question
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Everything
    #[arg(long, conflicts_with_all = ["route", "client", "kind"])]
    pub all: bool,
}

/// What `breakers` does.
#[derive(Debug, Subcommand)]
pub enum Breakers {
    /// Every upstream: whether it takes calls, since when, and who holds it
    List {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Take calls away from an upstream and hold it so
    #[command(
        after_help = "Example:\n  mai-gateway breakers open cloud/gpt-4o-mini --for 30m   # while the provider repairs it\n\nA hold survives reloads of the configuration, not a restart."
    )]
    Open {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Which upstream.
        #[command(flatten)]
        upstream: Upstream,
        /// For so long, such as 30m [default: until it is closed by hand]
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        long: Option<String>,
    },
    /// Give an upstream its calls back, whether its own failures or a hand has opened it
    #[command(after_help = "Example:\n  mai-gateway breakers close cloud/gpt-4o-mini")]
    Close {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Which upstream.
        #[command(flatten)]
        upstream: Upstream,
    },
}

/// An upstream.
#[derive(Debug, clap::Args)]
pub struct Upstream {
    /// The upstream: PROVIDER/MODEL, as `breakers list` and the log name it
    #[arg(value_name = "UPSTREAM")]
    pub upstream: String,
    /// In this route alone [default: in every route that has it]
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,
}

/// What `drills` does.
#[derive(Debug, Subcommand)]
pub enum Drills {
    /// The faults that are injected now
    List {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Inject a fault into calls to an upstream, for a bounded time
    #[command(
        after_help = "Examples:\n  mai-gateway drills start cloud/gpt-4o-mini --status 503 --percent 50 --for 5m\n  mai-gateway drills start cloud/gpt-4o-mini --latency 3s --for 2m\n\nOnly where the gateway's configuration says `drills: enabled`."
    )]
    Start {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Which upstream.
        #[command(flatten)]
        upstream: Upstream,
        /// What goes wrong.
        #[command(flatten)]
        harm: Harm,
        /// For so long: an hour at most
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        long: String,
        /// Of a hundred calls, how many [default: all]
        #[arg(long, value_name = "N", value_parser = percent)]
        percent: Option<f64>,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// End one before its time
    Stop {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Its id, as `drills list` names it
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

/// What goes wrong in a drill.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Harm {
    /// Answers come so much later, such as 2s or 500ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub latency: Option<String>,
    /// Calls are answered with this status
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(400..=599))]
    pub status: Option<u16>,
    /// The connection breaks
    #[arg(long, conflicts_with = "status")]
    pub reset: bool,
}

/// What `requests` does.
#[derive(Debug, Subcommand)]
pub enum Requests {
    /// The latest requests, the newest first
    #[command(
        after_help = "Examples:\n  mai-gateway requests list --client online-qa --since 1h\n  mai-gateway requests list --outcome upstream_timeout --limit 100"
    )]
    List(Box<Seek>),
    /// Why one request went as it did: every decision and every attempt on a line of time
    #[command(
        after_help = "Example:\n  mai-gateway requests show 01JD…   # the id of the answer's header x-request-id, or of `requests list`"
    )]
    Show {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The request's id
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
        /// Also what was asked and answered, where `records.content` keeps it; wants a token of role admin
        #[arg(long)]
        content: bool,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
}

/// What a cache may have come to, as requests are searched by it.
fn cached() -> PossibleValuesParser {
    PossibleValuesParser::new(Cached::ALL.map(Cached::as_str).into_iter().chain([Matched::SHADOW]))
}

/// Which requests.
#[derive(Debug, clap::Args)]
pub struct Seek {
    /// Which gateway.
    #[command(flatten)]
    pub at: AdminAt,
    /// Of this client
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Of this route
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,
    /// Answered with this status, such as 429, or with one of these: 5xx
    #[arg(long, value_name = "CODE", value_parser = status)]
    pub status: Option<String>,
    /// That ended so
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Outcome::ALL.map(Outcome::as_str)))]
    pub outcome: Option<String>,
    /// Answered by this upstream, or tried there
    #[arg(long, value_name = "UPSTREAM")]
    pub upstream: Option<String>,
    /// What the cache said, as in `x-mai-cache`; shadow: what it would have served
    #[arg(long, value_name = "WORD", value_parser = cached())]
    pub cache: Option<String>,
    /// How far back, how many.
    #[command(flatten)]
    pub span: Span,
    /// How to print.
    #[command(flatten)]
    pub form: Form,
}

/// Which part of a long list.
#[derive(Debug, clap::Args)]
pub struct Span {
    /// From then on: a day, an instant, or so long ago (2h)
    #[arg(long, value_name = "2026-11-30|2h")]
    pub since: Option<String>,
    /// Up to then
    #[arg(long, value_name = "2026-11-30|2h")]
    pub until: Option<String>,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Go on where a list has ended: the `next` that it has printed
    #[arg(long, value_name = "NEXT")]
    pub after: Option<String>,
    /// Look for them so long; what is found by then is printed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = length)]
    pub patience: std::time::Duration,
}

/// Flags of `audit`.
#[derive(Debug, clap::Args)]
pub struct AuditFlags {
    /// Which gateway.
    #[command(flatten)]
    pub at: AdminAt,
    /// Done with the token of this name
    #[arg(long, value_name = "NAME")]
    pub who: Option<String>,
    /// Done to this, or to what lies below it: routes, routes/rag-chat, clients/online-qa
    #[arg(long, value_name = "PATH")]
    pub object: Option<String>,
    /// How far back, how many.
    #[command(flatten)]
    pub span: Span,
    /// How to print.
    #[command(flatten)]
    pub form: Form,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
    number.ok_or_else(|| "write a number above 0, up to 100".to_owned())
}

/// Read as it is sent on: what is no length of time is wrong usage.
fn time(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let is_length = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(unit, "ms" | "s" | "m" | "h" | "d");
    if is_length { Ok(text.to_owned()) } else { Err("write a length of time such as 30s, 10m or 1h".to_owned()) }
}

/// Read as it is sent on.
fn status(text: &str) -> Result<String, String> {
    let (class, rest) = text.split_at_checked(1).unwrap_or_default();
    let is_rest = rest == "xx" || (rest.len() == 2 && rest.bytes().all(|byte| byte.is_ascii_digit()));
    let is_status = matches!(class, "1" | "2" | "3" | "4" | "5") && is_rest;
    if is_status {
        Ok(text.to_owned())
    } else {
        Err("write a status such as 429, or a class from 1xx to 5xx".to_owned())
    }
}

fn length(text: &str) -> Result<std::time::Duration, String> {
    let (count, unit) = text.split_at_checked(text.len().saturating_sub(1)).unwrap_or_default();
    let unit = ["s", "m", "h"].iter().position(|known| *known == unit).and_then(|at| [1, 60, 3_600].get(at).copied());
    let seconds = count.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
    let length = seconds.filter(|seconds| (1..=86_400).contains(seconds)).map(std::time::Duration::from_secs);
    length.ok_or_else(|| "write a length of time such as 30s or 10m, up to 24h".to_owned())
}
