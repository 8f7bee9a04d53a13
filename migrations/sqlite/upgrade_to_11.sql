-- From layout 10: adds limits of mails to visitors by domain and network.

ALTER TABLE submission ADD COLUMN network BLOB CHECK (length(network) = 16);
ALTER TABLE confirmation ADD COLUMN limited_since INTEGER;

CREATE TABLE visitor_rate (
    key    BLOB    PRIMARY KEY CHECK (length(key) = 16),
    rested INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX visitor_rate_rested ON visitor_rate (rested);

DELETE FROM meta WHERE name IN ('pace of visitor:acknowledgement', 'pace of visitor:confirmation', 'pace of visitor:reminder');
