package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what Prometheus reads. Gauges are counts of the engine's, read anew each time, so that they cannot drift.
type metrics struct {
	s        *Server
	registry *prometheus.Registry
	requests *prometheus.HistogramVec

	jobs, builds, workers, slots, used, tokens, round *prometheus.Desc
}

func newMetrics(s *Server) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("headrace_"+name, help, labels, nil)
	}
	m := &metrics{
		s: s, registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headrace_request_seconds", Help: "How long requests took, the time included for which they were held.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"operation", "code"}),
		jobs:    desc("jobs", "Jobs that have not ended, or are still being stopped (state done).", "channel", "kind", "state"),
		builds:  desc("builds", "Builds that have not ended.", "state"),
		workers: desc("workers", "Workers by state; known counts them all.", "state"),
		slots:   desc("worker_slots", "Slots of the known workers, by their first system.", "system"),
		used:    desc("worker_slots_used", "Slots that have an attempt.", "system"),
		tokens:  desc("tokens", "Tokens that there are."),
		round:   desc("round", "Number of the last stored round."),
	}
	m.registry.MustRegister(m, m.requests)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.jobs, m.builds, m.workers, m.slots, m.used, m.tokens, m.round} {
		c <- d
	}
}

// lookPatience is how long a reading may wait for the engine.
const lookPatience = 5 * time.Second

// Collect implements prometheus.Collector.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookPatience)
	defer cancel()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	count, err := m.s.census(ctx)
	if err != nil {
		c <- prometheus.NewInvalidMetric(m.jobs, err)
		return
	}
	for k, n := range count.jobs {
		gauge(m.jobs, n.Blocked, k.channel, k.kind, "blocked")
		gauge(m.jobs, n.Ready, k.channel, k.kind, "ready")
		gauge(m.jobs, n.Running, k.channel, k.kind, "running")
		gauge(m.jobs, n.Done, k.channel, k.kind, "done")
	}
	for state, n := range count.builds {
		gauge(m.builds, n, state)
	}
	for state, n := range count.workers {
		gauge(m.workers, n, state)
	}
	for system, n := range count.slots {
		gauge(m.slots, n.all, system)
		gauge(m.used, n.used, system)
	}
	if tokens, err := m.s.Queue.Settings(ctx, tokenSpace); err == nil {
		gauge(m.tokens, len(tokens))
	}
	gauge(m.round, int(m.s.Queue.Round()))
}

// census is what the engine holds at one moment.
type census struct {
	jobs    map[lot]job.Counts
	builds  map[string]int
	workers map[string]int
	slots   map[string]slots
}

// lot is what jobs are counted together.
type lot struct{ channel, kind string }

type slots struct{ all, used int }

// census counts what the engine holds, between two rounds. It looks at no job.
func (s *Server) census(ctx context.Context) (*census, error) {
	c := &census{
		jobs: map[lot]job.Counts{}, builds: map[string]int{"running": 0, "waiting": 0},
		workers: map[string]int{"known": 0, "drained": 0, "signed-off": 0, "quarantined": 0}, slots: map[string]slots{},
	}
	err := s.Queue.Inspect(ctx, func(m *job.Machine, _ *sched.Scheduler) {
		m.Census(func(class job.Class, n job.Counts) {
			k := lot{class.Channel, class.Kind}
			had := c.jobs[k]
			c.jobs[k] = job.Counts{
				Blocked: had.Blocked + n.Blocked, Ready: had.Ready + n.Ready, Running: had.Running + n.Running, Done: had.Done + n.Done,
			}
		})
		for _, b := range m.Builds() {
			switch {
			case b.Staged:
			case b.Active:
				c.builds["running"]++
			default:
				c.builds["waiting"]++
			}
		}
		for _, name := range m.Workers() {
			w, _ := m.Worker(name)
			c.worker(&w, m.Used(name))
		}
	})
	return c, err
}

func (c *census) worker(w *job.Worker, used int) {
	c.workers["known"]++
	if w.Drained {
		c.workers["drained"]++
	}
	if w.Session.IsZero() {
		c.workers["signed-off"]++
	}
	if w.Until != 0 {
		c.workers["quarantined"]++
	}
	system := "any"
	if len(w.Systems) > 0 {
		system = w.Systems[0]
	}
	had := c.slots[system]
	c.slots[system] = slots{had.all + int(w.Slots), had.used + used}
}

// plainOperations serves what is not part of the API: for machines that watch over the server.
func (s *Server) plainOperations() {
	handler := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		err := s.admit(r.Context(), reader)
		if err == nil {
			err = overall(r.Context())
		}
		if err != nil {
			writeProblem(w, s.told(r.Context(), err))
			return
		}
		handler.ServeHTTP(w, r)
	})
	// It lives, whatever the engine does.
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_ = write(w, http.StatusOK, map[string]string{"status": "ok", "version": s.Version}) // It can be written.
	})
	// It is the owner of the store, and answers.
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), lookPatience)
		defer cancel()
		if err := s.Queue.Inspect(ctx, func(*job.Machine, *sched.Scheduler) {}); err != nil {
			p := api.ProblemOf(err)
			p.Detail = "the server's log says why" // Whoever asks has no token: it names files and hosts.
			writeProblem(w, p)
			return
		}
		_ = write(w, http.StatusOK, map[string]string{"status": "ready"}) // It can be written.
	})
	s.mux.HandleFunc("GET "+prefix+"/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := s.OpenAPI()
		if err != nil {
			writeProblem(w, s.told(r.Context(), err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(text) // Whoever has gone asks again.
	})
}

// timed measures how long an operation takes.
func (m *metrics) timed(operation string, w http.ResponseWriter) (measured *statusWriter, done func()) {
	began := time.Now()
	measured = &statusWriter{ResponseWriter: w, status: http.StatusOK}
	return measured, func() {
		m.requests.WithLabelValues(operation, strconv.Itoa(measured.status)).Observe(time.Since(began).Seconds())
	}
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what is below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
