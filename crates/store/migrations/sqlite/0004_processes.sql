-- How often a process said that it lives.
ALTER TABLE processes ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
