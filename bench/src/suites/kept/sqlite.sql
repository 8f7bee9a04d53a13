PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
PRAGMA cache_size = -262144; BEGIN;
CREATE TEMP TABLE sentence (number INTEGER PRIMARY KEY, text TEXT);
INSERT INTO sentence VALUES {sentences};
CREATE TEMP TABLE person (number INTEGER PRIMARY KEY, name TEXT);
INSERT INTO person VALUES {people};
CREATE TEMP TABLE form (number INTEGER PRIMARY KEY, name TEXT);
INSERT INTO form VALUES {forms};
CREATE TEMP TABLE byte (value BLOB);
INSERT INTO byte VALUES (x'{bytes}');
INSERT INTO submission (id, form, received_at, source, network, sender, content, score, seen_at, done_at, fields)
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1),
  arrival (i, at, day) AS (SELECT i, {first} + i * {span} / {count}, ({first} + i * {span} / {count}) / 86400000 FROM n)
  SELECT
    -- A UUID of version 7: the time of arrival in milliseconds, then random bits.
    CAST(substr(value, 1 + ((at >> 40) & 255), 1) || substr(value, 1 + ((at >> 32) & 255), 1) ||
      substr(value, 1 + ((at >> 24) & 255), 1) || substr(value, 1 + ((at >> 16) & 255), 1) ||
      substr(value, 1 + ((at >> 8) & 255), 1) || substr(value, 1 + (at & 255), 1) ||
      substr(value, 113 + (i & 15), 1) || randomblob(1) || substr(value, 129 + (i & 63), 1) || randomblob(7) AS BLOB),
    (SELECT name FROM form WHERE number = i % {form_count}), at, randomblob(16), randomblob(16),
    CASE WHEN i % {person_every} = 0 THEN x'{sender}' ELSE randomblob(16) END,
    -- Content hashes begin with the day.
    CAST(substr(value, 1 + ((day >> 8) & 255), 1) || substr(value, 1 + (day & 255), 1) || randomblob(14) AS BLOB), 0,
    CASE WHEN i < {done} THEN at + 3600000 END, CASE WHEN i < {done} THEN at + 7200000 END,
    json_object('name', (SELECT name FROM person WHERE number = i % 16), 'email', 'visitor.' || i || '@example.com',
      'message', (SELECT text FROM sentence WHERE number = i % 16) || ' ' ||
        (SELECT text FROM sentence WHERE number = i / 16 % 16) ||
        CASE WHEN i % {rare_every} = 5 THEN ' {rare} ' ELSE ' ' END || i)
  FROM arrival, byte;
INSERT OR IGNORE INTO delivery (submission, channel, state, attempts)
  SELECT id, 'team', 'delivered', 1 FROM submission ORDER BY id;
INSERT OR IGNORE INTO attempt (submission, channel, number, began_at, ended_at, delivered, answer)
  SELECT id, 'team', 1, received_at + 1000, received_at + 1200, 1, '250 2.0.0 Ok: queued' FROM submission ORDER BY id;
COMMIT;
