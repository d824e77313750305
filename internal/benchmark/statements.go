package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements tells which statements took the server's time since the last call, the costliest first: where to look when a
// bar is missed. It needs PostgreSQL's contributed extension pg_stat_statements.
func (l *lab) statements(ctx context.Context) (text string, err error) {
	if l.cluster == nil {
		return "", nil
	}
	c, err := pgx.Connect(ctx, l.cluster.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if _, err := c.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return "", err
	}
	const sql = `SELECT query, calls, rows, total_exec_time, total_plan_time, shared_blks_hit + shared_blks_read
		FROM (SELECT query, sum(calls)::bigint AS calls, sum(rows)::bigint AS rows, sum(total_exec_time) AS total_exec_time,
			sum(total_plan_time) AS total_plan_time, sum(shared_blks_hit)::bigint AS shared_blks_hit,
			sum(shared_blks_read)::bigint AS shared_blks_read FROM pg_stat_statements GROUP BY query) s
		ORDER BY total_exec_time + total_plan_time DESC LIMIT 25`
	rows, err := c.Query(ctx, sql)
	if err != nil {
		return "", err
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%10s %10s %8s %8s %12s  statement\n", "ms", "ms plan", "calls", "rows", "pages")
	for rows.Next() {
		var query string
		var calls, n, pages int64
		var exec, plan float64
		if err := rows.Scan(&query, &calls, &n, &exec, &plan, &pages); err != nil {
			return "", err
		}
		query = strings.Join(strings.Fields(query), " ")
		fmt.Fprintf(&w, "%10.1f %10.1f %8d %8d %12d  %.120s\n", exec, plan, calls, n, pages, query)
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, "SELECT pg_stat_statements_reset()")
	return w.String(), err
}
