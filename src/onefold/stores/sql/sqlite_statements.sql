-- name: insert
-- A first claim: written only if the key is absent; the number of changed rows tells. (RETURNING would tell
-- too, by way of a temporary table for every statement.)
INSERT INTO onefold_entries (
    id, scope, state, why, token, version, fence, effect, begun, lease, written, attempt,
    not_before, expires, fingerprint, label, source, body, due
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: update
-- Any later write: only on the version that was seen.
UPDATE onefold_entries SET
    state = ?, why = ?, token = ?, version = ?, fence = ?, effect = ?, begun = ?, lease = ?, written = ?,
    attempt = ?, not_before = ?, expires = ?, fingerprint = ?, label = ?, source = ?, body = ?, due = ?
WHERE id = ? AND version = ?;

-- name: settle
-- An ending that leaves everything else as it is. SQLite then checks the constraints of these columns only.
UPDATE onefold_entries SET
    state = 'done', why = NULL, version = ?, written = ?, not_before = NULL, expires = ?, body = ?, due = NULL
WHERE id = ? AND version = ?;

-- name: remove
-- Purging: only what is done and expired, and only on the version that was seen.
DELETE FROM onefold_entries
WHERE id = ? AND version = ? AND state = 'done' AND expires <= ?;

-- name: get
SELECT * FROM onefold_entries WHERE id = ?;

-- name: scan_open
-- One state at a time, in the order of the index of open entries.
SELECT * FROM onefold_entries
WHERE state = ?1 AND state <> 'done' AND (scope, due, id) > (?2, ?3, ?4) AND due <= ?5
ORDER BY scope, due, id LIMIT ?6;

-- name: scan_open_in_scope
SELECT * FROM onefold_entries
WHERE state = ?1 AND state <> 'done' AND scope = ?7 AND (due, id) > (?3, ?4) AND due <= ?5
ORDER BY due, id LIMIT ?6;

-- name: walk_done
-- Over everything, for purge and export only.
SELECT * FROM onefold_entries
WHERE id > ?1 AND state = 'done' AND (?2 IS NULL OR scope = ?2)
ORDER BY id LIMIT ?3;
