-- From layout 8: adds the tables of the web interface.

-- What operators added to a submission. There is a row only if it is done or has a note.
CREATE TABLE annotation (
    submission BLOB    PRIMARY KEY CHECK (length(submission) = 16) REFERENCES submission (id) ON DELETE CASCADE,
    done_at    INTEGER,                     -- since when it has been done; NULL if it is open
    note       TEXT,
    CHECK (done_at IS NOT NULL OR note IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX annotation_done ON annotation (submission) WHERE done_at IS NOT NULL;

-- The changes that operators made. Rows are never removed, and contain nothing that a visitor wrote.
CREATE TABLE operator_log (
    id         BLOB    PRIMARY KEY CHECK (length(id) = 16), -- UUID version 7, so in order of time
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,            -- the user's name
    action     TEXT    NOT NULL,
    submission BLOB,                        -- the id of the submission, if the action concerns exactly one
    channel    TEXT,
    count      INTEGER NOT NULL             -- how many submissions, deliveries or sessions changed so far
) STRICT, WITHOUT ROWID;

-- Links that log an operator in to the web interface, once. Only hashes of the tokens are stored.
CREATE TABLE login_token (
    hash       BLOB    PRIMARY KEY CHECK (length(hash) = 32),
    actor      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions of the web interface. Only hashes of the cookies are stored.
CREATE TABLE session (
    hash       BLOB    PRIMARY KEY CHECK (length(hash) = 32),
    actor      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL             -- when it was last used, to the minute
) STRICT, WITHOUT ROWID;
