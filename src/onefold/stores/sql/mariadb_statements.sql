-- First claims are sent as rows; every other batch is one JSON array, so that it is one statement. The server's clock is
-- read once per statement, or once before statements that share a reading. It is read in UTC, because the hour of a zone's
-- clock comes twice when summer ends; it sets version and times. Rows are found by their ids, in the order that they are
-- sent in, so that two batches which share keys wait for each other instead of deadlocking.

-- name: lock
-- Before writes of several kinds: all rows at once, in their order, because one statement after the other would take
-- them in two.
SELECT COUNT(entry.version)
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id char(64) PATH '$')) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY) ON entry.id = UNHEX(wanted.id)
FOR UPDATE;

-- name: clock
-- One reading of the server's clock, for the writes that follow in the same transaction. The reply tells the client what
-- they store, so that it need not read it back.
SELECT
    @onefold_version := TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS version,
    @onefold_now := TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6 AS now;

-- name: insert_rows
-- First claims, each a row of literals. An existing row counts as 0 affected rows, a new one as 1; the client must not set
-- CLIENT_FOUND_ROWS, which would count both as 1.
INSERT INTO onefold_entries (
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due
) VALUES %s
ON DUPLICATE KEY UPDATE onefold_entries.id = onefold_entries.id;

-- name: settle
-- Settles: only the columns that change. The version always changes, so every row that matches counts as affected.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    id char(64) PATH '$[0]',
    expected bigint PATH '$[1]',
    keep double PATH '$[2]',
    body mediumtext PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY)
    ON entry.id = UNHEX(wanted.id) AND entry.version = wanted.expected
SET
    entry.state = 'done',
    entry.why = NULL,
    entry.version = wanted.expected + 1,
    entry.written = @onefold_now,
    entry.not_before = NULL,
    entry.expires = @onefold_now + wanted.keep,
    entry.body = wanted.body,
    entry.due = NULL;

-- name: settle_one
-- The same for one entry, without the temporary table that a JSON array needs.
UPDATE onefold_entries AS entry
SET
    entry.state = 'done',
    entry.why = NULL,
    entry.version = entry.version + 1,
    entry.written = @onefold_now,
    entry.not_before = NULL,
    entry.expires = @onefold_now + %s,
    entry.body = %s,
    entry.due = NULL
WHERE entry.id = %s AND entry.version = %s;

-- name: insert
-- First claims among other changes, or in a caller's transaction: written only where the key is absent. Not INSERT IGNORE, which hides errors and deadlocks.
INSERT INTO onefold_entries (
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due
)
SELECT
    UNHEX(wanted.id), wanted.scope, wanted.state, wanted.why, wanted.token,
    clock.version,
    IF(wanted.fence = 0, clock.version, wanted.fence),
    wanted.effect,
    IF(wanted.begins, clock.now, wanted.begun),
    wanted.lease, clock.now, wanted.attempt, clock.now + wanted.delay, clock.now + wanted.keep,
    wanted.fingerprint, wanted.label, wanted.source, wanted.body,
    CASE wanted.state
        WHEN 'held' THEN clock.now + wanted.lease
        WHEN 'free' THEN clock.now + COALESCE(wanted.delay, 0)
        WHEN 'parked' THEN clock.now
    END
FROM (
    SELECT
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS version,
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6 AS now
) AS clock
STRAIGHT_JOIN JSON_TABLE(%s, '$[*]' COLUMNS (
    id char(64) PATH '$[0]',
    scope varchar(128) PATH '$[1]',
    state varchar(16) PATH '$[2]',
    why varchar(16) PATH '$[3]',
    token text PATH '$[4]',
    fence bigint PATH '$[5]',
    effect varchar(16) PATH '$[6]',
    begun double PATH '$[7]',
    begins int PATH '$[8]',
    lease double PATH '$[9]',
    attempt int PATH '$[10]',
    delay double PATH '$[11]',
    keep double PATH '$[12]',
    fingerprint text PATH '$[13]',
    label text PATH '$[14]',
    source text PATH '$[15]',
    body mediumtext PATH '$[16]'
)) AS wanted
WHERE TRUE
ON DUPLICATE KEY UPDATE onefold_entries.id = onefold_entries.id;

-- name: update
-- Later writes: only on the version that was seen.
UPDATE (
    SELECT
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS version,
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6 AS now
) AS clock
STRAIGHT_JOIN JSON_TABLE(%s, '$[*]' COLUMNS (
    id char(64) PATH '$[0]',
    scope varchar(128) PATH '$[1]',
    state varchar(16) PATH '$[2]',
    why varchar(16) PATH '$[3]',
    token text PATH '$[4]',
    fence bigint PATH '$[5]',
    effect varchar(16) PATH '$[6]',
    begun double PATH '$[7]',
    begins int PATH '$[8]',
    lease double PATH '$[9]',
    attempt int PATH '$[10]',
    delay double PATH '$[11]',
    keep double PATH '$[12]',
    fingerprint text PATH '$[13]',
    label text PATH '$[14]',
    source text PATH '$[15]',
    body mediumtext PATH '$[16]',
    expected bigint PATH '$[17]'
)) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY)
    ON entry.id = UNHEX(wanted.id) AND entry.version = wanted.expected
