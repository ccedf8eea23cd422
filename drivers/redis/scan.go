package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// place is a scan's position on one node. A cursor holds several; the first is under way.
type place struct {
	Part   string // as in node
	Server string // run id of the server process that returned At; empty: unknown
	At     uint64 // SCAN's cursor
}

// Segments implements driver.Scanner, with one segment for each primary. If a cluster has
// more primaries than n, a segment has several.
func (d *Driver[T]) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	parts := make([][]place, min(n, len(nodes)))
	for i, node := range nodes {
		parts[i%len(parts)] = append(parts[i%len(parts)], place{Part: node.part})
	}
	segments := make([]driver.Cursor, len(parts))
	for i, p := range parts {
		segments[i] = driver.EncodeCursor(p)
	}
	return segments, nil
}

// Scan implements driver.Scanner, by SCAN and pipelined reads of the headers. limit is SCAN's
// COUNT. A cursor of SCAN is valid only in the server process that returned it: after a restart or
// a failover the node's scan starts again. Do not reshard a cluster during a scan: a record that
// moves may be missed. A cursor from before slots changed nodes is a *driver.InvalidError.
func (d *Driver[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	var at []place
	if err := driver.DecodeCursor(from, &at); err != nil || len(at) == 0 {
		return driver.Page{}, driver.BadCursor(from)
	}
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return driver.Page{}, err
	}
	i := slices.IndexFunc(nodes, func(n node) bool { return n.part == at[0].Part })
	if i < 0 {
		return driver.Page{}, &driver.InvalidError{Field: "cursor", Value: "of slots " + at[0].Part, Rule: "must be of slots that one node serves: start the scan again"}
	}
	client := nodes[i].client
	keys, next, err := d.keys(ctx, client, at[0], limit)
	if err != nil {
		return driver.Page{}, err
	}
	var page driver.Page
	if at[0] = next; next.At == 0 {
		at = at[1:]
	}
	if len(at) > 0 {
		page.Next = driver.EncodeCursor(at)
	}
	for keys := range slices.Chunk(keys, batchSize/3) {
		if err := d.describe(ctx, client, keys, &page); err != nil {
			return driver.Page{}, err
		}
	}
	return page, nil
}

// keys returns the next keys at p, and the place after them.
func (d *Driver[T]) keys(ctx context.Context, client rueidis.Client, p place, limit int) ([]string, place, error) {
	scan := func(at uint64) rueidis.Completed {
		return d.client.B().Scan().Cursor(at).Match(quoted.Replace(d.opts.Prefix) + "*").Count(int64(limit)).Build().Pin()
	}
	results := client.DoMulti(ctx, d.client.B().Info().Section("server").Build().Pin(), scan(p.At))
	next := place{Part: p.Part}
	if text, err := results[0].ToString(); err == nil {
		next.Server = parseInfo(text)["run_id"]
	}
	answer := results[1]
	if p.At != 0 && p.Server != next.Server {
		answer = client.Do(ctx, scan(0))
	}
	entry, err := answer.AsScanEntry()
	if err != nil {
		return nil, p, failed(ctx, err)
	}
	next.At = entry.Cursor
	return entry.Elements, next, nil
}

// quoted escapes the special characters of a pattern.
var quoted = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, `^`, `\^`)

// describe adds the records under these Redis keys to page. It reads no values, so another
// program's record has no version.
func (d *Driver[T]) describe(ctx context.Context, client rueidis.Client, keys []string, page *driver.Page) error {
	b := d.client.B()
	cmds := make(rueidis.Commands, 0, 3*len(keys))
	for _, key := range keys {
		cmds = append(cmds,
			b.Getrange().Key(key).Start(0).End(int64(headerLen-1)).Build().Pin(),
			b.Strlen().Key(key).Build().Pin(),
			b.Pexpiretime().Key(key).Build().Pin())
	}
	results := client.DoMulti(ctx, cmds...)
	for i, key := range keys {
		header, err1 := results[3*i].AsBytes()
		size, err2 := results[3*i+1].AsInt64()
		gone, err3 := results[3*i+2].AsInt64()
		if err := cmp.Or(err1, err2, err3); err != nil {
			if err = failed(ctx, err); !errors.Is(err, driver.ErrInvalid) {
				return err
			}
			page.Passed++ // of another type
			continue
		}
		meta, _, own, problem := split(header)
		name := key[len(d.opts.Prefix):]
		r := driver.Scanned{Key: name, Meta: meta, Size: int(size), Problem: cmp.Or(problem, driver.CheckKey(name, 0))}
		at := driver.Instant(max(gone, 0))
		switch {
		case !own && gone == -2:
			continue // deleted meanwhile
		case !own:
			r.Meta = driver.Meta{Life: driver.Life{ExpiresAt: at}}
		case meta.ExpiresAt != 0 && at > meta.ExpiresAt:
			r.HeldUntil = at
		}
		page.Records = append(page.Records, r)
	}
	return nil
}
