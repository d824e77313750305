-- What the lists of the history ask for, newest first, beside names, keys and outcomes, which have their indexes from the
-- beginning. A filter never asks for an empty text. What nearly all have (the kind of commands, no channel) costs no index.
CREATE INDEX job_channel ON headrace.job (channel, seq) WHERE channel <> '';

CREATE INDEX job_kind ON headrace.job (kind, seq) WHERE kind <> 'command';
