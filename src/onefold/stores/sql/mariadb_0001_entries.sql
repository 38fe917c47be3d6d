-- Making a table commits whatever is under way, so every statement here can be repeated by whoever finds the work
-- half done.

-- What this database was written by: the number of the last migration.
CREATE TABLE IF NOT EXISTS onefold_meta (
    name  varchar(64)  NOT NULL PRIMARY KEY,
    value varchar(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row per key. Times are seconds since 1970 by the server's clock; `id` is the digest of scope and parts. A scope
-- is stored as bytes, because even binary collations ignore spaces at the end. The index is for lists, retries and
-- recovery: they read the part of it that is open, however many are done.
CREATE TABLE IF NOT EXISTS onefold_entries (
    id          binary(32)     NOT NULL PRIMARY KEY,
    scope       varbinary(512) NOT NULL,
    state       varchar(16)    NOT NULL CHECK (state IN ('free', 'held', 'done', 'parked')),
    why         varchar(16)    CHECK (why IN ('in-doubt', 'failed', 'by-hand', 'beyond-memory')),
    token       text           NOT NULL,
    version     bigint         NOT NULL,
    fence       bigint         NOT NULL,
    effect      varchar(16)    NOT NULL CHECK (effect IN ('joined', 'keyed', 'idempotent', 'one-shot')),
    begun       double,
    lease       double         NOT NULL,
    written     double         NOT NULL,
    attempt     integer        NOT NULL,
    not_before  double,
    expires     double,
    fingerprint text,
    label       text           NOT NULL,
    source      text           NOT NULL,
    body        mediumtext,
    due         double,
    INDEX onefold_open (state, scope, due, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The same entries for people: the label first, times in the zone of the session.
CREATE OR REPLACE VIEW onefold_readable AS
SELECT
    CONVERT(scope USING utf8mb4) AS scope,
    label,
    state,
    why,
    effect,
    attempt,
    FROM_UNIXTIME(written)    AS written_at,
    FROM_UNIXTIME(begun)      AS begun_at,
    CASE state WHEN 'held' THEN FROM_UNIXTIME(written + lease) END AS lease_ends_at,
    FROM_UNIXTIME(not_before) AS next_attempt_at,
    FROM_UNIXTIME(expires)    AS forgotten_at,
    source,
    body,
    fence,
    LOWER(HEX(id))            AS id
FROM onefold_entries;
