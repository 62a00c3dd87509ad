//! What the admin API asks of whoever holds the configuration.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use config::{Problem, Written};
use state::Unreadable;
use state::objects::{Change, Deed};

/// Something under way. What has begun is brought to its end, also where whoever asked goes away.
pub type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes the text of an export. It takes long, so it is left to whoever has a place for that.
pub type Export = Box<dyn FnOnce() -> String + Send>;

/// Holds the configuration: files, and the objects of the admin API. One thing is changed at a time.
pub trait Configuring: Send + Sync {
    /// What is in force, secrets masked.
    fn written(&self) -> Arc<Written>;

    /// Makes a change: checks the whole configuration that comes of it by the same code as a file's, keeps it, and takes
    /// it into force for every call that begins later. Or does nothing.
    ///
    /// Files are not read again: it is the last sound state of them that the objects are put to.
    fn change(&self, wish: Wish) -> Doing<Result<Changed, NotChanged>>;

    /// Everything as a file, with what is needed to make it anew elsewhere; credentials of providers stand in it as
    /// variables (`${CLOUD_API_KEY}`), and of issued keys nothing but their `sha256:<hex>` where `with_key_hashes` is set.
    fn export(&self, with_key_hashes: bool) -> Doing<Result<Export, Unreadable>>;
}

/// A change that somebody wishes.
#[derive(Clone, Debug)]
pub struct Wish {
    /// In this order, all or none. The revision of an object that is put is counted by whoever makes the change.
    pub changes: Vec<(Expected, Change)>,
    /// Who wishes it, for the audit log, in which each object that is put or removed has a row, with what was there
    /// before and what is after. Where this names an object itself, as an import does, they have its action, and it
    /// stands behind them.
    pub deed: Deed,
    /// Only say what would become of it.
    pub dry_run: bool,
}

/// What must be true of an object before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Whatever,
    /// There is none of this name.
    Absent,
    /// There is one.
    Present,
    /// Its revision is this one.
    Revision(u64),
}

/// A change that was made, or would be.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// What was in force before it.
    pub before: Arc<Written>,
    /// What is in force with it.
    pub written: Arc<Written>,
    /// What it is well to know.
    pub warnings: Vec<Problem>,
}

/// Why nothing was changed.
#[derive(Clone, Debug)]
pub enum NotChanged {
    /// The object of this kind and name is written in a file, at this place: there it is changed.
    InFile(String),
    /// An object is there already, or is not there, or has been changed meanwhile: what was expected is not true.
    Unexpected(Expected),
    /// The whole would not be sound. Paths name objects as a file's would: `routes[rag-chat].upstreams[0].provider`.
    Unsound(Vec<Problem>),
    /// It could not be kept.
    Unkept(Unreadable),
    /// It is not known whether it was kept. Where it was, it comes into force as soon as that is known.
    Unknown(Unreadable),
}
