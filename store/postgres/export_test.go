package postgres

import "context"

// Deafen has a Listener's connection be told of nothing any more, though it lives.
func Deafen(ctx context.Context, l *Listener) error {
	_, err := l.c.Exec(ctx, "UNLISTEN *")
	return err
}
