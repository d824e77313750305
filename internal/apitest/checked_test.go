package apitest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the document does not have so is reported, and what it has is not.
func TestChecked(t *testing.T) {
	t.Parallel()
	const problem = "application/problem+json"
	good := `{"type":"about:blank","title":"x","status":404}`
	for _, c := range []struct {
		name, method, path string
		status             int
		kind, body         string
		right              bool
	}{
		{"a list", "GET", "/api/v1/workers", 200, "application/json", `{"items":[]}`, true},
		{"a list of another kind", "GET", "/api/v1/workers", 200, "application/json", `{"items":[{"name":1}]}`, false},
		{"no JSON", "GET", "/api/v1/workers", 200, "application/json", `{`, false},
		{"plain text", "GET", "/api/v1/workers", 200, "text/plain", "none", false},
		{"another status", "GET", "/api/v1/workers", 418, "application/json", `{}`, false},
		{"a problem", "GET", "/api/v1/workers", 401, problem, good, true},
		{"a problem without a title", "GET", "/api/v1/workers", 401, problem, `{"type":"about:blank","status":401}`, false},
		{"a body where there is none", "POST", "/api/v1/workers/a%2Fb/drain", 204, "", "x", false},
		{"an escaped name", "POST", "/api/v1/workers/a%2Fb/drain", 204, "", "", true},
		{"no operation", "GET", "/api/v1/nothing", 404, problem, good, true},
		{"no operation, in plain text", "GET", "/api/v1/nothing", 404, "text/plain", "404", false},
		{"no operation that answers", "GET", "/api/v1/nothing", 200, "application/json", "{}", false},
		{"not of the API", "GET", "/metrics", 200, "text/plain", "x 1", true},
		{"a log, which streams", "GET", "/api/v1/jobs/0190163d-8694-739b-aea5-966c26f8ad91/log", 200, "text/plain; charset=utf-8", "anything", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var told error
			h := Checked(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body)) // It is a recorder's.
			}), func(err error) { told = err })
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
			if (told == nil) != c.right {
				t.Errorf("told %v", told)
			}
		})
	}
}
