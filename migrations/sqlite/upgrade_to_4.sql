-- From layout 3: adds the intake, which holds accepted submissions that have not been processed yet.

CREATE TABLE intake (
    id                 BLOB    PRIMARY KEY CHECK (length(id) = 16),      -- the id of the submission, unless it is a repeat
    form               TEXT    NOT NULL,
    received_at        INTEGER NOT NULL,
    fields             TEXT    NOT NULL,
    sealed             BLOB,
    source             BLOB    NOT NULL CHECK (length(source) = 16),
    sender             BLOB,
    evidence           TEXT    NOT NULL,                                 -- JSON: the facts for screening, or a verdict
    agent              TEXT,
    channels           INTEGER NOT NULL,                                 -- how many channels accepted the form at the time of arrival
    content            BLOB    NOT NULL CHECK (length(content) = 16),    -- keyed hash; a repeat has the same one; see `fingerprint`
    content_expires_at INTEGER,
    idempotency_key    BLOB,                                             -- keyed hash, together with the source and the form
    key_expires_at     INTEGER,
    error              TEXT                                              -- why it could not be processed; such rows are set aside
) STRICT, WITHOUT ROWID;

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;

-- The ids of repeats, and of the submissions that they repeated. Rows are kept for a day.
CREATE TABLE repeat (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    submission BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- All accepted submissions, processed or not. Both parts have the same types, so that SQLite looks up rows in either by its key.
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error
    FROM intake;
