package farm

import (
	"context"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
)

// ListFailures shows at most so many remembered failures, by channel, kind and key.
func (f *Farm) ListFailures(ctx context.Context, filter api.FailureFilter, limit int) error {
	var all []api.CachedFailure
	for {
		filter.Limit = min(limit-len(all), pageSize)
		page, err := f.CachedFailures(ctx, filter)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if filter.Cursor = page.Next; page.Next == "" || len(all) >= limit {
			break
		}
	}
	if f.JSON {
		return encode(f.Out, all...)
	}
	var rows [][]progress.Cell
	for i := range all {
		c := &all[i]
		row := []progress.Cell{
			{Text: c.Key},
			{Text: c.Channel},
			{Text: c.Kind},
			f.moment(c.At),
			{Text: "cleared"},
			{},
			{Text: firstLine(c.Message)},
		}
		if c.Until != nil {
			row[4] = f.moment(c.Until)
		}
		if c.Job != nil {
			row[5] = idCell(*c.Job)
		}
		rows = append(rows, row)
	}
	err := f.table("no failures are remembered, or the token is not good for their channels", []progress.Column{
		{Title: "KEY", Keep: 10, Least: 16},
		{Title: "CHANNEL", Keep: 9, Least: 8},
		{Title: "KIND", Keep: 8},
		{Title: "AT", Keep: 5},
		{Title: "UNTIL", Keep: 4},
		{Title: "JOB", Keep: 6},
		{Title: "MESSAGE", Keep: 7, Least: 24},
	}, rows)
	if err != nil {
		return err
	}
	return f.further(filter.Cursor != "", "more", limit)
}
