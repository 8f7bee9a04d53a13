-- What screening said of each submission, and who pressed the door.

-- The points that it got; NULL where nobody had asked: it came before this layout.
ALTER TABLE submission ADD COLUMN score INTEGER;
-- What for: a JSON array of objects with `signal`, `points` and `detail`, most points first. NULL where there is nothing to say.
ALTER TABLE submission ADD COLUMN reasons TEXT;
-- Whether screening held it when it came. What the operator holds by hand is not marked.
ALTER TABLE submission ADD COLUMN withheld INTEGER NOT NULL DEFAULT 0 CHECK (withheld IN (0, 1));
-- When the operator last released it, whoever had held it. Unix time in milliseconds.
ALTER TABLE submission ADD COLUMN released_at INTEGER;
-- The host whose key had signed the request, where one had and the signature was verified.
ALTER TABLE submission ADD COLUMN agent TEXT;

-- Requests that were refused because their source had sent too many. There is a bounded number of rows a day.
CREATE TABLE pressure (
    day     INTEGER NOT NULL,                                    -- in UTC, counted from 1970-01-01
    source  BLOB    NOT NULL CHECK (length(source) IN (0, 16)),  -- as in `submission`; empty: all for whom there was no room
    form    TEXT    NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (day, source, form)
) STRICT, WITHOUT ROWID;

-- What has waited longest is found at once, however much is delivered or waits.
CREATE INDEX delivery_unfinished ON delivery (submission) WHERE due_at IS NOT NULL;
