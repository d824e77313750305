-- What the lists of the history ask for, newest first. A filter never asks for an empty text. What nearly all have (the kind
-- of commands, success) is found by going back through all, and costs no index.
CREATE INDEX job_name ON job (name) WHERE name <> '';

CREATE INDEX job_channel ON job (channel) WHERE channel <> '';

CREATE INDEX job_kind ON job (kind) WHERE kind <> 'command';

CREATE INDEX ended_outcome ON ended (outcome) WHERE outcome <> 1; -- succeeded

CREATE INDEX build_name ON build (name) WHERE name <> '';
