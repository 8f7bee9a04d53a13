-- From layout 7: adds tables for mails to visitors and for confirmations of their addresses.

CREATE TABLE visitor_mail (
    address bytea  NOT NULL CHECK (octet_length(address) = 16),
    mail    text   NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (address, mail)
);

CREATE INDEX visitor_mail_until ON visitor_mail (until);

CREATE TABLE confirmation (
    submission   uuid    PRIMARY KEY REFERENCES submission (id) ON DELETE CASCADE,
    state        text    NOT NULL CHECK (state IN ('open', 'confirmed', 'released')),
    expires_at   bigint  NOT NULL,
    mail_at      bigint,
    reminds      integer NOT NULL DEFAULT 0 CHECK (reminds IN (0, 1)),
    mailed_at    bigint,
    confirmed_at bigint,
    low_priority integer NOT NULL DEFAULT 0 CHECK (low_priority IN (0, 1))
);

CREATE INDEX confirmation_open ON confirmation (expires_at) WHERE state = 'open';
CREATE INDEX confirmation_mail ON confirmation (reminds, low_priority, mail_at) WHERE mail_at IS NOT NULL;
