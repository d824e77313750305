package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/archive"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// maker gives an address at which there is no store yet.
type maker func(t testing.TB) string

// backend is a database as this package needs it.
type backend struct {
	name  string
	place maker
	own   func(ctx context.Context, address string) (storetest.Store, error)
	make  func(ctx context.Context, address string, f func(rows.Tables) error) error
	read  func(ctx context.Context, address string) (whole, error)
	// run runs a statement, in which {s} stands for the schema's name and a dot, and x'..' for bytes.
	run func(t testing.TB, address, sql string)
}

type whole interface {
	Whole(ctx context.Context, f func(rows.Tables) error) error
	Close() error
}

var lite = &backend{
	name:  "sqlite",
	place: func(t testing.TB) string { return filepath.Join(folder(t), "store.db") },
	own: func(ctx context.Context, address string) (storetest.Store, error) {
		return sqlite.Open(ctx, address, sqlite.Options{})
	},
	make: sqlite.Make,
	read: func(ctx context.Context, address string) (whole, error) { return sqlite.OpenReadOnly(ctx, address) },
	run: func(t testing.TB, address, sql string) {
		t.Helper()
		c, err := zombie.OpenConn(address, zombie.OpenReadWrite)
		if err == nil {
			err = errors.Join(sqlitex.ExecuteScript(c, strings.ReplaceAll(sql, "{s}", ""), nil), c.Close())
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	},
}

var postgre = &backend{
	name: "postgres",
	place: func(t testing.TB) string {
		address, err := pgtest.Shared(t).Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return address
	},
	own: func(ctx context.Context, address string) (storetest.Store, error) {
		return postgres.Open(ctx, address, postgres.Options{})
	},
	make: postgres.Make,
	read: func(ctx context.Context, address string) (whole, error) { return postgres.OpenReadOnly(ctx, address) },
	run: func(t testing.TB, address, sql string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
		sql = strings.ReplaceAll(strings.ReplaceAll(sql, "{s}", "headrace."), "x'", `'\x`)
		if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	},
}

// folder gives an empty folder.
func folder(t testing.TB) string {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func dump(t testing.TB, b *backend, address string) string {
	t.Helper()
	r, err := b.read(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	if err := r.Whole(t.Context(), func(tables rows.Tables) error { return archive.Dump(&out, tables) }); err != nil {
		t.Fatalf("dump from %s: %v", b.name, err)
	}
	return out.String()
}

func load(t testing.TB, b *backend, address, dump string) {
	t.Helper()
	err := b.make(t.Context(), address, func(tables rows.Tables) error { return archive.Load(strings.NewReader(dump), tables) })
	if err != nil {
		t.Fatalf("load into %s: %v\n%s", b.name, err, dump)
	}
}

func same(t testing.TB, what, want, got string) {
	t.Helper()
	if want != got {
		t.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

// spoil makes records of each kind unreadable, some of them with bytes that are none at all.
var spoil = []string{
	"UPDATE {s}job SET spec = x'ff' WHERE seq % 5 = 1",
	"UPDATE {s}live SET tally = x'ff' WHERE seq % 4 = 1",
	"UPDATE {s}live SET own = x'' WHERE seq % 4 = 2",
	"UPDATE {s}live SET attempt = x'' WHERE state = 2 AND seq % 3 = 1",
	"UPDATE {s}ended SET body = x'0102' WHERE seq % 5 = 2",
	"UPDATE {s}ended SET attempt = x'ff' WHERE seq % 5 = 3",
	"UPDATE {s}attempt SET body = x'03' WHERE seq % 2 = 1",
	"UPDATE {s}build SET body = x'' WHERE seq % 3 = 1",
	"UPDATE {s}channel SET body = x'ff' WHERE name = 'main'",
	"UPDATE {s}worker SET body = x'ff00ff'",
	"UPDATE {s}setting SET body = x'ff' WHERE space = 'main'",
	"UPDATE {s}cached_failure SET body = x'ff' WHERE key = 'key 1'",
	"UPDATE {s}feed SET changes = x'ff' WHERE number % 4 = 1",
}

// What a dump makes gives that dump again, byte for byte, whatever is in the store and whichever database it is loaded into:
// and so does a copy without a dump between.
func TestDumpOfLoadedDumpIsThatDump(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t)
	for _, from := range []*backend{lite, postgre} {
		t.Run(from.name, func(t *testing.T) {
			t.Parallel()
			source, target := anew(t, from), map[*backend]func() string{lite: anew(t, lite), postgre: anew(t, postgre)}
			for seed := range 24 {
				address := source()
				s, err := from.own(t.Context(), address)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range storetest.Batches(seed) {
					if err := s.Commit(t.Context(), b); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if seed%2 == 1 {
					from.run(t, address, strings.Join(spoil, ";\n"))
				}
				want := dump(t, from, address)
				to := []*backend{lite, postgre}[seed/2%2]
				other := target[to]()
				if seed/4%2 == 1 {
					duplicate(t, from, address, to, other)
				} else {
					load(t, to, other, want)
				}
				same(t, fmt.Sprintf("seed %d: from %s into %s", seed, from.name, to.name), want, dump(t, to, other))
			}
		})
	}
}

// anew gives a function that gives empty places: in PostgreSQL the same again and again, as to empty one is quicker than to
// make one.
func anew(t testing.TB, b *backend) func() string {
	if b == lite {
		return func() string { return b.place(t) }
	}
	address := b.place(t)
	if err := b.make(t.Context(), address, func(rows.Tables) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return func() string {
		b.run(t, address, emptied)
		return address
	}
}

// emptied makes a store that nobody owns as new.
const emptied = `DO $$
DECLARE t text;
BEGIN
	FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' AND tablename NOT IN ('version', 'owner', 'life') LOOP
		EXECUTE format('DELETE FROM headrace.%I', t);
	END LOOP;
	INSERT INTO headrace.feed VALUES (0, 0, 0, 0, '');
END $$`

func duplicate(t testing.TB, from *backend, address string, to *backend, copied string) {
	t.Helper()
	r, err := from.read(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Whole(t.Context(), func(old rows.Tables) error {
		return to.make(t.Context(), copied, func(tables rows.Tables) error { return rows.Copy(old, tables) })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever goes wrong before the end leaves nothing that could be taken for a store that was loaded.
func TestLoadThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t)
	for _, b := range []*backend{lite, postgre} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			source := lite.place(t)
			commit(t, lite, source, 3)
			whole := dump(t, lite, source)
			lines := strings.SplitAfter(whole, "\n")
			half, n := strings.Join(lines[:len(lines)/2], ""), len(lines)-2
			for _, c := range []struct {
				name, dump string
				want       error
			}{
				{"cut off", half, archive.ErrCutOff},
				{"cut off in its last line", whole[:len(whole)-1], archive.ErrCutOff},
				{"a line missing", strings.Join(append(lines[:n-1:n-1], lines[n:]...), ""), &archive.LineError{}},
				{"more behind the end", whole + "{}\n", &archive.LineError{}},
				{"twice", whole + whole, &archive.LineError{}},
				{"not JSON", half + "}\n", &archive.LineError{}},
				{"an unknown table", half + `{"x":{}}` + "\n", &archive.LineError{}},
				{"an unknown field", half + `{"class":{"channel":"","x":1}}` + "\n", &archive.LineError{}},
				{"a missing field", half + `{"answer":{"at":1}}` + "\n", &archive.LineError{}},
				{"a round after the head", half + `{"round":{"number":1000,"changes":[]}}` + "\n", &archive.LineError{}},
				{"a newer format", strings.Replace(whole, `"format":1`, `"format":2`, 1), &archive.LineError{}},
				{"nothing", "", &archive.LineError{}},
			} {
				address := b.place(t)
				err := b.make(t.Context(), address, func(tables rows.Tables) error { return archive.Load(strings.NewReader(c.dump), tables) })
				var line *archive.LineError
				if !errors.Is(err, c.want) && !(errors.As(c.want, &line) && errors.As(err, &line)) {
					t.Errorf("%s: %v, want %T", c.name, err, c.want)
				}
				// What is there, if anything, is a store in which nothing has ever been: it can be loaded.
				load(t, b, address, whole)
				same(t, c.name, whole, dump(t, b, address))
			}
		})
	}
}

// commit stores random batches.
func commit(t testing.TB, b *backend, address string, seed int) {
	t.Helper()
	s, err := b.own(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // The test fails anyway if this does.
	for _, batch := range storetest.Batches(seed) {
		if err := s.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMakeRefusesWhatIsNotEmptyAndWhatIsOwned(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t)
	nothing := func(rows.Tables) error { return nil }
	fill := func(tables rows.Tables) error {
		_, err := rows.Fill(tables)
		return err
	}
	for _, b := range []*backend{lite, postgre} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			address := b.place(t)
			s, err := b.own(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			var held *queue.HeldError
			if err := b.make(t.Context(), address, nothing); !errors.As(err, &held) {
				t.Errorf("make beside an owner: %v, want a HeldError", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := b.make(t.Context(), address, fill); err != nil {
				t.Errorf("make where there is an empty store: %v", err)
			}
			commit(t, b, address, 3)
			before := dump(t, b, address)
			var full *rows.NotEmptyError
			if err := b.make(t.Context(), address, fill); !errors.As(err, &full) || full.Head.Number == 0 || full.Table == "" {
				t.Errorf("make where there is a store: %v, want a NotEmptyError that says what is there", err)
			}
			same(t, "after the refusal", before, dump(t, b, address))
		})
	}
}
