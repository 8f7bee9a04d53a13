-- The tables of a new inbox in a SQLite file. Times are Unix time in milliseconds.

-- Values that belong to the whole database, such as `secret`, the key of all hashes.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The definitions of forms with which submissions were accepted. Rows are never removed: see crates/inbox/src/store/sql/form_definition.rs.
CREATE TABLE definition (
    id   BLOB PRIMARY KEY CHECK (length(id) = 16),                 -- hash of `json`
    form TEXT NOT NULL,
    stored_at INTEGER NOT NULL,                                    -- when the first submission with it was received
    json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Accepted submissions that have not been processed yet. Processing moves each row to `submission` or counts it as a repeat.
--
-- This table and `submission` have rowids, because their rows can be large: to find a row in a table WITHOUT ROWID, SQLite compares keys
-- by reading whole rows with all of their pages. `fields` and `sealed` are last, so that the other columns can be read without them.
CREATE TABLE intake (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),   -- the id of the submission, unless it is a repeat
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),
    sender          BLOB,
    other_senders   BLOB,                                          -- as in `submission`
    definition      BLOB    CHECK (length(definition) = 16),       -- as in `submission`
    channels        INTEGER NOT NULL,                              -- how many channels accepted the form at the time of arrival
    content         BLOB    NOT NULL CHECK (length(content) = 16), -- keyed hash; a repeat has the same one
    idempotency_key BLOB,                                          -- keyed hash, together with the source and the form
    error           TEXT,                                          -- why it could not be processed; such rows are set aside
    network         BLOB    CHECK (length(network) = 16),          -- keyed hash of the source's network
    agent           TEXT,
    evidence        TEXT    NOT NULL,                              -- JSON: the facts for screening, or a verdict
    lead            TEXT,                                          -- a JSON object: where the submission comes from
    canary          BLOB    CHECK (length(canary) = 16),           -- of a test submission: the key of its row in `canary`; it becomes no submission
    fields          TEXT    NOT NULL,
    sealed          BLOB
) STRICT;

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;
CREATE INDEX intake_canary ON intake (canary) WHERE canary IS NOT NULL;

-- Processed submissions, except repeats.
CREATE TABLE submission (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),   -- UUID version 7, so in order of arrival
    form            TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    source          BLOB    NOT NULL CHECK (length(source) = 16),  -- keyed hash of the sender's IP address
    network         BLOB    CHECK (length(network) = 16),          -- as in `intake`; NULL if it was stored by an older version
    sender          BLOB,                                          -- keyed hash of the sender's e-mail address in lower case; of the first one, if it has several
    other_senders   BLOB    CHECK (length(other_senders) % 16 = 0), -- the keyed hashes of its other e-mail addresses, joined; NULL if it has none
    definition      BLOB    CHECK (length(definition) = 16),       -- the definition that it was sent with; NULL if that is not known
    repeats         INTEGER NOT NULL DEFAULT 0,                    -- the number of repeats
    content         BLOB    CHECK (length(content) = 16),          -- as in `intake`; begins with the day of `received_at`, unless old submissions count too
    idempotency_key BLOB,
    score           INTEGER,                                       -- the points from screening
    withheld        INTEGER NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1)), -- whether screening held it
    suspicious      INTEGER NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1)), -- whether it is marked as suspicious
    flood           INTEGER NOT NULL DEFAULT 0 CHECK (flood IN (0, 1)), -- whether it is held until a flood ends
    held_at         INTEGER,                                       -- since when it has been held
    released_at     INTEGER,                                       -- when it was last released
    agent           TEXT,                                          -- the host whose key signed the request, if the signature was valid
    held_because    TEXT,                                          -- NULL if only `reasons` say why
    threshold       INTEGER,                                       -- the points from which on screening holds a submission
    reasons         TEXT,                                          -- JSON: the reasons for the score, as objects with `signal`, `points` and `detail`
    lead            TEXT,                                          -- as in `intake`
    seen_at         INTEGER,                                       -- when an operator first opened it; NULL if it is unread
    done_at         INTEGER,                                       -- since when it has been done; NULL if it is open
    spam_at         INTEGER,                                       -- when an operator marked it as spam
    held_as_spam    INTEGER NOT NULL DEFAULT 0 CHECK (held_as_spam IN (0, 1)), -- whether that mark holds it
    fields          TEXT    NOT NULL,                              -- a JSON object, in the form's order
    sealed          BLOB                                           -- the fields and `lead`, encrypted to the operator's key; `fields` is then `{}`, and `lead` NULL
) STRICT;

