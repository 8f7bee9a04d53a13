-- From layout 4: adds an index to look up retries by rank.

CREATE INDEX delivery_again_turn ON delivery (channel, rank, due_at) WHERE due_at IS NOT NULL AND failures > 0;
