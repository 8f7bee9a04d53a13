-- The inbox: what was accepted, and what makes a repeat recognisable.

-- What belongs to this database as a whole: `secret` keys every hash in it.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each accepted submission. Later tables refer to it by id.
CREATE TABLE submission (
    id          BLOB    PRIMARY KEY CHECK (length(id) = 16),  -- UUID version 7: in order of arrival
    form        TEXT    NOT NULL,
    received_at INTEGER NOT NULL,                             -- Unix time in milliseconds
    status      TEXT    NOT NULL,
    fields      TEXT    NOT NULL,                             -- a JSON object, members in the form's order
    source      BLOB    NOT NULL CHECK (length(source) = 16), -- keyed hash of the sender's address
    repeats     INTEGER NOT NULL DEFAULT 0                    -- how often it was sent again
) STRICT, WITHOUT ROWID;

-- Keyed hashes of what a repeat would have in common with a submission. One may outlive its submission:
-- it then counts for nothing.
CREATE TABLE fingerprint (
    key        BLOB    PRIMARY KEY CHECK (length(key) = 16),
    submission BLOB    NOT NULL,
    expires_at INTEGER                                        -- Unix time in milliseconds, NULL: never
) STRICT, WITHOUT ROWID;

CREATE INDEX fingerprint_by_expiry ON fingerprint (expires_at) WHERE expires_at IS NOT NULL;
