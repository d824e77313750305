package farm

import (
	"context"
	"strings"

	"github.com/headrace/headrace/internal/progress"
)

// ListTokens shows the tokens of a server.
func (f *Farm) ListTokens(ctx context.Context) error {
	all, err := f.Tokens(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, all...)
	}
	var rows [][]progress.Cell
	for i := range all {
		t := &all[i]
		expires := f.moment(t.Expires)
		if t.Expired {
			expires.Tone = progress.Bad
		}
		rows = append(rows, []progress.Cell{{Text: t.Name}, {Text: t.Role}, {Text: strings.Join(t.Channels, " ")}, f.moment(&t.Created), expires})
	}
	return f.table("there are no tokens", []progress.Column{
		{Title: "NAME", Keep: 5, Least: 12}, {Title: "ROLE", Keep: 4}, {Title: "CHANNELS", Keep: 2, Least: 8}, {Title: "CREATED", Keep: 1}, {Title: "EXPIRES", Keep: 3},
	}, rows)
}
