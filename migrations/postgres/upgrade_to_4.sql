-- From layout 3: adds columns and tables for floods, suspicious submissions and the order of deliveries. Adds an index on submissions that
-- are not held, for retention, and indexes that find the newest submission with a content hash or idempotency key without reading the others.

ALTER TABLE intake ADD COLUMN network bytea CHECK (octet_length(network) = 16);
ALTER TABLE submission ADD COLUMN suspicious integer NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1)),
    ADD COLUMN flood integer NOT NULL DEFAULT 0 CHECK (flood IN (0, 1));
ALTER TABLE delivery ADD COLUMN form text NOT NULL DEFAULT '', ADD COLUMN rank integer NOT NULL DEFAULT 0;

UPDATE delivery SET form = submission.form FROM submission WHERE submission.id = delivery.submission AND state <> 'delivered';

CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;
DROP INDEX submission_content;
DROP INDEX submission_key;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX delivery_turn ON delivery (channel, form, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;

CREATE TABLE form_rate (
    form    text   PRIMARY KEY,
    minute  bigint NOT NULL,
    hour    bigint NOT NULL,
    over_at bigint
);

CREATE TABLE network_rate (
    form    text   NOT NULL,
    network bytea  NOT NULL CHECK (octet_length(network) = 16),
    rested  bigint NOT NULL,
    PRIMARY KEY (network, form)
);

CREATE INDEX network_rate_rested ON network_rate (rested);

DROP VIEW accepted;
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS integer) AS channels, CAST(NULL AS text) AS error, suspicious
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS bigint), sealed, CAST(NULL AS bigint), CAST(NULL AS text), sender,
           CAST(NULL AS integer), CAST(NULL AS json), 0, CAST(NULL AS bigint), agent, channels, error, 0
    FROM intake;
