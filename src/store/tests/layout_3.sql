CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE submission (
    id          BLOB    PRIMARY KEY CHECK (length(id) = 16),
    form        TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    fields      TEXT    NOT NULL,
    source      BLOB    NOT NULL CHECK (length(source) = 16),
    repeats     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE fingerprint (
    key        BLOB    PRIMARY KEY CHECK (length(key) = 16),
    submission BLOB    NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX fingerprint_by_expiry ON fingerprint (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE submission DROP COLUMN status;
ALTER TABLE submission ADD COLUMN held_at INTEGER;
ALTER TABLE submission ADD COLUMN held_because TEXT;
ALTER TABLE submission ADD COLUMN sealed BLOB;
ALTER TABLE submission ADD COLUMN sender BLOB;
CREATE INDEX submission_held ON submission (held_at) WHERE held_at IS NOT NULL;
CREATE TABLE delivery (
    submission  BLOB    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      INTEGER,
    attempts    INTEGER NOT NULL DEFAULT 0,
    failures    INTEGER NOT NULL DEFAULT 0,
    interrupted INTEGER NOT NULL DEFAULT 0,
    blame       TEXT,
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_parked ON delivery (channel) WHERE state = 'parked';
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
CREATE TABLE attempt (
    submission BLOB    NOT NULL,
    channel    TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    began_at   INTEGER NOT NULL,
    ended_at   INTEGER,
    delivered  INTEGER,
    answer     TEXT,
    PRIMARY KEY (submission, channel, number),
    FOREIGN KEY (submission, channel) REFERENCES delivery (submission, channel) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE channel (
    name      TEXT PRIMARY KEY,
    target    BLOB,
    off_at    INTEGER,
    paused_at INTEGER,
    answer    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX fingerprint_lasting ON fingerprint (submission) WHERE expires_at IS NULL;
ALTER TABLE submission ADD COLUMN score INTEGER;
ALTER TABLE submission ADD COLUMN reasons TEXT;
ALTER TABLE submission ADD COLUMN withheld INTEGER NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1));
ALTER TABLE submission ADD COLUMN released_at INTEGER;
ALTER TABLE submission ADD COLUMN agent TEXT;
CREATE TABLE pressure (
    day     INTEGER NOT NULL,
    source  BLOB    NOT NULL CHECK (length(source) IN (0, 16)),
    form    TEXT    NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (day, source, form)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_unfinished ON delivery (submission) WHERE due_at IS NOT NULL;
