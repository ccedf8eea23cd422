// Package hostile holds records as other programs leave them in a store: with keys that no
// driver takes, lives that nobody meant, and values as large as may be. The tests of drivers,
// and of the operator's command, load them beside records that are sound: a scan, a batch or a
// sweep has to count each of them and to go on.
package hostile

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
)

// Record is one that no driver has written.
type Record struct {
	Name string // what is wrong with it: "key/empty", "created/seconds"

	// Key is its key, byte by byte.
	Key string

	// CreatedAt is the number that stands where a driver keeps created_at, whatever that
	// counts there. Zero: nothing stands there.
	CreatedAt int64

	// ExpiresAt is when it expires, in the store's own form. It is always sound, so that
	// the record stays.
	ExpiresAt time.Time

	// Size is how long its value is, in bytes, or a little less. Zero: as it comes.
	Size int

	// Alien is a record of another tenant or application: under another prefix, sort key
	// or tenant than the driver's own.
	Alien bool

	// Guarded is a record that the store does not let be written, as by a trigger. It can be read.
	Guarded bool
}

// Limits are how long keys and values of a store can be, in bytes. Zero: no limit that a test
// could reach.
type Limits struct{ Key, Value int }

// Load writes one record by the store's own client. Where the store itself cannot hold such a
// record the error matches [errors.ErrUnsupported].
type Load func(context.Context, Record) error

// LoadAll loads the records that the store can hold, and returns them.
func LoadAll(ctx context.Context, load Load, records []Record) (loaded []Record, err error) {
	for _, r := range records {
		switch err := load(ctx, r); {
		case err == nil:
			loaded = append(loaded, r)
		case !errors.Is(err, errors.ErrUnsupported):
			return loaded, err
		}
	}
	return loaded, nil
}

// Neighbour is a key of a sound record that some of [Records] are easily taken for.
func Neighbour(prefix string) string { return prefix + "caf\u00e9" }

// Records returns one record of each kind, at now. Their keys begin with prefix, but for the
// empty one.
func Records(now time.Time, prefix string, l Limits) []Record {
	ms := now.UnixMilli()
	near := Neighbour(prefix)
	records := []Record{
		{Name: "key/empty", Key: ""},
		{Name: "key/nul", Key: near + "\x00"},
		{Name: "key/not-utf-8", Key: prefix + "\xff\xfe"},
		{Name: "key/capitals", Key: prefix + "CAF\u00c9"},
		{Name: "key/trailing-space", Key: near + " "},
		{Name: "key/without-accent", Key: prefix + "cafe"},
		{Name: "key/decomposed", Key: prefix + "cafe\u0301"},
		{Name: "created/none", CreatedAt: 0},
		{Name: "created/ahead", CreatedAt: now.AddDate(10, 0, 0).UnixMilli()},
		{Name: "created/behind", CreatedAt: 1},
		{Name: "created/before-1970", CreatedAt: -ms},
		{Name: "created/seconds", CreatedAt: ms / 1000},
		{Name: "created/microseconds", CreatedAt: ms * 1000},
		{Name: "created/most", CreatedAt: math.MaxInt64},
		{Name: "created/least", CreatedAt: math.MinInt64},
		{Name: "alien", CreatedAt: ms, Alien: true},
		{Name: "guarded", CreatedAt: ms, Guarded: true},
	}
	if l.Key > 0 {
		records = append(records, Record{Name: "key/too-long", Key: prefix + strings.Repeat("k", l.Key+1-len(prefix))})
	}
	if l.Value > 0 {
		records = append(records, Record{Name: "value/longest", CreatedAt: ms, Size: l.Value})
	}
	for i := range records {
		r := &records[i]
		r.ExpiresAt = now.Add(time.Hour).Truncate(time.Second)
		if strings.HasPrefix(r.Name, "key/") {
			r.CreatedAt = ms
		} else {
			r.Key = prefix + strings.ReplaceAll(r.Name, "/", "-") // a slash is no letter everywhere
		}
	}
	return records
}
