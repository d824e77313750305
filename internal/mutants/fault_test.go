package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const listed = `# A remark.
fault: one
plants: something goes wrong
file: a/a.go
tests: ./a -run ^TestA$

-old-
	return 1
-new-
-end-

fault: two
plants: something else does
file: a/a.go
tests: ./a
-old-
x
	y
-new-
y: z
# no remark
-end-
`

func TestListIsRead(t *testing.T) {
	t.Parallel()
	all, err := load(fstest.MapFS{"a.txt": {Data: []byte(listed)}, "README.md": {Data: []byte("no list")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d faults, want 2", len(all))
	}
	one, two := all[0], all[1]
	if one.id != "one" || one.plants != "something goes wrong" || one.file != "a/a.go" || one.listed != "a.txt:2" ||
		!slices.Equal(one.tests, []string{"./a", "-run", "^TestA$"}) || one.before != "\treturn 1" || one.after != "" {
		t.Errorf("the first reads as %+v", one)
	}
	if two.before != "x\n\ty" || two.after != "y: z\n# no remark" {
		t.Errorf("the second changes %q to %q", two.before, two.after)
	}
}

func TestMistakesInListsAreNamed(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, from, to, want string }{
		{"no fault line", "fault: one\n", "", `a.txt:2: want a line such as fault:`},
		{"bad identifier", "fault: one", "fault: One", `a.txt:2: fault "One"`},
		{"listed twice", "fault: two", "fault: one", `a.txt:12: fault "one" is listed already at a.txt:2`},
		{"no title", "plants: something goes wrong\n", "", `a.txt:2: fault "one": want plants:`},
		{"no tests", "tests: ./a -run ^TestA$\n", "", `a.txt:2: fault "one": want plants:`},
		{"unknown field", "plants: something else", "plant: something else", `a.txt:13: unknown field "plant"`},
		{"path out of the module", "file: a/a.go", "file: ../a.go", `a.txt:4: file "../a.go"`},
		{"no new text", "-new-\n-end-\n\nfault", "-end-\n\nfault", `a.txt:7: fault "one": want -old-, -new- and -end-`},
		{"no end", "# no remark\n-end-\n", "", `a.txt:16: fault "two": want -old-`},
		{"no change", "\treturn 1\n-new-\n", "\treturn 1\n-new-\n\treturn 1\n", `both texts are the same`},
		{"no old text", "\treturn 1\n", "", `a.txt:7: fault "one": both texts are the same`},
		{"nothing to replace", "x\n\ty\n-new-", "-new-", `a.txt:12: fault "two": want plants:, file:, tests: and the two texts`},
		{"line outside the texts", "-old-\nx", "x", `a.txt:16: want a field`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(listed, tt.from, tt.to, 1)
			if text == listed {
				t.Fatal("the mistake was not made")
			}
			_, err := load(fstest.MapFS{"a.txt": {Data: []byte(text)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFaultAppliesOnlyWhereItsTextOccursOnce(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{"a.go": {Data: []byte("one two two three\n")}}
	tests := []struct{ before, want, mistake string }{
		{before: "one", want: "X two two three\n"},
		{before: "two", mistake: "occurs 2 times"},
		{before: "four", mistake: "occurs 0 times"},
	}
	for _, tt := range tests {
		f := fault{id: "x", file: "a.go", before: tt.before, after: "X", listed: "a.txt:1"}
		got, err := f.plant(root)
		if got != tt.want || (err != nil) != (tt.mistake != "") {
			t.Errorf("%q: %q, %v; want %q", tt.before, got, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), tt.mistake) {
			t.Errorf("%q: error %v, want %q", tt.before, err, tt.mistake)
		}
	}
	if _, err := (&fault{file: "b.go", before: "x"}).plant(root); err == nil {
		t.Error("a fault in a missing file applies")
	}
}

// A list that the code has left behind would be found only by who runs it, long after.
func TestEveryListedFaultApplies(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	faults, err := load(os.DirFS("faults"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range faults {
		if _, err := faults[i].plant(root); err != nil {
			t.Error(err)
		}
	}
}
