package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests, then stops the server that Shared started, and gives the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Shared gives the one server of this test program, and starts it for the first who asks. The program's TestMain must
// call Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		// Not the test's context: others use the server after it.
		shared.cluster, shared.err = Start(context.Background(), Options{})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}
