-- What this file was written by: the number of the last migration.
CREATE TABLE onefold_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- One row per key. Times are seconds since 1970; `id` is the digest of scope and parts. The checks avoid IN,
-- for which SQLite would build and drop a table of the listed words with every write.
CREATE TABLE onefold_entries (
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 32),
    scope       TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state = 'free' OR state = 'held' OR state = 'done' OR state = 'parked'),
    why         TEXT    CHECK (why = 'in-doubt' OR why = 'failed' OR why = 'by-hand' OR why = 'beyond-memory'),
    token       TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    effect      TEXT    NOT NULL CHECK (effect = 'joined' OR effect = 'keyed' OR effect = 'idempotent' OR effect = 'one-shot'),
    begun       REAL,
    lease       REAL    NOT NULL,
    written     REAL    NOT NULL,
    attempt     INTEGER NOT NULL,
    not_before  REAL,
    expires     REAL,
    fingerprint TEXT,
    label       TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    body        TEXT,
    due         REAL
) STRICT;

-- Open entries only: lists, retries and recovery read this, however many are done.
CREATE INDEX onefold_open ON onefold_entries (state, scope, due, id) WHERE state <> 'done';
