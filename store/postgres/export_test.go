package postgres

import "context"

// Deafen has a Listener's connection be told of nothing any more, though it lives.
func Deafen(ctx context.Context, l *Listener) error {
	_, err := l.c.Exec(ctx, "UNLISTEN *")
	return err
}

// Exchanges gives how often the store has sent the server something and waited for the answer.
func Exchanges(s *Store) int64 { return s.exchanges.Load() }

// Connections gives how many connections the store has made to read with.
func Connections(s *Store) int64 { return s.pool.Stat().NewConnsCount() }
