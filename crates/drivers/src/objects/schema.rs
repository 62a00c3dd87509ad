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
    // 2. What the texts of the audit log take, so that it can be bounded without reading all of it.
    "CREATE TABLE deeds_size (only INTEGER PRIMARY KEY CHECK (only = 1), bytes INTEGER NOT NULL) STRICT;
     INSERT INTO deeds_size
         SELECT 1, COALESCE(SUM(COALESCE(octet_length(before), 0) + COALESCE(octet_length(after), 0)), 0) FROM deeds;
     CREATE TRIGGER deed_written AFTER INSERT ON deeds BEGIN
         UPDATE deeds_size SET bytes = bytes
             + COALESCE(octet_length(NEW.before), 0) + COALESCE(octet_length(NEW.after), 0);
     END;
     CREATE TRIGGER deed_gone AFTER DELETE ON deeds BEGIN
         UPDATE deeds_size SET bytes = bytes
             - COALESCE(octet_length(OLD.before), 0) - COALESCE(octet_length(OLD.after), 0);
     END",
];
