-- Files: what is known of them. Their bytes are blobs, which several files may share.

CREATE TABLE files (
    id           TEXT    PRIMARY KEY,
    created      INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    mime         TEXT    NOT NULL,
    bytes        INTEGER NOT NULL,
    downloadable INTEGER NOT NULL,
    expires      INTEGER,
    scope        TEXT,    -- the session that it goes with
    mounted      INTEGER NOT NULL, -- whether it is mounted in that session
    path         TEXT,    -- of an output: where the session's hand has it
    version      TEXT,    -- of an output: what the hand said of it
    blob         TEXT     -- absent once the bytes are gone and the row only remembers
) STRICT;

CREATE INDEX files_all   ON files (created, id)        WHERE blob IS NOT NULL;
CREATE INDEX files_scope ON files (scope, created, id) WHERE scope IS NOT NULL AND blob IS NOT NULL;
CREATE INDEX files_blob  ON files (blob)               WHERE blob IS NOT NULL;
CREATE INDEX files_end   ON files (expires)            WHERE expires IS NOT NULL;
CREATE UNIQUE INDEX files_output ON files (scope, path) WHERE path IS NOT NULL;

-- Blobs that no file names: being written by a process, or to be removed.
CREATE TABLE loose_blobs (
    blob    TEXT PRIMARY KEY,
    process TEXT
) STRICT;
