-- Files: what is known of them. Their bytes are blobs, which several files may share.

CREATE TABLE files (
    id           text    COLLATE "C" PRIMARY KEY,
    created      bigint  NOT NULL,
    name         text    NOT NULL,
    mime         text    NOT NULL,
    bytes        bigint  NOT NULL,
    downloadable boolean NOT NULL,
    expires      bigint,
    scope        text    COLLATE "C", -- the session that it goes with
    mounted      boolean NOT NULL,    -- whether it is mounted in that session
    path         text    COLLATE "C", -- of an output: where the session's hand has it
    version      text,                -- of an output: what the hand said of it
    blob         text    COLLATE "C"  -- absent once the bytes are gone and the row only remembers
);

CREATE INDEX files_all   ON files (created, id)        WHERE blob IS NOT NULL;
CREATE INDEX files_scope ON files (scope, created, id) WHERE scope IS NOT NULL AND blob IS NOT NULL;
CREATE INDEX files_blob  ON files (blob)               WHERE blob IS NOT NULL;
CREATE INDEX files_end   ON files (expires)            WHERE expires IS NOT NULL;
CREATE UNIQUE INDEX files_output ON files (scope, path) WHERE path IS NOT NULL;

-- Blobs that no file names: being written by a process, or to be removed.
CREATE TABLE loose_blobs (
    blob    text COLLATE "C" PRIMARY KEY,
    process text COLLATE "C"
);