CREATE INDEX submission_held ON submission (held_at, id) WHERE held_at IS NOT NULL;
CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;
-- The lists of the web interface.
CREATE INDEX submission_open ON submission (form, id) WHERE done_at IS NULL AND held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_unread ON submission (form, id) WHERE seen_at IS NULL AND done_at IS NULL AND held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_done ON submission (form, id) WHERE done_at IS NOT NULL;
CREATE INDEX submission_spam ON submission (form, id) WHERE spam_at IS NOT NULL;
-- A person's submissions, by the hash of the address.
CREATE INDEX submission_sender ON submission (sender, id) WHERE sender IS NOT NULL;
CREATE INDEX submission_other_senders ON submission (id, other_senders) WHERE other_senders IS NOT NULL;
CREATE INDEX submission_form ON submission (form, id);
CREATE INDEX submission_lead ON submission (form, received_at) WHERE held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;

-- The ids of repeats, and of the submissions that they repeated. Rows are kept for a day.
CREATE TABLE repeat (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    submission BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The delivery of a submission to a channel.
CREATE TABLE delivery (
    submission  BLOB    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     TEXT    NOT NULL,           -- the channel's name; it may no longer be configured
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      INTEGER,                    -- `waiting`: when the next attempt is due; `sending`: when the lease expires
    attempts    INTEGER NOT NULL DEFAULT 0, -- all attempts; the number of the latest one is the token of the lease
    failures    INTEGER NOT NULL DEFAULT 0, -- since it was last queued; determines the next delay
    interrupted INTEGER NOT NULL DEFAULT 0, -- consecutive attempts whose outcome is unknown
    blame       TEXT,                       -- the cause of the last failure: 'channel', 'unclear', 'uncertain', 'notice', or 'asked' if the receiver set the time of the retry
    rank        INTEGER NOT NULL DEFAULT 0, -- due deliveries are sent in this order, lowest first
    recipients  TEXT,                       -- if some recipients have it and others do not: both, as JSON
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
) STRICT, WITHOUT ROWID;

-- First attempts and retries are looked up separately, so that neither can block the other.
CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_first_rank ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_again_rank ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_parked ON delivery (channel) WHERE state = 'parked';
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
-- Finds the submission that has been waiting the longest, however many others there are.
CREATE INDEX delivery_unfinished ON delivery (submission) WHERE due_at IS NOT NULL;

-- An attempt without an end is under way, or was interrupted if it is not the latest.
CREATE TABLE attempt (
    submission BLOB    NOT NULL,
    channel    TEXT    NOT NULL,
    number     INTEGER NOT NULL,            -- counted from 1
    began_at   INTEGER NOT NULL,
    ended_at   INTEGER,
    delivered  INTEGER,                     -- whether it succeeded; NULL if unknown, or if the receiver may have accepted it
    answer     TEXT,                        -- the receiver's reply, or the error
    PRIMARY KEY (submission, channel, number),
    FOREIGN KEY (submission, channel) REFERENCES delivery (submission, channel) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The state of channels that must survive a restart.
CREATE TABLE channel (
    name      TEXT PRIMARY KEY,
    target    BLOB,                         -- keyed hash of its destination when it was switched off
    off_at    INTEGER,                      -- when it was switched off, because the receiver is gone for good
    paused_at INTEGER,                      -- when it was paused because of failures; it is then only probed
    answer    TEXT                          -- the receiver's reply, or the error
) STRICT, WITHOUT ROWID;

-- Counts of requests that were refused because their source had sent too many. The number of rows per day is limited.
CREATE TABLE pressure (
    day     INTEGER NOT NULL,                                    -- UTC, in days since 1970-01-01
    source  BLOB    NOT NULL CHECK (length(source) IN (0, 16)),  -- as in `submission`; empty for all sources beyond the limit
    form    TEXT    NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (day, source, form)
) STRICT, WITHOUT ROWID;

-- How much of its quota each form has used up.
CREATE TABLE form_rate (
    form    TEXT    PRIMARY KEY,
    minute  INTEGER NOT NULL,               -- when the quotas per minute and per hour are fully restored, in microseconds
    hour    INTEGER NOT NULL,
    over_at INTEGER                         -- during a flood: when a submission last exceeded the quota
) STRICT, WITHOUT ROWID;

-- How much each network has sent recently.
CREATE TABLE network_rate (
    network BLOB    PRIMARY KEY CHECK (length(network) = 16),
    rested  INTEGER NOT NULL,               -- when none of its submissions count any more, in microseconds
    rates   TEXT    NOT NULL                -- a JSON object: the same for each form and limit
) STRICT, WITHOUT ROWID;

-- Counts of page views. The number of rows per day is limited.
CREATE TABLE page_view (
    day            INTEGER NOT NULL,        -- UTC, in days since 1970-01-01
    path           TEXT    NOT NULL,        -- percent-encoded; empty for all pages beyond the limit
    representation TEXT    NOT NULL CHECK (representation IN ('html', 'markdown')),
    agent          TEXT    NOT NULL,        -- the name of a client or a group of clients
    views          INTEGER NOT NULL,
    PRIMARY KEY (day, path, representation, agent)
) STRICT, WITHOUT ROWID;

-- Counts of page views that came from other sites. The number of rows per day is limited.
CREATE TABLE referrer (
    day   INTEGER NOT NULL,                 -- as in `page_view`
    host  TEXT    NOT NULL,                 -- empty for all hosts beyond the limit, and for IP addresses
    views INTEGER NOT NULL,
    PRIMARY KEY (day, host)
) STRICT, WITHOUT ROWID;

-- What operators added to a submission, besides notes.
CREATE TABLE annotation (
    submission BLOB    PRIMARY KEY CHECK (length(submission) = 16) REFERENCES submission (id) ON DELETE CASCADE,
    assignee   TEXT,                        -- the name of the user who works on it
    follow_up  INTEGER,                     -- the day on which to come back to it, in days since 1970-01-01
    replied_at INTEGER,                     -- when an operator last replied by mail
    replied_by TEXT,
    CHECK ((replied_at IS NULL) = (replied_by IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX annotation_assignee ON annotation (assignee, follow_up, submission) WHERE assignee IS NOT NULL;
CREATE INDEX annotation_follow_up ON annotation (follow_up, submission) WHERE follow_up IS NOT NULL;
CREATE INDEX annotation_unassigned ON annotation (follow_up, submission) WHERE follow_up IS NOT NULL AND assignee IS NULL;

-- What operators' decisions teach screening. A lesson stays when its submission is removed, except by an erasure.
CREATE TABLE lesson (
    submission BLOB    PRIMARY KEY CHECK (length(submission) = 16), -- the submission may be removed
    taught_at  INTEGER NOT NULL,
    teaching   INTEGER NOT NULL,            -- 0: honest, 1: spam, 2: weak evidence that it is honest
    judged     INTEGER NOT NULL,            -- what screening had decided: 0: deliver, 1: mark as suspicious, 2: hold
    senders    BLOB    NOT NULL CHECK (length(senders) % 16 = 0),   -- the keyed hashes of its e-mail addresses, joined
    tokens     BLOB    NOT NULL             -- keyed hashes of words and features: see crates/screening/src/learned.rs
) STRICT;

CREATE INDEX lesson_taught_at ON lesson (taught_at);

-- The notes of operators on a submission.
CREATE TABLE note (
    id         BLOB    PRIMARY KEY CHECK (length(id) = 16),      -- UUID version 7, so in order of time
    submission BLOB    NOT NULL CHECK (length(submission) = 16) REFERENCES submission (id) ON DELETE CASCADE,
    at         INTEGER NOT NULL,            -- when it was last changed
    actor      TEXT    NOT NULL,            -- the user's name
    text       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX note_submission ON note (submission, id);

-- Lists that operators saved under a name, for all of them.
CREATE TABLE saved_view (
    name  TEXT PRIMARY KEY,
    query TEXT NOT NULL,                    -- the list's filters, as in the URL of its page
    actor TEXT NOT NULL                     -- the user who saved it
) STRICT, WITHOUT ROWID;

-- Changes of many submissions that can be undone for a while.
CREATE TABLE undo (
    id     BLOB    PRIMARY KEY CHECK (length(id) = 16),          -- UUID version 7, so in order of time
    actor  TEXT    NOT NULL,                -- the user who made the change
    change TEXT    NOT NULL,                -- a JSON object: what to restore, with the ids of the submissions
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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
    browser    BLOB    CHECK (length(browser) = 32),             -- hash of the cookie of the browser that asked for a mail; NULL if a command made the link
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions of the web interface. Only hashes of the cookies are stored.
CREATE TABLE session (
    hash       BLOB    PRIMARY KEY CHECK (length(hash) = 32),
    actor      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,            -- when it was last used, to the minute
    is_mailed  INTEGER NOT NULL DEFAULT 0 CHECK (is_mailed IN (0, 1)),   -- whether a mail had the link, so that it ends with its user
    is_trusted INTEGER NOT NULL DEFAULT 0 CHECK (is_trusted IN (0, 1)),  -- whether it lasts for 30 days
    client     TEXT    NOT NULL DEFAULT ''                       -- the browser, in words
) STRICT, WITHOUT ROWID;

-- The mailboxes that a mail to a visitor was sent to recently, so that each gets at most one a day.
CREATE TABLE visitor_mail (
    address BLOB    NOT NULL CHECK (length(address) = 16),       -- keyed hash of the address, as in crates/forms/src/mailbox_identity.rs
    mail    TEXT    NOT NULL,                                    -- the channel, as in `delivery`
    until   INTEGER NOT NULL,                                    -- when the next such mail may be sent
    PRIMARY KEY (address, mail)
) STRICT, WITHOUT ROWID;

CREATE INDEX visitor_mail_until ON visitor_mail (until);

-- How much is used up of the limits of mails to visitors per hour.
CREATE TABLE visitor_rate (
    key    BLOB    PRIMARY KEY CHECK (length(key) = 16),         -- keyed hash of the limit, and of the kind of mail, the domain or the network
    rested INTEGER NOT NULL                                      -- when none of the mails count any more, in microseconds
) STRICT, WITHOUT ROWID;

CREATE INDEX visitor_rate_rested ON visitor_rate (rested);

-- Submissions whose visitors must confirm their addresses (double opt-in). An open one is held.
CREATE TABLE confirmation (
    submission   BLOB    PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    state        TEXT    NOT NULL CHECK (state IN ('open', 'confirmed', 'released')), -- `released`: by the operator
    expires_at   INTEGER NOT NULL,                               -- when the link in the last mail expires
    mail_at      INTEGER,                                        -- when the next mail is due
    reminds      INTEGER NOT NULL DEFAULT 0 CHECK (reminds IN (0, 1)), -- whether that mail is the reminder
    mailed_at    INTEGER,                                        -- when an attempt to send the mail, not the reminder, last began
    confirmed_at INTEGER,
    low_priority INTEGER NOT NULL DEFAULT 0 CHECK (low_priority IN (0, 1)), -- whether the network had sent many entries
    limited_since INTEGER                                        -- since when the mail has been waiting for the limit of its domain or network
) STRICT, WITHOUT ROWID;

CREATE INDEX confirmation_open ON confirmation (expires_at) WHERE state = 'open';
CREATE INDEX confirmation_mail ON confirmation (reminds, low_priority, mail_at) WHERE mail_at IS NOT NULL;

-- Test submissions that the canary has sent and whose run has not ended. Each may be accepted once.
CREATE TABLE canary (
    nonce        BLOB    PRIMARY KEY CHECK (length(nonce) = 16),
    form         TEXT    NOT NULL,
    sent_at      INTEGER NOT NULL,
    accepted_at  INTEGER,                                          -- when a server accepted its token
    processed_at INTEGER                                           -- when its row of `intake` was processed
) STRICT, WITHOUT ROWID;

-- All accepted submissions, processed or not, without those of the canary. Both parts have the same types, so that SQLite looks up rows in either by its key.
CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, threshold, reasons, withheld, released_at, agent, CAST(NULL AS INTEGER) AS channels, CAST(NULL AS TEXT) AS error, suspicious,
           definition, other_senders, lead, seen_at, done_at, spam_at
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS INTEGER), sealed, CAST(NULL AS INTEGER), CAST(NULL AS TEXT), sender,
           CAST(NULL AS INTEGER), CAST(NULL AS INTEGER), CAST(NULL AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS INTEGER), agent, channels, error, CAST(0 AS INTEGER),
           definition, other_senders, lead, CAST(NULL AS INTEGER), CAST(NULL AS INTEGER), CAST(NULL AS INTEGER)
    FROM intake WHERE canary IS NULL;
