-- From layout 5: floods of a form, marks of suspicious submissions, and a fair order of deliveries.

ALTER TABLE intake ADD COLUMN network BLOB CHECK (length(network) = 16);
ALTER TABLE submission ADD COLUMN suspicious INTEGER NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1));
ALTER TABLE submission ADD COLUMN flood INTEGER NOT NULL DEFAULT 0 CHECK (flood IN (0, 1));
ALTER TABLE delivery ADD COLUMN form TEXT NOT NULL DEFAULT '';
ALTER TABLE delivery ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;

UPDATE delivery SET form = (SELECT form FROM submission WHERE id = submission) WHERE state <> 'delivered';

CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX delivery_turn ON delivery (channel, form, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;

-- How much of its quota each form has used up.
CREATE TABLE form_rate (
    form    TEXT    PRIMARY KEY,
    minute  INTEGER NOT NULL,               -- when the quotas of a minute and an hour are restored, in microseconds
    hour    INTEGER NOT NULL,
    over_at INTEGER                         -- during a flood: when a submission last exceeded the quota
) STRICT, WITHOUT ROWID;

-- How much each network has sent lately.
CREATE TABLE network_rate (
    form    TEXT    NOT NULL,
    network BLOB    NOT NULL CHECK (length(network) = 16),
    rested  INTEGER NOT NULL,               -- when nothing of it counts any more, in microseconds
    PRIMARY KEY (network, form)
) STRICT, WITHOUT ROWID;

CREATE INDEX network_rate_rested ON network_rate (rested);

DROP VIEW accepted;
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error, suspicious
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error, CAST(0 AS INTEGER)
    FROM intake;
