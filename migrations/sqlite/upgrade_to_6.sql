-- From layout 5: gives rowids to the tables with large rows, because SQLite reads whole rows to find one in a table WITHOUT ROWID, and moves
-- `fields` and `sealed` to the end. Adds an index on submissions that are not held, for retention, and columns and tables for floods,
-- suspicious submissions and the order of deliveries. Foreign keys are not enforced during this migration.

DROP VIEW accepted;

CREATE TABLE intake_6 (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),
    sender          BLOB,
    channels        INTEGER NOT NULL,
    content         BLOB    NOT NULL CHECK (length(content) = 16),
    idempotency_key BLOB,
    error           TEXT,
    network         BLOB    CHECK (length(network) = 16),
    agent           TEXT,
    evidence        TEXT    NOT NULL,
    fields          TEXT    NOT NULL,
    sealed          BLOB
) STRICT;
INSERT INTO intake_6
    (id, form, received_at, source, sender, channels, content, idempotency_key, error, agent, evidence, fields, sealed)
    SELECT id, form, received_at, source, sender, channels, content, idempotency_key, error, agent, evidence, fields, sealed
    FROM intake ORDER BY id;
DROP TABLE intake;
ALTER TABLE intake_6 RENAME TO intake;
CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;

CREATE TABLE submission_6 (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),
    sender          BLOB,
    repeats         INTEGER NOT NULL DEFAULT 0,
    content         BLOB    CHECK (length(content) = 16),
    idempotency_key BLOB,
    score           INTEGER,
    withheld        INTEGER NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1)),
    suspicious      INTEGER NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1)),
    flood           INTEGER NOT NULL DEFAULT 0 CHECK (flood IN (0, 1)),
    held_at         INTEGER,
    released_at     INTEGER,
    agent           TEXT,
    held_because    TEXT,
    reasons         TEXT,
    fields          TEXT    NOT NULL,
    sealed          BLOB
) STRICT;
INSERT INTO submission_6
    (id, form, received_at, source, sender, repeats, content, idempotency_key, score, withheld, held_at, released_at, agent, held_because,
     reasons, fields, sealed)
    SELECT id, form, received_at, source, sender, repeats, content, idempotency_key, score, withheld, held_at, released_at, agent, held_because,
     reasons, fields, sealed
    FROM submission ORDER BY id;
DROP TABLE submission;
ALTER TABLE submission_6 RENAME TO submission;
CREATE INDEX submission_held ON submission (held_at, id) WHERE held_at IS NOT NULL;
CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;
CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;

ALTER TABLE delivery ADD COLUMN form TEXT NOT NULL DEFAULT '';
ALTER TABLE delivery ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
UPDATE delivery SET form = (SELECT form FROM submission WHERE id = submission) WHERE state <> 'delivered';
CREATE INDEX delivery_turn ON delivery (channel, form, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;

-- How much of its quota each form has used up.
CREATE TABLE form_rate (
    form    TEXT    PRIMARY KEY,
    minute  INTEGER NOT NULL,               -- when the quotas per minute and per hour are fully restored, in microseconds
    hour    INTEGER NOT NULL,
    over_at INTEGER                         -- during a flood: when a submission last exceeded the quota
) STRICT, WITHOUT ROWID;

-- How much each network has sent recently.
CREATE TABLE network_rate (
    form    TEXT    NOT NULL,
    network BLOB    NOT NULL CHECK (length(network) = 16),
    rested  INTEGER NOT NULL,               -- when none of its submissions count any more, in microseconds
    PRIMARY KEY (network, form)
) STRICT, WITHOUT ROWID;

CREATE INDEX network_rate_rested ON network_rate (rested);

CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error, suspicious
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error, CAST(0 AS INTEGER)
    FROM intake;