SET
    entry.state = wanted.state,
    entry.why = wanted.why,
    entry.token = wanted.token,
    entry.version = wanted.expected + 1,
    entry.fence = IF(wanted.fence = 0, wanted.expected + 1, wanted.fence),
    entry.effect = wanted.effect,
    entry.begun = IF(wanted.begins, clock.now, wanted.begun),
    entry.lease = wanted.lease,
    entry.written = clock.now,
    entry.attempt = wanted.attempt,
    entry.not_before = clock.now + wanted.delay,
    entry.expires = clock.now + wanted.keep,
    entry.fingerprint = wanted.fingerprint,
    entry.label = wanted.label,
    entry.source = wanted.source,
    entry.body = wanted.body,
    entry.due = CASE wanted.state
        WHEN 'held' THEN clock.now + wanted.lease
        WHEN 'free' THEN clock.now + COALESCE(wanted.delay, 0)
        WHEN 'parked' THEN clock.now
    END;

-- name: remove
-- Purging: only what is done and expired, and only on the version that was seen.
DELETE entry FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    id char(64) PATH '$[0]',
    expected bigint PATH '$[1]'
)) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY)
    ON entry.id = UNHEX(wanted.id) AND entry.version = wanted.expected
WHERE entry.state = 'done'
    AND entry.expires <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6;

-- name: get
SELECT
    entry.id, entry.scope, entry.state, entry.why, entry.token, entry.version, entry.fence, entry.effect, entry.begun,
    entry.lease, entry.written, entry.attempt, entry.not_before, entry.expires, entry.fingerprint, entry.label,
    entry.source, entry.body, entry.due,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6
FROM JSON_TABLE(%s, '$[*]' COLUMNS (id char(64) PATH '$')) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY) ON entry.id = UNHEX(wanted.id);

-- name: get_one
-- The same for one key, without the temporary table that a JSON array needs.
SELECT
    entry.id, entry.scope, entry.state, entry.why, entry.token, entry.version, entry.fence, entry.effect, entry.begun,
    entry.lease, entry.written, entry.attempt, entry.not_before, entry.expires, entry.fingerprint, entry.label,
    entry.source, entry.body, entry.due,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6
FROM onefold_entries AS entry FORCE INDEX (PRIMARY)
WHERE entry.id = %s;

-- name: scan_open
-- One state at a time, in the order of the index of open entries.
SELECT
    entry.id, entry.scope, entry.state, entry.why, entry.token, entry.version, entry.fence, entry.effect, entry.begun,
    entry.lease, entry.written, entry.attempt, entry.not_before, entry.expires, entry.fingerprint, entry.label,
    entry.source, entry.body, entry.due,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6
FROM onefold_entries AS entry FORCE INDEX (onefold_open)
WHERE entry.state = %s
    AND (
        entry.scope > CAST(%s AS BINARY)
        OR entry.scope = CAST(%s AS BINARY) AND entry.due > %s
        OR entry.scope = CAST(%s AS BINARY) AND entry.due = %s AND entry.id > UNHEX(%s)
    )
    AND (NOT %s OR entry.due <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)
ORDER BY entry.scope, entry.due, entry.id LIMIT %s;

-- name: scan_open_in_scope
SELECT
    entry.id, entry.scope, entry.state, entry.why, entry.token, entry.version, entry.fence, entry.effect, entry.begun,
    entry.lease, entry.written, entry.attempt, entry.not_before, entry.expires, entry.fingerprint, entry.label,
    entry.source, entry.body, entry.due,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6
FROM onefold_entries AS entry FORCE INDEX (onefold_open)
WHERE entry.state = %s AND entry.scope = CAST(%s AS BINARY)
    AND (entry.due > %s OR entry.due = %s AND entry.id > UNHEX(%s))
    AND entry.due <= IF(%s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6, 1e300)
ORDER BY entry.due, entry.id LIMIT %s;

-- name: walk_done
-- Over everything, for purge and export only.
SELECT
    entry.id, entry.scope, entry.state, entry.why, entry.token, entry.version, entry.fence, entry.effect, entry.begun,
    entry.lease, entry.written, entry.attempt, entry.not_before, entry.expires, entry.fingerprint, entry.label,
    entry.source, entry.body, entry.due,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6
FROM onefold_entries AS entry FORCE INDEX (PRIMARY)
WHERE entry.id > UNHEX(%s) AND entry.state = 'done' AND (%s IS NULL OR entry.scope = CAST(%s AS BINARY))
ORDER BY entry.id LIMIT %s;
