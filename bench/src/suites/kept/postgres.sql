SET synchronous_commit = off;
SET session_replication_role = replica;
SET maintenance_work_mem = '512MB';
CREATE TEMP TABLE definitions AS
  SELECT indexname, indexdef FROM pg_indexes
  WHERE schemaname = 'public' AND tablename IN ('submission', 'delivery', 'attempt')
    AND indexname NOT IN (SELECT conname FROM pg_constraint);
DO $$ DECLARE index record; BEGIN
  FOR index IN SELECT * FROM definitions LOOP EXECUTE format('DROP INDEX %I', index.indexname); END LOOP;
END $$;
INSERT INTO submission (id, form, received_at, source, network, sender, content, score, seen_at, done_at, fields)
  SELECT
    (lpad(to_hex(at), 12, '0') || '7' || substr(md5('a' || i), 1, 3) || '8' || substr(md5('b' || i), 1, 15))::uuid,
    (ARRAY[{forms}])[1 + (i % {form_count})::int], at, decode(md5('c' || i), 'hex'), decode(md5('d' || i), 'hex'),
    CASE WHEN i % {person_every} = 0 THEN decode('{sender}', 'hex') ELSE decode(md5('e' || i), 'hex') END,
    -- Content hashes begin with the day.
    overlay(decode(md5('f' || i), 'hex') PLACING decode(lpad(to_hex(at / 86400000), 4, '0'), 'hex') FROM 1 FOR 2), 0,
    CASE WHEN i < {done} THEN at + 3600000 END, CASE WHEN i < {done} THEN at + 7200000 END,
    json_build_object('name', (ARRAY[{people}])[1 + (i % 16)::int], 'email', 'visitor.' || i || '@example.com',
      'message', (ARRAY[{sentences}])[1 + (i % 16)::int] || ' ' || (ARRAY[{sentences}])[1 + (i / 16 % 16)::int] ||
        CASE WHEN i % {rare_every} = 5 THEN ' {rare} ' ELSE ' ' END || i)
  FROM (SELECT i, {first} + i * {span} / {count} AS at FROM generate_series(0, {count} - 1::bigint) AS i) AS arrival;
INSERT INTO delivery (submission, channel, state, attempts)
  SELECT id, 'team', 'delivered', 1 FROM submission ORDER BY id ON CONFLICT DO NOTHING;
INSERT INTO attempt (submission, channel, number, began_at, ended_at, delivered, answer)
  SELECT id, 'team', 1, received_at + 1000, received_at + 1200, 1, '250 2.0.0 Ok: queued' FROM submission ORDER BY id
  ON CONFLICT DO NOTHING;
DO $$ DECLARE index record; BEGIN
  FOR index IN SELECT * FROM definitions LOOP EXECUTE index.indexdef; END LOOP;
END $$;
