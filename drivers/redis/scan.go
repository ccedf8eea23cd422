package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

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
func (d *Driver[T]) keys(ctx context.Context, client Client, p place, limit int) ([]string, place, error) {
	scan := func(at uint64) Command {
		return Command{Words: []string{"SCAN", strconv.FormatUint(at, 10), "MATCH", quoted.Replace(d.opts.Prefix) + "*", "COUNT", strconv.Itoa(limit)}, NoKey: true, Repeat: true}
	}
	answers := client.DoMulti(ctx, []Command{{Words: []string{"INFO", "server"}, NoKey: true, Repeat: true}, scan(p.At)})
	next := place{Part: p.Part, Server: parseInfo(string(answers[0].String))["run_id"]}
	answer := answers[1]
	if p.At != 0 && p.Server != next.Server {
		answer = client.Do(ctx, scan(0))
	}
	if answer.Kind != Array || len(answer.Array) != 2 {
		return nil, p, failed(ctx, answer)
	}
	var err error
	next.At, err = strconv.ParseUint(string(answer.Array[0].String), 10, 64)
	keys := make([]string, len(answer.Array[1].Array))
	for i, key := range answer.Array[1].Array {
		keys[i] = string(key.String)
	}
	return keys, next, err
}

// quoted escapes the special characters of a pattern.
var quoted = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, `^`, `\^`)

// describe adds the records under these Redis keys to page. It reads no values, so another
// program's record has no version.
func (d *Driver[T]) describe(ctx context.Context, client Client, keys []string, page *driver.Page) error {
	cs := make([]Command, 0, 3*len(keys))
	for _, key := range keys {
		cs = append(cs,
			Command{Words: []string{"GETRANGE"}, Key: key, Args: []string{"0", strconv.Itoa(headerLen - 1)}, Repeat: true},
			Command{Words: []string{"STRLEN"}, Key: key, Repeat: true},
			Command{Words: []string{"PEXPIRETIME"}, Key: key, Repeat: true})
	}
	answers := client.DoMulti(ctx, cs)
	for i, key := range keys {
		header, size, gone := answers[3*i], answers[3*i+1], answers[3*i+2].Integer
		if bad := slices.IndexFunc(answers[3*i:3*i+3], func(a Answer) bool { return a.Err != nil }); bad >= 0 {
			if err := failed(ctx, answers[3*i+bad]); !errors.Is(err, driver.ErrInvalid) {
				return err
			}
			page.Passed++ // of another type
			continue
		}
		meta, _, own, problem := split(header.String)
		name := key[len(d.opts.Prefix):]
		r := driver.Scanned{Key: name, Meta: meta, Size: int(size.Integer), Problem: cmp.Or(problem, driver.CheckKey(name, 0))}
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
