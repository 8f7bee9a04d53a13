-- The tables of a new inbox on PostgreSQL. migrations/sqlite/inbox.sql explains the columns.

-- What operators' decisions teach screening: see migrations/sqlite/inbox.sql.
CREATE TABLE lesson (
    submission bytea  PRIMARY KEY CHECK (length(submission) = 16),
    taught_at  bigint NOT NULL,
    teaching   bigint NOT NULL,
    judged     bigint NOT NULL,
    senders    bytea  NOT NULL CHECK (length(senders) % 16 = 0),
    tokens     bytea  NOT NULL
);

CREATE INDEX lesson_taught_at ON lesson (taught_at);

-- Values that belong to the whole inbox, such as `secret`, the key of all hashes.
CREATE TABLE meta (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE definition (
    id   bytea PRIMARY KEY CHECK (octet_length(id) = 16),
    form text  NOT NULL,
    stored_at bigint NOT NULL,
    json text  NOT NULL
);

CREATE TABLE intake (
    id              uuid    PRIMARY KEY,
    form            text    NOT NULL,
    received_at     bigint  NOT NULL,
    fields          json    NOT NULL,
    sealed          bytea,
    source          bytea   NOT NULL CHECK (octet_length(source) = 16),
    sender          bytea,
    evidence        json    NOT NULL,
    agent           text,
    channels        integer NOT NULL,
    content         bytea   NOT NULL CHECK (octet_length(content) = 16),
    idempotency_key bytea,
    error           text,
    network         bytea   CHECK (octet_length(network) = 16),
    other_senders   bytea   CHECK (octet_length(other_senders) % 16 = 0),
    definition      bytea   CHECK (octet_length(definition) = 16),
    lead            text,
    canary          bytea   CHECK (octet_length(canary) = 16)
);

CREATE INDEX intake_set_aside ON intake (id) WHERE error IS NOT NULL;
CREATE INDEX intake_canary ON intake (canary) WHERE canary IS NOT NULL;

CREATE TABLE submission (
    id              uuid    PRIMARY KEY,
    form            text    NOT NULL,
    received_at     bigint  NOT NULL,
    fields          json    NOT NULL,
    sealed          bytea,
    source          bytea   NOT NULL CHECK (octet_length(source) = 16),
    network         bytea   CHECK (octet_length(network) = 16),
    sender          bytea,
    agent           text,
    repeats         bigint  NOT NULL DEFAULT 0,
    content         bytea   CHECK (octet_length(content) = 16),
    idempotency_key bytea,
    score           integer,
    reasons         json,
    withheld        integer NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1)),
    held_at         bigint,
    held_because    text,
    threshold       integer,
    released_at     bigint,
    suspicious      integer NOT NULL DEFAULT 0 CHECK (suspicious IN (0, 1)),
    flood           integer NOT NULL DEFAULT 0 CHECK (flood IN (0, 1)),
    other_senders   bytea   CHECK (octet_length(other_senders) % 16 = 0),
    definition      bytea   CHECK (octet_length(definition) = 16),
    lead            text,
    seen_at         bigint,
    done_at         bigint,
    spam_at         bigint,
    held_as_spam    integer NOT NULL DEFAULT 0 CHECK (held_as_spam IN (0, 1))
);

CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;
CREATE INDEX submission_held ON submission (held_at) WHERE held_at IS NOT NULL;
CREATE INDEX submission_open ON submission (form, id) WHERE done_at IS NULL AND held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_unread ON submission (form, id) WHERE seen_at IS NULL AND done_at IS NULL AND held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_done ON submission (form, id) WHERE done_at IS NOT NULL;
CREATE INDEX submission_spam ON submission (form, id) WHERE spam_at IS NOT NULL;
CREATE INDEX submission_sender ON submission (sender, id);
CREATE INDEX submission_other_senders ON submission (id, other_senders) WHERE other_senders IS NOT NULL;
CREATE INDEX submission_form ON submission (form, id);
CREATE INDEX submission_lead ON submission (form, received_at) WHERE held_at IS NULL AND spam_at IS NULL;
CREATE INDEX submission_flood ON submission (form, id) WHERE flood = 1;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;

CREATE TABLE repeat (
    id         uuid PRIMARY KEY,
    submission uuid NOT NULL
);

CREATE TABLE delivery (
    submission  uuid    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     text    NOT NULL,
    state       text    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      bigint,
    attempts    integer NOT NULL DEFAULT 0,
    failures    integer NOT NULL DEFAULT 0,
    interrupted integer NOT NULL DEFAULT 0,
    blame       text,
    rank        integer NOT NULL DEFAULT 0,
    recipients  text,
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
);

CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_first_rank ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_again_rank ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures > 0;
CREATE INDEX delivery_parked ON delivery (channel) WHERE state = 'parked';
CREATE INDEX delivery_sending ON delivery (channel) WHERE state = 'sending';
CREATE INDEX delivery_unfinished ON delivery (submission) WHERE due_at IS NOT NULL;

CREATE TABLE attempt (
    submission uuid    NOT NULL,
    channel    text    NOT NULL,
    number     integer NOT NULL,
    began_at   bigint  NOT NULL,
    ended_at   bigint,
    delivered  integer,
    answer     text,
    PRIMARY KEY (submission, channel, number),
    FOREIGN KEY (submission, channel) REFERENCES delivery (submission, channel) ON DELETE CASCADE
);

CREATE TABLE channel (
    name      text PRIMARY KEY,
    target    bytea,
    off_at    bigint,
    paused_at bigint,
    answer    text
);

CREATE TABLE pressure (
    day     bigint NOT NULL,
    source  bytea  NOT NULL CHECK (octet_length(source) IN (0, 16)),
    form    text   NOT NULL,
    refused bigint NOT NULL,
    PRIMARY KEY (day, source, form)
);

