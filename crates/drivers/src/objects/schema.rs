//! The tables, and how a file of an older version comes to have them.

/// One for each version that a file may have, in order. They are never changed, only added to. Times are milliseconds
/// from the Unix epoch.
pub(super) const MIGRATIONS: &[&str] = &[
    // 1. A sealed text that is known shows whether a key is the right one.
    "CREATE TABLE seal (only INTEGER PRIMARY KEY CHECK (only = 1), proof BLOB NOT NULL) STRICT;
     CREATE TABLE objects (
         kind TEXT NOT NULL,
         name TEXT NOT NULL,
         written BLOB NOT NULL,
         revision INTEGER NOT NULL,
         changed INTEGER NOT NULL,
         PRIMARY KEY (kind, name)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE gone (
         removal INTEGER PRIMARY KEY,
         kind TEXT NOT NULL,
         name TEXT NOT NULL,
         revision INTEGER NOT NULL,
         UNIQUE (kind, name)
     ) STRICT;
     CREATE TABLE keys (
         at INTEGER PRIMARY KEY,
         id TEXT NOT NULL UNIQUE,
         mark BLOB NOT NULL UNIQUE,
         client TEXT NOT NULL,
         digest BLOB NOT NULL,
         note TEXT NOT NULL,
         issued_by TEXT NOT NULL,
         created INTEGER NOT NULL,
         expires INTEGER,
         last_used INTEGER
     ) STRICT;
     CREATE INDEX keys_by_client ON keys (client);
     CREATE TABLE deeds (
         id INTEGER PRIMARY KEY,
         at INTEGER NOT NULL,
         who TEXT NOT NULL,
         role TEXT NOT NULL,
         action TEXT NOT NULL,
         object TEXT NOT NULL,
         before TEXT,
         after TEXT
     ) STRICT",
];
