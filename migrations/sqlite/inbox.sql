-- The tables of a new inbox in a SQLite file: layout 6. Times are Unix time in milliseconds.

-- What belongs to this database as a whole: `secret` keys every hash in it.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The intake: what was accepted and is not processed yet. Acceptance appends here; processing moves each row on.
--
-- This table and `submission` have rowids, because their rows can be large: to find a row in a table WITHOUT ROWID, SQLite compares keys
-- by reading whole rows, each with all of its pages. `fields` and `sealed` are last, so that the other columns are read without them.
CREATE TABLE intake (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),   -- as in `submission`, whose row it becomes unless it repeats another
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),
    sender          BLOB,
    channels        INTEGER NOT NULL,                              -- how many took its form when it arrived
    content         BLOB    NOT NULL CHECK (length(content) = 16), -- keyed hash of what a repeat has in common with it
    idempotency_key BLOB,                                          -- keyed hash, with source and form
    error           TEXT,                                          -- why it could not be processed: it is set aside
    network         BLOB    CHECK (length(network) = 16),          -- keyed hash of the network that the source is in
    agent           TEXT,
    evidence        TEXT    NOT NULL,                              -- what it is screened by: facts of the request, or a verdict; JSON
    fields          TEXT    NOT NULL,
    sealed          BLOB
) STRICT;

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;

-- One row for each submission that was processed and repeats no other.
CREATE TABLE submission (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),   -- UUID version 7: in order of arrival
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),  -- keyed hash of the sender's IP address
    sender          BLOB,                                          -- keyed hash of the sender's e-mail address in lower case
    repeats         INTEGER NOT NULL DEFAULT 0,                    -- how often it was sent again
    content         BLOB    CHECK (length(content) = 16),          -- as in `intake`; begins with the day of `received_at` unless it lasts
    idempotency_key BLOB,
    score           INTEGER,                                       -- the points that screening gave it
    withheld        INTEGER NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1)), -- whether screening held it
    suspicious      INTEGER NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1)), -- whether it is delivered with a mark
    flood           INTEGER NOT NULL DEFAULT 0 CHECK (flood IN (0, 1)), -- whether it is held only until a flood ends
    held_at         INTEGER,                                       -- set while it waits for the operator's release
    released_at     INTEGER,                                       -- when it was last released, whoever had held it
    agent           TEXT,                                          -- the host whose key had signed the request, if the signature was valid
    held_because    TEXT,
    reasons         TEXT,                                          -- what for: JSON, objects with `signal`, `points`, `detail`
    fields          TEXT    NOT NULL,                              -- a JSON object, members in the form's order
    sealed          BLOB                                           -- the fields, encrypted to the operator's key; `fields` is `{}` then
) STRICT;

CREATE INDEX submission_held ON submission (held_at, id) WHERE held_at IS NOT NULL;
CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;
CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;

-- Which submission a request repeated, by the request's id. Kept for a day.
CREATE TABLE repeat (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    submission BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One submission going down one channel.
CREATE TABLE delivery (
    submission  BLOB    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     TEXT    NOT NULL,           -- by name; one that is configured no more keeps its rows
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      INTEGER,                    -- waiting: not before; sending: until when the lease holds
    attempts    INTEGER NOT NULL DEFAULT 0, -- all that were ever begun; the number of the last one is the lease's token
    failures    INTEGER NOT NULL DEFAULT 0, -- since it was last queued: how far it is in the schedule
    interrupted INTEGER NOT NULL DEFAULT 0, -- attempts in a row of which nobody heard the end
    blame       TEXT,                       -- of the last failure: 'channel', 'unclear', 'notice', or 'asked' where the other side said when to come back
    form        TEXT    NOT NULL DEFAULT '', -- the submission's
    rank        INTEGER NOT NULL DEFAULT 0, -- the order of due deliveries of one form: the lowest first
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
) STRICT, WITHOUT ROWID;

-- First attempts and repeated ones are looked for separately, so that neither can crowd out the other.
CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_turn ON delivery (channel, form, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_again_turn ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_parked ON delivery (channel) WHERE state = 'parked';
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
-- What has waited longest is found at once, however much is delivered or waits.
CREATE INDEX delivery_unfinished ON delivery (submission) WHERE due_at IS NOT NULL;

-- Each attempt. One without an end is under way, or was interrupted if it isn't the last.
CREATE TABLE attempt (
    submission BLOB    NOT NULL,
    channel    TEXT    NOT NULL,
    number     INTEGER NOT NULL,            -- from 1
    began_at   INTEGER NOT NULL,
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

-- Requests that were refused because their source had sent too many. There is a bounded number of rows a day.
CREATE TABLE pressure (
    day     INTEGER NOT NULL,                                    -- in UTC, counted from 1970-01-01
    source  BLOB    NOT NULL CHECK (length(source) IN (0, 16)),  -- as in `submission`; empty: all for whom there was no room
    form    TEXT    NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (day, source, form)
) STRICT, WITHOUT ROWID;

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

-- Everything that was accepted and not removed, processed or not. Both parts have the same types, so that SQLite looks up either by its key.
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error, suspicious
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error, CAST(0 AS INTEGER)
    FROM intake;
