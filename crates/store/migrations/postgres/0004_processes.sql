-- Where a process runs, and how often it said that it lives.
ALTER TABLE processes
    ADD COLUMN node  text   NOT NULL COLLATE "C" DEFAULT '',
    ADD COLUMN beats bigint NOT NULL DEFAULT 0;
