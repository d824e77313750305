package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// applicationID marks a file as ours: "Hdrc" in ASCII.
const applicationID = 0x48647263

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

var errForeign = errors.New("the file is not a store of headrace")

// checkFile reports an error unless the file is a store with a schema that this program knows, or is to be made
// one (fresh) and is empty.
func checkFile(c *conn, fresh bool) error {
	id, err := c.number("PRAGMA application_id")
	if err != nil {
		return err
	}
	version, err := c.number("PRAGMA user_version")
	if err != nil {
		return err
	}
	steps, err := migrations()
	if err != nil {
		return err
	}
	switch {
	case id == applicationID && version > int64(len(steps)):
		return fmt.Errorf("its schema has version %d and this headrace knows no version after %d: use a newer headrace",
			version, len(steps))
	case id == applicationID && version < int64(len(steps)) && !fresh:
		return fmt.Errorf("its schema has version %d and version %d is needed: the next headrace that writes to it brings it there",
			version, len(steps))
	case id == applicationID:
		return nil
	}
	tables, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if id != 0 || version != 0 || tables != 0 || !fresh {
		return errForeign
	}
	return nil
}

// migrate takes the steps that the file has not had, each whole or not at all.
func migrate(c *conn) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	return migrateTo(c, steps)
}

func migrateTo(c *conn, steps []string) error {
	version, err := c.number("PRAGMA user_version")
	if err != nil {
		return err
	}
	if version < int64(len(steps)) {
		if err := c.define(); err != nil {
			return err
		}
	}
	for n := version; n < int64(len(steps)); n++ {
		script := fmt.Sprintf("%s;\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;\n", steps[n], applicationID, n+1)
		if err := c.scripts(script); err != nil {
			return fmt.Errorf("migrate to schema version %d: %w", n+1, err)
		}
	}
	return nil
}
