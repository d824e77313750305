package farm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

// noon is when tests look.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func testFarm(width int) (*Farm, *bytes.Buffer) {
	var out bytes.Buffer
	return &Farm{Out: &out, Width: width, Now: func() time.Time { return noon }}, &out
}

func TestAgesArePlain(t *testing.T) {
	t.Parallel()
	f, _ := testFarm(0)
	for ago, want := range map[time.Duration]string{
		0: "now", 30 * time.Second: "30s ago", 90 * time.Second: "1m ago", 47 * time.Hour: "47h ago", 50 * time.Hour: "2d ago", -3 * time.Minute: "in 3m",
	} {
		if got := f.age(noon.Add(-ago)); got != want {
			t.Errorf("%v: got %q, want %q", ago, got, want)
		}
	}
}

func TestDigitsOfAnID(t *testing.T) {
	t.Parallel()
	id, err := job.ParseID("01a230de-d5fd-7cd2-bdc2-c79f97d4c37d")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"01a2": true, "01A230DE": true, "01a230de-d5fd-7": true, "c37d": true, "97d4c37d": true, "c79f-97d4c37d": true,
		"37d": false, "": false, "d5fd": false, "zzzz": false, "01a230ded5fd7cd2bdc2c79f97d4c37d": false,
	} {
		digits := digitsOf(text)
		if got := digits != "" && fits(id, digits); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestSeveralOfANameAreNamed(t *testing.T) {
	t.Parallel()
	a, b := api.Build{ID: job.ID{1}, Name: "n\x1b"}, api.Job{ID: job.ID{2}, Name: "j"}
	_, err := one("build or job", "0000", []Found{{Build: &a}, {Job: &b}, {Build: &a}})
	want := "\"0000\" could be any of these; give more of the id:\n  build 01000000-0000-0000-0000-000000000000 (n\\x1b)\n  job 02000000-0000-0000-0000-000000000000 (j)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if n, err := one("build", "x", []Found{{Build: &a}, {Build: &a}}); err != nil || n.Build != &a {
		t.Errorf("the same one twice: %v, %v", n, err)
	}
}

// What others named reaches no terminal before its control characters are visible, and 60 columns are enough to read it.
func TestBuildsOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	f, out := testFarm(60)
	ended := noon.Add(-time.Minute)
	builds := []api.Build{
		{ID: job.ID{15: 0xaa}, Name: "nightly", Channel: "default", State: "running", Asked: noon.Add(-time.Hour)},
		{ID: job.ID{15: 0xbb}, Name: "a \x1b[2J\u202e name that is much too long for it", Channel: "default", Group: "team", Priority: 5, State: "ended", Outcome: "dependency-failed", Asked: noon.Add(-48 * time.Hour), Ended: &ended},
	}
	var rows [][]progress.Cell
	for i := range builds {
		rows = append(rows, f.buildRow(&builds[i]))
	}
	if err := f.table("none", buildColumns, rows); err != nil {
		t.Fatal(err)
	}
	want := `ID        STATE              NAME                     ASKED
000000aa  running            nightly                  1h ago
000000bb  dependency-failed  a \x1b[2J\u202e name t…  2d ago
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsAreFilled(t *testing.T) {
	t.Parallel()
	f, out := testFarm(50)
	long := strings.Repeat("seven77 ", 8) + "end"
	if err := f.fields(field{"name", "x\x07", 0}, field{"empty", "", 0}, field{"about", long, 0}); err != nil {
		t.Fatal(err)
	}
	want := "name   x\\a\nabout  seven77 seven77 seven77 seven77 seven77\n       seven77 seven77 seven77 end\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
