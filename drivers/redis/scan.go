package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// place is a scan's position on one node. A cursor holds those of a segment; the first that is not
// done is under way.
type place struct {
	Part   string // as in node
	Server string // run id of the server process that returned At; empty: unknown
	At     uint64 // SCAN's cursor
	Done   bool   `json:",omitempty"`
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
// a failover of a node its segment starts again, and Page.Restarted says so. Do not reshard a cluster during a scan: a record that
// moves may be missed, or listed twice. A cursor from before slots changed nodes is a *driver.InvalidError.
func (d *Driver[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return d.scan(ctx, from, limit, nil)
}

// scan is Scan, or what Whole is to return.
func (d *Driver[T]) scan(ctx context.Context, from driver.Cursor, limit int, what *driver.Erasure) (driver.Page, error) {
	var at []place
	err := driver.DecodeCursor(from, &at)
	now := slices.IndexFunc(at, func(p place) bool { return !p.Done })
	if err != nil || now < 0 {
		return driver.Page{}, driver.BadCursor(from)
	}
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return driver.Page{}, err
	}
	var page driver.Page
	var keys []string
	var client wire.Client
	for {
		i := slices.IndexFunc(nodes, func(n node) bool { return n.part == at[now].Part })
		if i < 0 {
			return driver.Page{}, &driver.InvalidError{Field: "cursor", Value: "of slots " + at[now].Part, Rule: "must be of slots that one node serves: start the scan again"}
		}
		client = nodes[i].client
		var next place
		var same bool
		if keys, next, same, err = d.keys(ctx, client, at[now], limit); err != nil {
			return driver.Page{}, err
		}
		if same {
			at[now] = next
			break
		}
		page.Restarted, now = true, 0
		for i := range at {
			at[i] = place{Part: at[i].Part}
		}
	}
	at[now].Done = at[now].At == 0
	if slices.ContainsFunc(at, func(p place) bool { return !p.Done }) {
		page.Next = driver.EncodeCursor(at)
	}
	if what != nil {
		keys = slices.DeleteFunc(keys, func(key string) bool {
			name := key[len(d.opts.Prefix):]
			has := what.Has(name)
			if !has {
				page.Records = append(page.Records, driver.Scanned{Key: name})
			}
			return !has
		})
	}
	for keys := range slices.Chunk(keys, batchSize/3) {
		if err := d.describe(ctx, client, keys, &page, what != nil); err != nil {
			return driver.Page{}, err
		}
	}
	return page, nil
}

// keys returns the next keys at p, and the place after them; or false if p is of another server
// process than the one that answers.
func (d *Driver[T]) keys(ctx context.Context, client wire.Client, p place, limit int) ([]string, place, bool, error) {
	answers := client.DoMulti(ctx, []wire.Command{
		{Words: []string{"INFO", "server"}, NoKey: true},
		{Words: []string{"SCAN", strconv.FormatUint(p.At, 10), "MATCH", quoted.Replace(d.opts.Prefix) + "*", "COUNT", strconv.Itoa(limit)}, NoKey: true},
	})
	info := parseInfo(string(answers[0].String))
	if err := checkMode(p.Part, info); err != nil {
		return nil, p, true, err
	}
	next := place{Part: p.Part, Server: info["run_id"]}
	if p.At != 0 && p.Server != next.Server {
		return nil, p, false, nil
	}
	answer := answers[1]
	if answer.Kind != wire.Array || len(answer.Array) != 2 {
		return nil, p, true, failed(ctx, answer)
	}
	var err error
	next.At, err = strconv.ParseUint(string(answer.Array[0].String), 10, 64)
	keys := make([]string, len(answer.Array[1].Array))
	for i, key := range answer.Array[1].Array {
		keys[i] = string(key.String)
	}
	return keys, next, true, err
}

// quoted escapes the special characters of a pattern.
var quoted = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, `^`, `\^`)

// describe adds the records under these Redis keys to page. It reads no values, so another
// program's record has no version. Keys of other types are passed over, or with others are Scanned.Other.
// Keys of a slot that moves, which a node lists and does not serve, are read as in calls by key.
func (d *Driver[T]) describe(ctx context.Context, client wire.Client, keys []string, page *driver.Page, others bool) error {
	var moving []string
	if err := d.describeAt(ctx, client, keys, page, others, &moving); err != nil || len(moving) == 0 {
		return err
	}
	return d.describeAt(ctx, d.client, moving, page, others, nil)
}

var errStranded = &driver.InvalidError{Field: "cluster", Value: "a node that lists a key of a slot which another serves, where it is not", Rule: "must serve what it holds: end its resharding (redis-cli --cluster fix)"}

// describeAt adds to moving the keys for which client answers that another node has them. nil: they were asked for as in
// calls by key, and one that is nowhere is stranded at the node that lists it, or was deleted meanwhile.
func (d *Driver[T]) describeAt(ctx context.Context, client wire.Client, keys []string, page *driver.Page, others bool, moving *[]string) error {
	cs := make([]wire.Command, 0, 3*len(keys))
	for _, key := range keys {
		cs = append(cs,
			wire.Command{Words: []string{"GETRANGE"}, Key: key, Args: []string{"0", strconv.Itoa(headerLen - 1)}},
			wire.Command{Words: []string{"STRLEN"}, Key: key},
			wire.Command{Words: []string{"PEXPIRETIME"}, Key: key})
	}
	answers := client.DoMulti(ctx, cs)
	for i, key := range keys {
		header, size, gone := answers[3*i], answers[3*i+1], answers[3*i+2].Integer
		bad := slices.IndexFunc(answers[3*i:3*i+3], func(a wire.Answer) bool { return a.Kind != wire.String && a.Kind != wire.Integer })
		if bad >= 0 {
			if moving != nil && redirects(answers[3*i+bad]) {
				*moving = append(*moving, key)
				continue
			}
			if err := failed(ctx, answers[3*i+bad]); !errors.Is(err, driver.ErrInvalid) {
				return err
			}
			if others {
				page.Records = append(page.Records, driver.Scanned{Key: key[len(d.opts.Prefix):], Other: true})
			} else {
				page.Passed++
			}
			continue
		}
		meta, _, own, problem := split(header.String)
		name := key[len(d.opts.Prefix):]
		r := driver.Scanned{Key: name, Meta: meta, Size: int(size.Integer), Problem: cmp.Or(problem, driver.CheckKey(name, 0))}
		at := min(driver.Instant(max(gone, 0)), lastInstant)
		switch {
		case !own && gone == -2 && moving == nil && others:
			return errStranded
		case !own && gone == -2 && moving == nil:
			page.Passed++
			continue
		case !own && gone == -2:
			continue // deleted meanwhile
		case !own:
			r.Meta = driver.Meta{Life: driver.Life{ExpiresAt: at}}
		case meta.ExpiresAt != 0 && at > meta.ExpiresAt:
			r.HeldUntil = at
		default:
			r.Life = earlier(meta.Life, at)
		}
		page.Records = append(page.Records, r)
	}
	return nil
}
