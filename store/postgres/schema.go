package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations gives the steps from each schema version to the next; the n-th from the start leads to version n.
// A step that was released is never changed.
func migrations() ([]string, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var steps []string
	for _, e := range entries {
		b, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(b))
	}
	return steps, nil
}

// oldestServer is the first release that this package is made for, as server_version_num says it.
const oldestServer = 150000

var errNoStore = errors.New("the database has no store of headrace")

// checkServer refuses a server that is too old.
func checkServer(ctx context.Context, c *pgx.Conn) error {
	var number int
	var name string
	err := c.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&number, &name)
	if err == nil && number < oldestServer {
		err = fmt.Errorf("the server is PostgreSQL %s, and 15 or newer is needed", name)
	}
	return err
}

// schemaVersion gives 0 where there is no store. It refuses a schema of that name that is not ours, and one that a newer
// headrace has written.
func schemaVersion(ctx context.Context, c querier, steps int) (version int, err error) {
	var schema, table bool
	// Not by to_regnamespace: what a session has once found missing stays so to it until it locks some table, and another process may
	// have made the schema since.
	const look = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'headrace'),
		EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = 'headrace' AND c.relname = 'version')`
	err = c.QueryRow(ctx, look).Scan(&schema, &table)
	switch {
	case err != nil:
		return 0, err
	case !schema:
		return 0, nil
	case !table:
		return 0, errors.New("the database has a schema headrace that is not a store of headrace")
	}
	if err := c.QueryRow(ctx, "SELECT version FROM headrace.version").Scan(&version); err != nil {
		return 0, err
	}
	if version > steps {
		return 0, fmt.Errorf("its schema has version %d and this headrace knows no version after %d: use a newer headrace", version, steps)
	}
	return version, nil
}

// querier is what a connection and a transaction share.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// migrate takes the steps that the database has not had, all or none: it is part of becoming the owner.
func migrate(ctx context.Context, tx pgx.Tx, steps []string) error {
	version, err := schemaVersion(ctx, tx, len(steps))
	if err != nil {
		return err
	}
	if version == 0 {
		const found = `CREATE SCHEMA headrace;
			CREATE TABLE headrace.version (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL);
			INSERT INTO headrace.version VALUES (true, 0)`
		if _, err := tx.Exec(ctx, found, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("create schema headrace: %w", err)
		}
	}
	for n := version; n < len(steps); n++ {
		if _, err := tx.Exec(ctx, steps[n], pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migrate to schema version %d: %w", n+1, err)
		}
	}
	_, err = tx.Exec(ctx, "UPDATE headrace.version SET version = $1 WHERE version <> $1", len(steps))
	return err
}
