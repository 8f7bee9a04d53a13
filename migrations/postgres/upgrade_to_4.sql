-- From layout 3: submissions that retention may remove are found without looking at held ones, and of submissions with the same content or
-- idempotency key the newest is found without reading the others.

CREATE INDEX submission_not_held ON submission (id) WHERE held_at IS NULL;

DROP INDEX submission_content;
DROP INDEX submission_key;
CREATE INDEX submission_content ON submission (content, id) WHERE content IS NOT NULL;
CREATE INDEX submission_key ON submission (idempotency_key, id) WHERE idempotency_key IS NOT NULL;
