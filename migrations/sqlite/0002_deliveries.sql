-- Deliveries: what goes down which channel, and what became of each attempt.

-- Where a submission stands follows from its deliveries now.
ALTER TABLE submission DROP COLUMN status;
-- Set while it waits for the operator's release; nothing of it is delivered meanwhile. Unix time in milliseconds, and why.
ALTER TABLE submission ADD COLUMN held_at INTEGER;
ALTER TABLE submission ADD COLUMN held_because TEXT;
-- The fields, encrypted to the operator's key; `fields` is an empty object then.
ALTER TABLE submission ADD COLUMN sealed BLOB;
-- Keyed hash of the sender's e-mail address in lower case, by which it is found even when it is sealed.
ALTER TABLE submission ADD COLUMN sender BLOB;

CREATE INDEX submission_held ON submission (held_at) WHERE held_at IS NOT NULL;

-- One submission going down one channel.
CREATE TABLE delivery (
    submission  BLOB    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     TEXT    NOT NULL,           -- by name; one that is configured no more keeps its rows
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      INTEGER,                    -- waiting: not before; sending: until when the lease holds; Unix time in milliseconds
    attempts    INTEGER NOT NULL DEFAULT 0, -- all that were ever begun; the number of the last one is the lease's token
    failures    INTEGER NOT NULL DEFAULT 0, -- since it was last queued: how far it is in the schedule
    interrupted INTEGER NOT NULL DEFAULT 0, -- attempts in a row of which nobody heard the end
    blame       TEXT,                       -- of the last failure: 'channel', 'notice', or 'asked' where the other side said when to come back
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
) STRICT, WITHOUT ROWID;

-- First attempts and repeated ones are looked for separately, so that neither can crowd out the other.
CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_parked ON delivery (channel) WHERE state = 'parked';
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';

-- Each attempt. One without an end is under way, or was interrupted if it isn't the last.
CREATE TABLE attempt (
    submission BLOB    NOT NULL,
    channel    TEXT    NOT NULL,
    number     INTEGER NOT NULL,            -- from 1
    began_at   INTEGER NOT NULL,            -- Unix time in milliseconds
    ended_at   INTEGER,
    delivered  INTEGER,                     -- whether it succeeded; NULL: not known
    answer     TEXT,                        -- what the other side said
    PRIMARY KEY (submission, channel, number),
    FOREIGN KEY (submission, channel) REFERENCES delivery (submission, channel) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What is to be remembered of a channel beyond a restart.
CREATE TABLE channel (
    name      TEXT PRIMARY KEY,
    target    BLOB,                         -- keyed hash of where it led when it was switched off
    off_at    INTEGER,                      -- since when it is switched off: the other side said that it is gone
    paused_at INTEGER,                      -- since when it fails so often that it is only probed
    answer    TEXT                          -- what the other side said
) STRICT, WITHOUT ROWID;

-- The fingerprints that stand for ever go with their submission.
CREATE INDEX fingerprint_lasting ON fingerprint (submission) WHERE expires_at IS NULL;
