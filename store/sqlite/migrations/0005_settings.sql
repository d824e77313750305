-- What doors keep beside jobs: a setting of a space and a name, which its body says again.
CREATE TABLE setting (
	space TEXT NOT NULL,
	name  TEXT NOT NULL,
	body  BLOB NOT NULL,
	PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;
