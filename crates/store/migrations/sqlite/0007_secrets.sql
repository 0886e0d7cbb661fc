-- Objects that belong to another, and what is sealed of them.
ALTER TABLE resources ADD COLUMN parent TEXT;
-- What only one object of a parent may have that is not archived.
ALTER TABLE resources ADD COLUMN unique_key TEXT;

CREATE INDEX resources_parent ON resources (parent, kind, created, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX resources_unique ON resources (parent, unique_key)
    WHERE unique_key IS NOT NULL AND archived IS NULL;

-- Ciphertext; the key that opens it is in no database.
CREATE TABLE secrets (
    owner      TEXT    PRIMARY KEY,
    parent     TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    master     TEXT    NOT NULL, -- the name of the key that wraps its own
    sealed     BLOB    NOT NULL,
    refreshing INTEGER           -- until when somebody renews it
) STRICT;

CREATE INDEX secrets_parent ON secrets (parent);
