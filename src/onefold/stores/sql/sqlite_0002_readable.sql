-- The same entries for people, in any SQLite browser: ISO times in UTC, the label first.
CREATE VIEW onefold_readable AS
SELECT
    scope,
    label,
    state,
    why,
    effect,
    attempt,
    strftime('%Y-%m-%dT%H:%M:%fZ', written, 'unixepoch')    AS written_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', begun, 'unixepoch')      AS begun_at,
    CASE state WHEN 'held' THEN strftime('%Y-%m-%dT%H:%M:%fZ', written + lease, 'unixepoch') END AS lease_ends_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', not_before, 'unixepoch') AS next_attempt_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', expires, 'unixepoch')    AS forgotten_at,
    source,
    body,
    fence,
    lower(hex(id)) AS id
FROM onefold_entries;
