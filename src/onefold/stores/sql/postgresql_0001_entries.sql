-- What this database was written by: the number of the last migration.
CREATE TABLE onefold_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- One row per key. Times are seconds since 1970 by the server's clock; `id` is the digest of scope and parts.
CREATE TABLE onefold_entries (
    id          bytea            NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    scope       text COLLATE "C" NOT NULL,
    state       text             NOT NULL CHECK (state IN ('free', 'held', 'done', 'parked')),
    why         text             CHECK (why IN ('in-doubt', 'failed', 'by-hand', 'beyond-memory')),
    token       text             NOT NULL,
    version     bigint           NOT NULL,
    fence       bigint           NOT NULL,
    effect      text             NOT NULL CHECK (effect IN ('joined', 'keyed', 'idempotent', 'one-shot')),
    begun       double precision,
    lease       double precision NOT NULL,
    written     double precision NOT NULL,
    attempt     integer          NOT NULL,
    not_before  double precision,
    expires     double precision,
    fingerprint text,
    label       text             NOT NULL,
    source      text             NOT NULL,
    body        text,
    due         double precision
);

-- Open entries only: lists, retries and recovery read this, however many are done.
CREATE INDEX onefold_open ON onefold_entries (state, scope, due, id) WHERE state <> 'done';

-- The same entries for people: the label first, times with a zone.
CREATE VIEW onefold_readable AS
SELECT
    scope,
    label,
    state,
    why,
    effect,
    attempt,
    to_timestamp(written)    AS written_at,
    to_timestamp(begun)      AS begun_at,
    CASE state WHEN 'held' THEN to_timestamp(written + lease) END AS lease_ends_at,
    to_timestamp(not_before) AS next_attempt_at,
    to_timestamp(expires)    AS forgotten_at,
    source,
    body,
    fence,
    encode(id, 'hex')        AS id
FROM onefold_entries;
