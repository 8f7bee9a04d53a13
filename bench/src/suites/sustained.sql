PRAGMA synchronous = off; PRAGMA foreign_keys = off; BEGIN;
-- The new ids are greater than all others, as in a real backlog.
CREATE TEMP TABLE one AS
  SELECT *, (SELECT substr(max(id), 1, 6) FROM accepted) AS newest FROM intake WHERE form = 'contact' ORDER BY id LIMIT 1;
CREATE TEMP TABLE numbers AS
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {backlog}) SELECT i FROM n;
INSERT INTO intake (id, form, received_at, source, sender, definition, channels, content, network, evidence, lead, fields)
  SELECT CAST(newest || x'FF' || printf('%09d', i) AS BLOB), form, received_at, randomblob(16), randomblob(16), definition, channels,
         randomblob(16), randomblob(16), evidence, lead,
         json_set(fields, '$.message', (fields ->> 'message') || ' ' || i)
  FROM one, numbers;
COMMIT; PRAGMA wal_checkpoint(TRUNCATE);
