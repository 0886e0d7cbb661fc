-- Who did what. Rows are only ever added; the operator's retention takes out the oldest.
CREATE TABLE audit (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint  NOT NULL,
    actor   text    NOT NULL COLLATE "C",
    action  text    NOT NULL,
    subject text    COLLATE "C",
    request text    COLLATE "C",
    outcome text,
    status  bigint,
    details text    NOT NULL
);

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, no);
CREATE INDEX audit_subject ON audit (subject, no) WHERE subject IS NOT NULL;
CREATE INDEX audit_request ON audit (request) WHERE request IS NOT NULL;

-- What came of requests, which was not known when their entries were written.
CREATE TABLE audit_outcomes (
    request text   PRIMARY KEY COLLATE "C",
    outcome text   NOT NULL,
    status  bigint NOT NULL,
    subject text   COLLATE "C"
);

CREATE INDEX audit_outcomes_subject ON audit_outcomes (subject) WHERE subject IS NOT NULL;
