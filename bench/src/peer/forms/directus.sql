CREATE TABLE contact (id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(255), email VARCHAR(255), message TEXT);
-- Directus reads the fields of the collection from the table. It keeps no activity log of it, which would cause
-- additional writes.
INSERT INTO directus_collections (collection, accountability) VALUES ('contact', NULL);
-- Anonymous users may add items. The id is that of their policy.
INSERT INTO directus_permissions (policy, collection, action, fields, permissions, validation)
  VALUES ('abf8a154-5b1c-4a46-ac9c-7300570f4f17', 'contact', 'create', '*', '{}', '{}');
