-- When something of a session runs out, at its first thread; the fold of its records.
ALTER TABLE threads ADD COLUMN deadline INTEGER;

CREATE INDEX threads_deadline ON threads (deadline) WHERE deadline IS NOT NULL;
