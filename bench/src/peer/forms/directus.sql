-- A collection to which anonymous users may add items. Directus reads its fields from the table.
CREATE TABLE contact (id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(255), email VARCHAR(255), message TEXT);
-- Without the activity log, which would cause additional writes.
INSERT INTO directus_collections (collection, accountability) VALUES ('contact', NULL);
-- The fixed id of the policy for anonymous users.
INSERT INTO directus_permissions (policy, collection, action, fields, permissions, validation)
  VALUES ('abf8a154-5b1c-4a46-ac9c-7300570f4f17', 'contact', 'create', '*', '{}', '{}');
