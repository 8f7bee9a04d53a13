-- From layout 9: adds tables for mails to visitors and for confirmations of their addresses.

CREATE TABLE visitor_mail (
    address BLOB    NOT NULL CHECK (length(address) = 16),
    mail    TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (address, mail)
) STRICT, WITHOUT ROWID;

CREATE INDEX visitor_mail_until ON visitor_mail (until);

CREATE TABLE confirmation (
    submission   BLOB    PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    state        TEXT    NOT NULL CHECK (state IN ('open', 'confirmed', 'released')),
    expires_at   INTEGER NOT NULL,
    mail_at      INTEGER,
    reminds      INTEGER NOT NULL DEFAULT 0 CHECK (reminds IN (0, 1)),
    mailed_at    INTEGER,
    confirmed_at INTEGER,
    low_priority INTEGER NOT NULL DEFAULT 0 CHECK (low_priority IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX confirmation_open ON confirmation (expires_at) WHERE state = 'open';
CREATE INDEX confirmation_mail ON confirmation (reminds, low_priority, mail_at) WHERE mail_at IS NOT NULL;
