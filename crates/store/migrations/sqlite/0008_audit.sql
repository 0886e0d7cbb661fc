-- Who did what. Rows are only ever added; the operator's retention takes out the oldest.
CREATE TABLE audit (
    no      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT,
    request TEXT,
    outcome TEXT,
    status  INTEGER,
    details TEXT    NOT NULL
) STRICT;

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, no);
CREATE INDEX audit_subject ON audit (subject, no) WHERE subject IS NOT NULL;
CREATE INDEX audit_request ON audit (request) WHERE request IS NOT NULL;

-- What came of requests, which was not known when their entries were written.
CREATE TABLE audit_outcomes (
    request TEXT    PRIMARY KEY,
    outcome TEXT    NOT NULL,
    status  INTEGER NOT NULL,
    subject TEXT
) STRICT;

CREATE INDEX audit_outcomes_subject ON audit_outcomes (subject) WHERE subject IS NOT NULL;
