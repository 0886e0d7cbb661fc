-- Sessions, their records, and what is projected from them.
--
-- Only `records`, the mapping of `sessions.no` to `sessions.id`, and the plain resources are the
-- truth; every other column is the fold of records and can be made again from them.

CREATE TABLE sessions (
    no            INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    tail          INTEGER NOT NULL,
    hash          BLOB    NOT NULL,
    created       INTEGER NOT NULL,
    archived      INTEGER,
    deleted       INTEGER NOT NULL DEFAULT 0,
    status        TEXT    NOT NULL,
    agent         TEXT    NOT NULL,
    agent_version INTEGER NOT NULL,
    environment   TEXT    NOT NULL,
    state_version INTEGER NOT NULL,
    state         TEXT    NOT NULL
) STRICT;

CREATE INDEX sessions_all         ON sessions (created, id)         WHERE deleted = 0;
CREATE INDEX sessions_live        ON sessions (created, id)         WHERE deleted = 0 AND archived IS NULL;
CREATE INDEX sessions_agent       ON sessions (agent, created, id)  WHERE deleted = 0;
CREATE INDEX sessions_status      ON sessions (status, created, id) WHERE deleted = 0;
CREATE INDEX sessions_environment ON sessions (environment)         WHERE deleted = 0;
CREATE INDEX sessions_deleted     ON sessions (no)                  WHERE deleted = 1;

-- Apart from the row that every append rewrites: it is large and rarely changes.
CREATE TABLE configs (
    session_no INTEGER PRIMARY KEY REFERENCES sessions (no) ON DELETE CASCADE,
    body       TEXT NOT NULL
) STRICT;

-- A rowid table on purpose: bodies of a kilobyte overflow the pages of a WITHOUT ROWID one.
CREATE TABLE records (
    session_no INTEGER NOT NULL REFERENCES sessions (no),
    position   INTEGER NOT NULL,
    thread     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    public     INTEGER NOT NULL,
    origin     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    event      TEXT,
    digest     BLOB    NOT NULL,
    hash       BLOB    NOT NULL,
    salt       BLOB,
    blob       INTEGER, -- bytes of a body that lies in a blob
    body       TEXT,
    PRIMARY KEY (session_no, position)
) STRICT;

-- An arrival and its place share their event id; `public` tells them apart.
CREATE UNIQUE INDEX records_event ON records (session_no, event, public) WHERE event IS NOT NULL;
-- Only for events, placed or arrived, which have ids, and for what a conversation is made of beside
-- them: an index costs each append a page of log.
CREATE INDEX records_kind ON records (session_no, kind, position)
    WHERE event IS NOT NULL OR kind = 'x.response';

CREATE TABLE threads (
    session_no INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    thread     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    holder     TEXT,
    work       INTEGER NOT NULL, -- whether a brain would find something to do
    ready_at   INTEGER,          -- from when a brain is wanted that is not there; 0 is at once
    since      INTEGER NOT NULL, -- when `ready_at` was set: a hint for fairness
    PRIMARY KEY (session_no, thread)
) STRICT;

CREATE INDEX threads_ready  ON threads (ready_at, since) WHERE ready_at IS NOT NULL;
CREATE INDEX threads_holder ON threads (holder)          WHERE holder IS NOT NULL;

CREATE TABLE snapshots (
    session_no INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    thread     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    PRIMARY KEY (session_no, thread, name)
) STRICT;

CREATE TABLE processes (
    id   TEXT    PRIMARY KEY,
    at   INTEGER NOT NULL,
    dead INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE resources (
    kind     TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    archived INTEGER,
    body     TEXT    NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE INDEX resources_all  ON resources (kind, created, id);
CREATE INDEX resources_live ON resources (kind, created, id) WHERE archived IS NULL;

-- Revisions before the newest one.
CREATE TABLE revisions (
    kind     TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    archived INTEGER,
    body     TEXT    NOT NULL,
    PRIMARY KEY (kind, id, revision),
    FOREIGN KEY (kind, id) REFERENCES resources (kind, id) ON DELETE CASCADE
) STRICT;

CREATE TABLE api_keys (
    hash    BLOB    PRIMARY KEY,
    id      TEXT    NOT NULL UNIQUE,
    name    TEXT    NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE receipts (
    fingerprint BLOB    PRIMARY KEY,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    written     INTEGER NOT NULL,
    body        TEXT,
    session     TEXT,
    first       INTEGER,
    last        INTEGER
) STRICT;

CREATE INDEX receipts_at ON receipts (at);

-- One row, written to find out whether anything can be.
CREATE TABLE probes (
    no    INTEGER PRIMARY KEY CHECK (no = 0),
    count INTEGER NOT NULL
) STRICT;

INSERT INTO probes VALUES (0, 0);