CREATE TABLE form_rate (
    form    text   PRIMARY KEY,
    minute  bigint NOT NULL,
    hour    bigint NOT NULL,
    over_at bigint
);

CREATE TABLE network_rate (
    network bytea  PRIMARY KEY CHECK (octet_length(network) = 16),
    rested  bigint NOT NULL,
    rates   text   NOT NULL
);

CREATE TABLE page_view (
    day            bigint NOT NULL,
    path           text   NOT NULL,
    representation text   NOT NULL CHECK (representation IN ('html', 'markdown')),
    agent          text   NOT NULL,
    views          bigint NOT NULL,
    PRIMARY KEY (day, path, representation, agent)
);

CREATE TABLE referrer (
    day   bigint NOT NULL,
    host  text   NOT NULL,
    views bigint NOT NULL,
    PRIMARY KEY (day, host)
);

CREATE TABLE annotation (
    submission uuid    PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    assignee   text,
    follow_up  bigint,
    replied_at bigint,
    replied_by text,
    CHECK ((replied_at IS NULL) = (replied_by IS NULL))
);

CREATE INDEX annotation_assignee ON annotation (assignee, follow_up, submission) WHERE assignee IS NOT NULL;
CREATE INDEX annotation_follow_up ON annotation (follow_up, submission) WHERE follow_up IS NOT NULL;
CREATE INDEX annotation_unassigned ON annotation (follow_up, submission) WHERE follow_up IS NOT NULL AND assignee IS NULL;

CREATE TABLE note (
    id         uuid   PRIMARY KEY,
    submission uuid   NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    at         bigint NOT NULL,
    actor      text   NOT NULL,
    text       text   NOT NULL
);

CREATE INDEX note_submission ON note (submission, id);

CREATE TABLE saved_view (
    name  text PRIMARY KEY,
    query text NOT NULL,
    actor text NOT NULL
);

CREATE TABLE undo (
    id     uuid   PRIMARY KEY,
    actor  text   NOT NULL,
    change text   NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE operator_log (
    id         uuid    PRIMARY KEY,
    at         bigint NOT NULL,
    actor      text    NOT NULL,
    action     text    NOT NULL,
    submission uuid,
    channel    text,
    count      bigint NOT NULL
);

CREATE TABLE login_token (
    hash       bytea   PRIMARY KEY CHECK (octet_length(hash) = 32),
    actor      text    NOT NULL,
    browser    bytea   CHECK (octet_length(browser) = 32),
    expires_at bigint NOT NULL
);

CREATE TABLE session (
    hash       bytea   PRIMARY KEY CHECK (octet_length(hash) = 32),
    actor      text    NOT NULL,
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL,
    is_mailed  bigint NOT NULL DEFAULT 0 CHECK (is_mailed IN (0, 1)),
    is_trusted bigint NOT NULL DEFAULT 0 CHECK (is_trusted IN (0, 1)),
    client     text   NOT NULL DEFAULT ''
);

CREATE TABLE visitor_mail (
    address bytea  NOT NULL CHECK (octet_length(address) = 16),
    mail    text   NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (address, mail)
);

CREATE INDEX visitor_mail_until ON visitor_mail (until);

CREATE TABLE visitor_rate (
    key    bytea  PRIMARY KEY CHECK (octet_length(key) = 16),
    rested bigint NOT NULL
);

CREATE INDEX visitor_rate_rested ON visitor_rate (rested);

CREATE TABLE confirmation (
    submission   uuid    PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    state        text    NOT NULL CHECK (state IN ('open', 'confirmed', 'released')),
    expires_at   bigint  NOT NULL,
    mail_at      bigint,
    reminds      integer NOT NULL DEFAULT 0 CHECK (reminds IN (0, 1)),
    mailed_at    bigint,
    confirmed_at bigint,
    low_priority integer NOT NULL DEFAULT 0 CHECK (low_priority IN (0, 1)),
    limited_since bigint
);

CREATE INDEX confirmation_open ON confirmation (expires_at) WHERE state = 'open';
CREATE INDEX confirmation_mail ON confirmation (reminds, low_priority, mail_at) WHERE mail_at IS NOT NULL;

CREATE TABLE canary (
    nonce        bytea  PRIMARY KEY CHECK (octet_length(nonce) = 16),
    form         text   NOT NULL,
    sent_at      bigint NOT NULL,
    accepted_at  bigint,
    processed_at bigint
);

-- What a process holds until it expires, by this server's clock (milliseconds): the role of maintenance, and
-- behind a connection pooler the permission of a connection to change the inbox. Without a pooler, a lease also
-- ends with its holder's session: the process id and the start of the server process. Also the mark of each
-- writer's last changes, which shows whether they were committed if the reply to the commit is lost.
CREATE TABLE lease (
    name       text   PRIMARY KEY,
    holder     uuid   NOT NULL,
    expires_at bigint NOT NULL,
    session    text
);

CREATE VIEW accepted AS
    SELECT id, form, received_at, fields, source, repeats, sealed, held_at, held_because, sender,
           score, threshold, reasons, withheld, released_at, agent, CAST(NULL AS integer) AS channels, CAST(NULL AS text) AS error, suspicious,
           definition, other_senders, lead, seen_at, done_at, spam_at
    FROM submission
    UNION ALL
    SELECT id, form, received_at, fields, source, CAST(0 AS bigint), sealed, CAST(NULL AS bigint), CAST(NULL AS text), sender,
           CAST(NULL AS integer), CAST(NULL AS integer), CAST(NULL AS json), 0, CAST(NULL AS bigint), agent, channels, error, 0,
           definition, other_senders, lead, CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS bigint)
    FROM intake WHERE canary IS NULL;
