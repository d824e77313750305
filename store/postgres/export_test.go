package postgres

import (
	"context"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// Deafen has a Listener's connection be told of nothing any more, though it lives.
func Deafen(ctx context.Context, l *Listener) error {
	_, err := l.c.Exec(ctx, "UNLISTEN *")
	return err
}

// Exchanges gives how often the store has sent the server something and waited for the answer.
func Exchanges(s *Store) int64 { return s.exchanges.Load() }

// Looks gives how often a Listener's reader has asked the server.
func Looks(l *Listener) int64 { return l.r.exchanges.Load() }

// Connections gives how many connections the store has made to read with.
func Connections(s *Store) int64 { return s.pool.Stat().NewConnsCount() }

// JobList and BuildList give the statement of a list and its parameters.
func JobList(f *queue.JobFilter) (sql string, params [][]byte) { return listJobs(f).statement() }

// BuildList: see JobList.
func BuildList(f *queue.BuildFilter) (sql string, params [][]byte) { return listBuilds(f).statement() }

func (l *list) statement() (string, [][]byte) {
	return l.sql(), append(l.params, number(int64(l.limit)))
}

// Statement gives the text of a statement, and how many parameters it has.
func Statement(q rows.Query) (sql string, params int) {
	return statements[q].sql, len(statements[q].types)
}

// Planning is what the connection that writes asks of its server.
const Planning = planning

// Flush has the server count at once what the connection that writes has done.
func Flush(ctx context.Context, s *Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Exec(ctx, "SELECT pg_stat_force_next_flush()")
	return err
}
