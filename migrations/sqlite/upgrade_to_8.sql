-- From layout 7: adds counts of page views.

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
