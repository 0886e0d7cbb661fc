-- Which incarnations of hands the sessions that can still go on name; the fold of their records.
CREATE TABLE hands (
    incarnation text   COLLATE "C" PRIMARY KEY,
    session_no  bigint NOT NULL REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE INDEX hands_session ON hands (session_no);
