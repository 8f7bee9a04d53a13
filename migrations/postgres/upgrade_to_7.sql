-- From layout 6: adds the tables of the web interface.

CREATE TABLE annotation (
    submission uuid PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    done_at    bigint,
    note       text,
    CHECK (done_at IS NOT NULL OR note IS NOT NULL)
);

CREATE INDEX annotation_done ON annotation (submission) WHERE done_at IS NOT NULL;

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
    expires_at bigint NOT NULL
);

CREATE TABLE session (
    hash       bytea   PRIMARY KEY CHECK (octet_length(hash) = 32),
    actor      text    NOT NULL,
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL
);
