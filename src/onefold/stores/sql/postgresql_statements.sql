-- A batch is sent as whole columns in arrays, one statement for each kind of change. A single change has a statement
-- without arrays (`..._one`). The server's clock is read once per statement, and sets version and times.
-- Batches lock rows in the order of their ids, so that two batches which share keys wait for each other instead of
-- deadlocking.
--
-- A write returns the id, version and time of the rows it wrote. A change that is missing from these rows has lost, and
-- a second statement reads what is stored instead: the first one cannot see a row that was committed after its snapshot.

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
ON CONFLICT (id) DO NOTHING
RETURNING id, version, written;

-- name: insert_one
-- Inserts or reads, and returns a row with the columns of `get`. If the claim was written, only version and written are
-- set in that row. If the key was taken, it is the stored row, and no insert was tried.
-- The statement returns no row, and the look follows, if it cannot be sure what is current: a row that was committed after
-- the snapshot is invisible and only stops the insert; a row that another transaction changed, deleted or locked has that
-- transaction's number in xmax. A batch locks rows before it updates them, and PostgreSQL then leaves xmax = xmin in
-- the new version, which is current.
WITH stored AS MATERIALIZED (
    SELECT
        id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
        fingerprint, label, source, body, due,
        xmax = 0 OR xmax = xmin AS is_current
    FROM onefold_entries
    WHERE id = %s::bytea
),
mine AS (
    INSERT INTO onefold_entries (
        id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
        fingerprint, label, source, body, due
    )
    SELECT
        %s::bytea, %s::text, %s::text, %s::text, %s::text,
        (clock.now * 1000000)::bigint,
        coalesce(nullif(%s::bigint, 0), (clock.now * 1000000)::bigint),
        %s::text,
        CASE WHEN %s::bool THEN clock.now ELSE %s::float8 END,
        %s::float8, clock.now, %s::int, clock.now + %s::float8, clock.now + %s::float8,
        %s::text, %s::text, %s::text, %s::text, clock.now + %s::float8
    FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
    WHERE NOT EXISTS (SELECT FROM stored)
    ON CONFLICT (id) DO NOTHING
    RETURNING version, written
)
SELECT
    NULL, NULL, NULL, NULL, NULL, version, NULL, NULL, NULL, NULL, written, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL,
    NULL
FROM mine
UNION ALL
SELECT
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt, not_before, expires,
    fingerprint, label, source, body, due,
    (SELECT extract(epoch FROM clock_timestamp())::float8)
FROM stored
WHERE is_current;

-- name: lock
-- Sent before the updates, endings and removals of one batch, if it has more than one kind: each of the statements below
-- locks its own rows in order, and all of them together would not.
SELECT
FROM unnest(%s::bytea[], %s::bigint[]) AS wanted (id, expected)
JOIN onefold_entries AS entry ON entry.id = wanted.id AND entry.version = wanted.expected
ORDER BY wanted.id
FOR UPDATE OF entry;

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
WHERE entry.id = wanted.id AND entry.version = wanted.expected
RETURNING entry.id, entry.version, entry.written;

-- name: update_one
UPDATE onefold_entries SET
    state = %s::text,
    why = %s::text,
    token = %s::text,
    version = version + 1,
    fence = coalesce(nullif(%s::bigint, 0), version + 1),
    effect = %s::text,
    begun = CASE WHEN %s::bool THEN clock.now ELSE %s::float8 END,
    lease = %s::float8,
    written = clock.now,
    attempt = %s::int,
    not_before = clock.now + %s::float8,
    expires = clock.now + %s::float8,
    fingerprint = %s::text,
    label = %s::text,
    source = %s::text,
    body = %s::text,
    due = clock.now + %s::float8
FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
WHERE id = %s::bytea AND version = %s::bigint
RETURNING id, version, written;

-- name: settle
-- Endings: every other column stays as the expected version has it.
WITH wanted AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest(
        %s::bytea[], %s::bigint[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::float8[]
    ) AS wanted (id, expected, state, why, delay, keep, body, wait)
    JOIN onefold_entries AS entry ON entry.id = wanted.id AND entry.version = wanted.expected
    ORDER BY wanted.id
    FOR UPDATE OF entry
)
UPDATE onefold_entries AS entry SET
    state = wanted.state,
    why = wanted.why,
    version = wanted.expected + 1,
    written = clock.now,
    not_before = clock.now + wanted.delay,
    expires = clock.now + wanted.keep,
    body = wanted.body,
    due = clock.now + wanted.wait
FROM wanted, (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
WHERE entry.id = wanted.id AND entry.version = wanted.expected
RETURNING entry.id, entry.version, entry.written;

-- name: settle_one
UPDATE onefold_entries SET
    state = %s::text,
    why = %s::text,
    version = version + 1,
    written = clock.now,
    not_before = clock.now + %s::float8,
    expires = clock.now + %s::float8,
    body = %s::text,
    due = clock.now + %s::float8
FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
WHERE id = %s::bytea AND version = %s::bigint
RETURNING id, version, written;

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
WHERE entry.id = wanted.id AND entry.version = wanted.expected
RETURNING entry.id;

-- name: remove_one
DELETE FROM onefold_entries
WHERE id = %s::bytea AND version = %s::bigint
    AND state = 'done' AND expires <= (SELECT extract(epoch FROM clock_timestamp())::float8)
RETURNING id;

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
