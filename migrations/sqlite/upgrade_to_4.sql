-- From layout 3: the intake, which holds what was accepted and is not processed yet.

CREATE TABLE intake (
    id                 BLOB    PRIMARY KEY CHECK (length(id) = 16),      -- as in `submission`, whose row it becomes unless it repeats another
    form               TEXT    NOT NULL,
    received_at        INTEGER NOT NULL,
    fields             TEXT    NOT NULL,
    sealed             BLOB,
    source             BLOB    NOT NULL CHECK (length(source) = 16),
    sender             BLOB,
    evidence           TEXT    NOT NULL,                                 -- what it is screened by: facts of the request, or a verdict; JSON
    agent              TEXT,
    channels           INTEGER NOT NULL,                                 -- how many took its form when it arrived
    content            BLOB    NOT NULL CHECK (length(content) = 16),    -- what a repeat would have in common with it; see `fingerprint`
    content_expires_at INTEGER,
    idempotency_key    BLOB,                                             -- keyed hash, with source and form
    key_expires_at     INTEGER,
    error              TEXT                                              -- why it could not be processed: it is set aside
) STRICT, WITHOUT ROWID;

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;

-- Which submission a request repeated, by the request's id. Kept for a day.
CREATE TABLE repeat (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    submission BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Everything that was accepted and not removed, processed or not. Both parts have the same types, so that SQLite looks up either by its key.
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error
    FROM intake;
