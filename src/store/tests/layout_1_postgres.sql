CREATE TABLE meta (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);
CREATE TABLE submission (
    id           uuid    PRIMARY KEY,
    form         text    NOT NULL,
    received_at  bigint  NOT NULL,
    fields       json    NOT NULL,
    source       bytea   NOT NULL CHECK (octet_length(source) = 16),
    repeats      bigint  NOT NULL DEFAULT 0,
    held_at      bigint,
    held_because text,
    sealed       bytea,
    sender       bytea,
    score        integer,
    reasons      json,
    withheld     integer NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1)),
    released_at  bigint,
    agent        text
);
CREATE INDEX submission_held ON submission (held_at) WHERE held_at IS NOT NULL;
CREATE INDEX submission_sender ON submission (sender);
CREATE TABLE fingerprint (
    key        bytea PRIMARY KEY CHECK (octet_length(key) = 16),
    submission uuid  NOT NULL,
    expires_at bigint
);
CREATE INDEX fingerprint_by_expiry ON fingerprint (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX fingerprint_lasting ON fingerprint (submission) WHERE expires_at IS NULL;
CREATE TABLE delivery (
    submission  uuid    NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
    channel     text    NOT NULL,
    state       text    NOT NULL CHECK (state IN ('waiting', 'sending', 'delivered', 'held', 'parked')),
    due_at      bigint,
    attempts    integer NOT NULL DEFAULT 0,
    failures    integer NOT NULL DEFAULT 0,
    interrupted integer NOT NULL DEFAULT 0,
    blame       text,
    PRIMARY KEY (submission, channel),
    CHECK ((due_at IS NOT NULL) = (state IN ('waiting', 'sending')))
);
CREATE INDEX delivery_first ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures = 0;
CREATE INDEX delivery_again ON delivery (channel, due_at) WHERE due_at IS NOT NULL AND failures > 0;
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
