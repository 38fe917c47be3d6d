-- Each statement takes whole columns as arrays, so that a batch is one statement. The server's clock is read once
-- per statement, and sets version and times. Rows are taken in the order of their ids, so that two batches which
-- share keys wait for each other instead of deadlocking.

-- name: insert
-- First claims: written only where the key is absent.
INSERT INTO onefold_entries (
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due
)
SELECT
    id, scope, state, why, token,
    (clock.now * 1000000)::bigint,
    CASE WHEN fence = 0 THEN (clock.now * 1000000)::bigint ELSE fence END,
    effect,
    CASE WHEN begins THEN clock.now ELSE begun END,
    lease, clock.now, attempt, clock.now + delay, clock.now + keep, fingerprint, label, source, body,
    CASE state
        WHEN 'held' THEN clock.now + lease
        WHEN 'free' THEN clock.now + coalesce(delay, 0)
        WHEN 'parked' THEN clock.now
    END
FROM unnest(
    %s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::float8[], %s::bool[],
    %s::float8[], %s::int[], %s::float8[], %s::float8[], %s::text[], %s::text[], %s::text[], %s::text[]
) AS wanted (
    id, scope, state, why, token, fence, effect, begun, begins,
    lease, attempt, delay, keep, fingerprint, label, source, body
),
(SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
ORDER BY id
ON CONFLICT (id) DO NOTHING;

-- name: update
-- Later writes: only on the version that was seen.
WITH wanted AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest(
        %s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::float8[], %s::bool[],
        %s::float8[], %s::int[], %s::float8[], %s::float8[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[]
    ) AS wanted (
        id, scope, state, why, token, fence, effect, begun, begins,
        lease, attempt, delay, keep, fingerprint, label, source, body, expected
    )
    JOIN onefold_entries AS entry ON entry.id = wanted.id AND entry.version = wanted.expected
    ORDER BY wanted.id
    FOR UPDATE OF entry
)
UPDATE onefold_entries AS entry SET
    state = wanted.state,
    why = wanted.why,
    token = wanted.token,
    version = wanted.expected + 1,
    fence = CASE WHEN wanted.fence = 0 THEN wanted.expected + 1 ELSE wanted.fence END,
    effect = wanted.effect,
    begun = CASE WHEN wanted.begins THEN clock.now ELSE wanted.begun END,
    lease = wanted.lease,
    written = clock.now,
    attempt = wanted.attempt,
    not_before = clock.now + wanted.delay,
    expires = clock.now + wanted.keep,
    fingerprint = wanted.fingerprint,
    label = wanted.label,
    source = wanted.source,
    body = wanted.body,
    due = CASE wanted.state
        WHEN 'held' THEN clock.now + wanted.lease
        WHEN 'free' THEN clock.now + coalesce(wanted.delay, 0)
        WHEN 'parked' THEN clock.now
    END
FROM wanted, (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
WHERE entry.id = wanted.id AND entry.version = wanted.expected;

-- name: remove
-- Purging: only what is done and expired, and only on the version that was seen.
WITH wanted AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest(%s::bytea[], %s::bigint[]) AS wanted (id, expected)
    JOIN onefold_entries AS entry ON entry.id = wanted.id AND entry.version = wanted.expected
    WHERE entry.state = 'done' AND entry.expires <= (SELECT extract(epoch FROM clock_timestamp())::float8)
    ORDER BY wanted.id
    FOR UPDATE OF entry
)
DELETE FROM onefold_entries AS entry
USING wanted
WHERE entry.id = wanted.id AND entry.version = wanted.expected;

-- name: get
SELECT
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due,
    (SELECT extract(epoch FROM clock_timestamp())::float8)
FROM onefold_entries
WHERE id = ANY (%s::bytea[]);

-- name: scan_open
-- One state at a time, in the order of the index of open entries.
SELECT
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due,
    (SELECT extract(epoch FROM clock_timestamp())::float8)
FROM onefold_entries
WHERE state = %s AND state <> 'done' AND (scope, due, id) > (%s, %s::float8, %s::bytea)
    AND (NOT %s OR due <= (SELECT extract(epoch FROM clock_timestamp())::float8))
ORDER BY scope, due, id LIMIT %s;

-- name: scan_open_in_scope
SELECT
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due,
    (SELECT extract(epoch FROM clock_timestamp())::float8)
FROM onefold_entries
WHERE state = %s AND state <> 'done' AND scope = %s AND (due, id) > (%s::float8, %s::bytea)
    AND due <= CASE WHEN %s THEN (SELECT extract(epoch FROM clock_timestamp())::float8) ELSE 'infinity' END
ORDER BY due, id LIMIT %s;

-- name: walk_done
-- Over everything, for purge and export only.
SELECT
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due,
    (SELECT extract(epoch FROM clock_timestamp())::float8)
FROM onefold_entries
WHERE id > %s::bytea AND state = 'done' AND (%s::text IS NULL OR scope = %s)
ORDER BY id LIMIT %s;
