-- Objects that belong to another, and what is sealed of them.
ALTER TABLE resources
    ADD COLUMN parent     text COLLATE "C",
    -- What only one object of a parent may have that is not archived.
    ADD COLUMN unique_key text COLLATE "C";

CREATE INDEX resources_parent ON resources (parent, kind, created, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX resources_unique ON resources (parent, unique_key)
    WHERE unique_key IS NOT NULL AND archived IS NULL;

-- Ciphertext; the key that opens it is in no database.
CREATE TABLE secrets (
    owner      text   COLLATE "C" PRIMARY KEY,
    parent     text   NOT NULL COLLATE "C",
    revision   bigint NOT NULL,
    master     text   NOT NULL, -- the name of the key that wraps its own
    sealed     bytea  NOT NULL,
    refreshing bigint           -- until when somebody renews it
);

CREATE INDEX secrets_parent ON secrets (parent);
