-- What a key may do and until when. A node's own keys, the configured one and that of its command
-- line, stand in slots: what it puts there takes the place of what was there.
ALTER TABLE api_keys ADD COLUMN scope text NOT NULL DEFAULT 'admin';
ALTER TABLE api_keys ADD COLUMN expires bigint;
ALTER TABLE api_keys ADD COLUMN revoked bigint;
ALTER TABLE api_keys ADD COLUMN slot text COLLATE "C";
UPDATE api_keys SET slot = name;

CREATE UNIQUE INDEX api_keys_slot ON api_keys (slot) WHERE slot IS NOT NULL;
CREATE INDEX api_keys_created ON api_keys (created, id);
