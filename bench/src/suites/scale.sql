SET synchronous_commit = off;
CREATE TEMP TABLE new AS
  SELECT i, (lpad(to_hex(1600000000000 + i), 12, '0') || '7' || substr(md5('a' || i), 1, 3) ||
    '8' || substr(md5('b' || i), 1, 15))::uuid AS id
  FROM generate_series(1, {count}) AS i;
INSERT INTO submission (id, form, received_at, fields, source, sender, score, content)
  SELECT id, 'contact', 1600000000000 + i,
    json_build_object(
      'name', 'Ada Lovelace', 'email', 'a' || i || '@example.com', 'message', '{message}' || i),
    decode(md5('c' || i), 'hex'), decode(md5('d' || i), 'hex'), 0,
    overlay(decode(md5('e' || i), 'hex') PLACING
      decode(lpad(to_hex((1600000000000 + i) / 86400000), 4, '0'), 'hex') FROM 1 FOR 2) FROM new;
INSERT INTO delivery (submission, channel, state, attempts)
  SELECT id, 'team', 'delivered', 1 FROM new;
INSERT INTO attempt (submission, channel, number, began_at, ended_at, delivered)
  SELECT id, 'team', 1, 1600000000000 + i, 1600000000001 + i, 1 FROM new;
