PRAGMA synchronous = off; PRAGMA foreign_keys = off; PRAGMA cache_size = -262144; BEGIN;
CREATE TEMP TABLE new AS
  WITH RECURSIVE n (i) AS (SELECT {from} + 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to})
  SELECT i, CAST(char(1) || printf('%015d', i) AS BLOB) AS id FROM n;
INSERT INTO submission (id, form, received_at, fields, source, sender, score, content)
  SELECT id, 'contact', {first} + i,
    '{{"name":"Ada","email":"a' || i || '@example.com","message":"{message}' || i || '"}}',
    randomblob(16), randomblob(16), 0,
    -- Content hashes begin with the day. This one is before that of new submissions.
    CAST(x'0101' || randomblob(14) AS BLOB) FROM new;
INSERT INTO delivery (submission, channel, state, attempts)
  SELECT id, 'team', 'delivered', 1 FROM new;
COMMIT; PRAGMA wal_checkpoint(TRUNCATE);
