-- What this file was written by: the number of the last migration.
CREATE TABLE onefold_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- One row per key. Times are seconds since 1970; `id` is the digest of scope and parts.
CREATE TABLE onefold_entries (
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 32),
    scope       TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('free', 'held', 'done', 'parked')),
    why         TEXT    CHECK (why IN ('in-doubt', 'failed', 'by-hand', 'beyond-memory')),
    token       TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    effect      TEXT    NOT NULL CHECK (effect IN ('joined', 'keyed', 'idempotent', 'one-shot')),
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
