//! Commands about providers, routes and clients.

use std::path::PathBuf;

use clap::Subcommand;

use super::{AdminAt, Form};

/// What `routes`, `providers` and `clients` do.
#[derive(Debug, Subcommand)]
pub enum Objects {
    /// List them: files' and those of the admin API
    List {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Print one as it is written; what is secret stands as `[secret]`
    ///
    /// The text may be changed and put back: `[secret]` keeps the secret that stood there.
    Show {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Change one in your editor (`$VISUAL`, `$EDITOR`, else vi)
    ///
    /// What changes is printed, and written only if nobody else has changed it meanwhile. A refused text is kept.
    Edit {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make what stands in a file, or put it in the place of what has its name
    ///
    /// The file is YAML or JSON: one object, a list of them, or a configuration's own section of them. `${VAR}` in it is
    /// filled from this command's environment, never from the gateway's. What changes is printed. Each is written only
    /// if nobody else has changed it meanwhile.
    #[command(
        after_help = "Examples, for routes (providers and clients alike):\n  mai-gateway routes put rag-chat.yaml --dry-run\n  mai-gateway routes show rag-chat > rag-chat.yaml   # change it, then\n  mai-gateway routes put rag-chat.yaml\n  echo '{\"name\": \"chat\", \"upstream\": {\"url\": \"http://10.0.0.5:8000/v1/chat/completions\"}}' | mai-gateway routes put -\n\nWhat stands in a file of the gateway is changed in that file; several kinds at once go with `mai-gateway import`."
    )]
    Put {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// The file; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Only print what would change, and what is wrong with it
        #[arg(long)]
        dry_run: bool,
        /// How to print.
        #[command(flatten)]
        form: Form,
    },
    /// Remove one that was made through the admin API
    Delete {
        /// Which gateway.
        #[command(flatten)]
        at: AdminAt,
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Only say whether it could be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Print all of this kind as a file; credentials stand in it as variables
    Export(ExportFlags),
    /// Make all of this kind that stand in a configuration file, or none
    Import(ImportFlags),
}

/// Flags of `export`.
#[derive(Debug, clap::Args)]
pub struct ExportFlags {
    /// Which gateway.
    #[command(flatten)]
    pub at: AdminAt,
    /// Also the digests of keys that clients were issued, so that they are good elsewhere too; wants a token of role admin
    #[arg(long)]
    pub key_hashes: bool,
}

/// Flags of `import`.
#[derive(Debug, clap::Args)]
pub struct ImportFlags {
    /// Which gateway.
    #[command(flatten)]
    pub at: AdminAt,
    /// A configuration file; `-` for standard input. `${VAR}` is filled from this command's environment
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Overwrite what was made through the admin API under the same names
    #[arg(long)]
    pub replace: bool,
    /// Only print what would be made, and what is wrong with it
    #[arg(long)]
    pub dry_run: bool,
    /// How to print.
    #[command(flatten)]
    pub form: Form,
}
