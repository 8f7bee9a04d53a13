-- From layout 4: hashes of content and idempotency keys move from a table of their own into the submissions' rows.

ALTER TABLE submission ADD COLUMN content BLOB CHECK (length(content) = 16);
ALTER TABLE submission ADD COLUMN idempotency_key BLOB;
ALTER TABLE intake DROP COLUMN content_expires_at;
ALTER TABLE intake DROP COLUMN key_expires_at;

UPDATE submission SET content = key FROM fingerprint WHERE submission = id AND expires_at IS NULL;
-- What counts for a time begins with the day. With two hashes nothing says which is the content's: a repeat of that submission is new once.
UPDATE submission SET content = CAST(unhex(printf('%04x', received_at / 86400000)) || substr(key, 3) AS BLOB)
    FROM (SELECT submission, max(key) AS key FROM fingerprint GROUP BY submission HAVING count(*) = 1 AND max(expires_at) IS NOT NULL)
    WHERE submission = id;
DROP TABLE fingerprint;

CREATE INDEX submission_content ON submission (content) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key) WHERE idempotency_key IS NOT NULL;
