-- From layout 8: adds limits of mails to visitors by domain and network.

ALTER TABLE submission ADD COLUMN network bytea CHECK (octet_length(network) = 16);
ALTER TABLE confirmation ADD COLUMN limited_since bigint;

CREATE TABLE visitor_rate (
    key    bytea  PRIMARY KEY CHECK (octet_length(key) = 16),
    rested bigint NOT NULL
);

CREATE INDEX visitor_rate_rested ON visitor_rate (rested);

DELETE FROM meta WHERE name IN ('pace of visitor:acknowledgement', 'pace of visitor:confirmation', 'pace of visitor:reminder');
