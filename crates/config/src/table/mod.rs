//! Every key of the configuration, as data.
//!
//! From this one table come the check of what is written, the JSON Schema, the reference page, the
//! defaults that [`crate::compile`] fills in, and the warning for a key that this version accepts but
//! does not honour yet. A new key is one row here and, once it is in force, one line in `compile`.

mod client;
mod general;
mod provider;
mod route;

use base::Family;

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Below its section's prefix; `[]` stands for each item of a list.
    pub path: &'static str,
    pub kind: Kind,
    pub preset: Preset,
    /// For people: what it decides. The unit belongs to the kind.
    pub text: &'static str,
    pub force: Force,
    pub is_required: bool,
}

/// What may be written for a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Text that is not empty.
    Text,
    /// The name of an object: not empty, at most 128 bytes, of letters that are seen, each written in one way.
    Name,
    /// Text that no message, log or page ever shows.
    Secret,
    /// The address of a service, with one of these schemes. Its password is never shown.
    Url(&'static [&'static str]),
    /// An address to listen on.
    Address,
    /// A regular expression with this many groups at least.
    Pattern(usize),
    /// A name in which `*` stands for any run of characters.
    Glob,
    /// The path of one of the data port's endpoints.
    Endpoint,
    /// A file that is read with the configuration; relative to the file that names it.
    File,
    /// A folder.
    Folder,
    /// A length of time above zero.
    Duration,
    /// A length of time, possibly zero.
    Wait,
    /// Bytes.
    Size(u64, u64),
    /// A whole number in this range, ends included.
    Integer(u64, u64),
    /// A number above the first and up to the second.
    Above(f64, f64),
    /// A number in this range, ends included.
    Number(f64, f64),
    Bool,
    /// The name of a protocol.
    Protocol,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A mapping with keys of its own, which are rows of the table.
    Table,
    /// A list; of tables where the rows below it say so.
    List(&'static Kind),
    /// A mapping with free keys.
    Map(&'static Kind),
    /// Whatever JSON can say.
    Any,
    /// One of several forms, told apart by scalar, list and mapping.
    Either(&'static [Kind]),
}

/// What holds when a key is not written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preset {
    /// The feature is off, or the key is required.
    Nothing,
    /// This value, written as a configuration would write it.
    Is(&'static str),
    /// One value for each family of endpoints: chat, embeddings, rerank.
    By(&'static str, &'static str, &'static str),
    /// Something that depends on more than this key; in words.
    Words(&'static str),
}

/// The items of a list that is a default, such as `[1s, 3s]`.
pub(crate) fn preset_items(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.trim_matches(['[', ']']).split(", ")
}

impl Preset {
    /// The value in writing, where it is one.
    pub const fn value(self, family: Family) -> Option<&'static str> {
        match (self, family) {
            (Self::Is(value), _) => Some(value),
            (Self::By(value, _, _), Family::Chat)
            | (Self::By(_, value, _), Family::Embeddings)
            | (Self::By(_, _, value), Family::Rerank) => Some(value),
            (Self::Nothing | Self::Words(_), _) => None,
        }
    }
}

/// Whether this version does what the key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    Now,
    /// Accepted with a warning; the capability that brings it into force.
    With(&'static str),
}

/// Rows that stand below one or several places of the tree.
pub(crate) struct Section {
    /// Prefixes, each empty or ending in a dot.
    pub under: &'static [&'static str],
    pub keys: &'static [Key],
}

/// The table.
pub(crate) const SECTIONS: &[&[Section]] = &[general::SECTIONS, provider::SECTIONS, route::SECTIONS, client::SECTIONS];

pub(crate) const SHARED_STATE: &str = "shared state";

const HTTP: Kind = Kind::Url(&["https", "http"]);
const RATE: Kind = Kind::Above(0.0, 1e9);
const SHARE: Kind = Kind::Above(0.0, 1.0);
const COUNT: Kind = Kind::Integer(1, 1_000_000_000);

const fn key(path: &'static str, kind: Kind, preset: Preset, text: &'static str) -> Key {
    Key { path, kind, preset, text, force: Force::Now, is_required: false }
}

/// A key without a default that must be written.
const fn needed(path: &'static str, kind: Kind, text: &'static str) -> Key {
    Key { path, kind, preset: Preset::Nothing, text, force: Force::Now, is_required: true }
}

impl Key {
    /// Not in force before this capability.
    const fn with(mut self, capability: &'static str) -> Self {
        self.force = Force::With(capability);
        self
    }
}
