-- What doors keep beside jobs: a setting of a space and a name, which its body says again.
CREATE TABLE headrace.setting (
	space text COLLATE "C" NOT NULL,
	name  text COLLATE "C" NOT NULL,
	body  bytea NOT NULL,
	PRIMARY KEY (space, name)
);
