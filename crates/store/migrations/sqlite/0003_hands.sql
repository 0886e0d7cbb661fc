-- Which incarnations of hands the sessions that can still go on name; the fold of their records.
CREATE TABLE hands (
    incarnation TEXT    PRIMARY KEY,
    session_no  INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE
) STRICT;

CREATE INDEX hands_session ON hands (session_no);

INSERT OR IGNORE INTO hands (incarnation, session_no)
    SELECT json_extract(state, '$.hand.incarnation'), no FROM sessions
    WHERE deleted = 0 AND archived IS NULL
      AND json_extract(state, '$.hand.incarnation') IS NOT NULL;

INSERT OR IGNORE INTO hands (incarnation, session_no)
    SELECT past.value, s.no FROM sessions s, json_each(s.state, '$.past_hands') past
    WHERE s.deleted = 0 AND s.archived IS NULL;
