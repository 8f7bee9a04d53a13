-- From layout 1: adds the intake, which holds accepted submissions that have not been processed yet.

CREATE TABLE intake (
    id                 uuid    PRIMARY KEY,
    form               text    NOT NULL,
    received_at        bigint  NOT NULL,
    fields             json    NOT NULL,
    sealed             bytea,
    source             bytea   NOT NULL CHECK (octet_length(source) = 16),
    sender             bytea,
    evidence           json    NOT NULL,
    agent              text,
    channels           integer NOT NULL,
    content            bytea   NOT NULL CHECK (octet_length(content) = 16),
    content_expires_at bigint,
    idempotency_key    bytea,
    key_expires_at     bigint,
    error              text
);

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;

CREATE TABLE repeat (
    id         uuid PRIMARY KEY,
    submission uuid NOT NULL
);

CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS integer) AS channels, CAST(NULL AS text) AS error
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS bigint), sealed, CAST(NULL AS bigint), CAST(NULL AS text), sender,
           CAST(NULL AS integer), CAST(NULL AS json), 0, CAST(NULL AS bigint), agent, channels, error
    FROM intake;
