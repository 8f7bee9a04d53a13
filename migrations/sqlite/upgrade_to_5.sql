-- From layout 4: moves the hashes of contents and idempotency keys from a separate table into the rows of submissions.

ALTER TABLE submission ADD COLUMN content BLOB CHECK (length(content) = 16);
ALTER TABLE submission ADD COLUMN idempotency_key BLOB;
ALTER TABLE intake DROP COLUMN content_expires_at;
ALTER TABLE intake DROP COLUMN key_expires_at;

UPDATE submission SET content = key FROM fingerprint WHERE submission = id AND expires_at IS NULL;
-- Hashes that expire begin with the day. If a submission has two of them, it is unknown which one is the content's, so they are dropped, and
-- the next repeat counts as a new submission.
UPDATE submission SET content = CAST(unhex(printf('%04x', received_at / 86400000)) || substr(key, 3) AS BLOB)
    FROM (SELECT submission, max(key) AS key FROM fingerprint GROUP BY submission HAVING count(*) = 1 AND max(expires_at) IS NOT NULL)
    WHERE submission = id;
DROP TABLE fingerprint;

CREATE INDEX submission_content ON submission (content) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key) WHERE idempotency_key IS NOT NULL;
