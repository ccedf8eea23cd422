package upkeep

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Change is a write that Adopt is about to make to a record without created_at. As JSON it is a
// line of Undo's input. It contains a key: protect it as you protect the key.
type Change struct {
	Key  []byte         `json:"key"`
	Was  driver.Instant `json:"was"` // the expiry; zero: none
	Life driver.Life    `json:"life"`
}

var undoing = operation{
	"undo", "adoption taken back",
	"applied undone changed already" + written + " torn?",
	append([]row{
		{"undone", "would be as before", wrote},
		{"changed", "left: touched or written since", usual},
		{"already", "had no created_at", rare},
		{"torn", "lines that were cut off, before their records were written", rare},
	}, writtenRows...),
}

// Undo reverts what adoptions have written to d. changes are the Changes that AdoptOptions.Undo
// got, as JSON, one a line. A record that still has the life that Adopt wrote loses its
// created_at, and gets its former expiry back. A record whose life has moved since is
// not changed, because a program relies on it; a write alone moves no life that is at its cap. Undo
// counts lines that are not whole and skips them: Adopt writes a record only after its line is
// complete. Segments, Shards and PolicyFor are not used. If d is no [driver.RawReader], a dry run does not see which records were touched.
//
// The report counts keys, of which the changes may have several lines: as "undone", or in a dry run what
// would be, as "changed" (left, because they were touched or written since), and "already" (without
// created_at). "torn" counts the lines that are not whole.
func Undo(ctx context.Context, d Store, changes io.ReaderAt, opts *WriteOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if len(o.Keys) > 0 {
		return nil, invalid("WriteOptions.Keys", fmt.Sprint(len(o.Keys), " keys"), "must be none: the changes have the keys")
	}
	j, w := verdict.At(d, o.MaxSkew, o.Now), newWriter(d, &o)
	w.all = true
	// undo reverts the last of the changes of r that the store shows.
	undo := func(ctx context.Context, r *record) (Report, error) {
		r.Life = r.changes[len(r.changes)-1].Life
		if w.raw != nil {
			raw, err := retry.Value(ctx, func() (driver.Raw, error) { return w.raw.Raw(ctx, r.Key) })
			if err != nil {
				what, err := w.became(err)
				return noted(what, "", 0, err)
			}
			r.Meta, r.Problem, r.Size = raw.Meta, raw.Problem, len(raw.Value)
		}
		counted := "undone"
		plan := func(m driver.Meta) (driver.Life, bool, error) {
			if m.ExpiresAt != 0 && m.ExpiresAt <= j.Now() {
				return m.Life, false, driver.ErrNotFound // what the write would return
			}
			for _, c := range slices.Backward(r.changes) {
				if m.Life == c.Life {
					return driver.Life{ExpiresAt: c.Was}, true, nil
				}
			}
			if counted = "changed"; m.CreatedAt == 0 {
				counted = "already"
			}
			return m.Life, false, nil
		}
		what, err := w.writeUnlessChanged(ctx, r, plan, func(was driver.Meta, next driver.Life) error {
			_, err := d.Touch(ctx, r.Key, was, next, j.Now())
			return err
		})
		return noted(what, counted, r.Size, err)
	}
	_, named, err := chosen(nil, nil, o.Prefix)
	if err != nil {
		return nil, err
	}
	first, err := firstOf(changes)
	if err != nil {
		return nil, err
	}
	lines := &changesOf{file: changes, prefix: o.Prefix, parts: make(map[int]*changed), read: make(map[string][]Change)}
	job := undoing.writing(fmt.Sprintf("%schanges %.8x, apply %v", named, sha256.Sum256(first), o.Apply), &o, w, undo)
	job.opts.Prefix = "" // which lines sees to: a change of another key is no line that was cut off
	job.visit = func(ctx context.Context, _ int, page []driver.Scanned, into *Report) error {
		records := recordsOf(page)
		lines.take(records)
		w.fails.walked.Add(int64(len(page)))
		return forEach(ctx, w, records, into, true, undo)
	}
	r, err := job.run(ctx, lines)
	r.count("torn", r.Passed)
	r.Passed = 0
	return undoing.end(&r, o.Apply, ""), err
}

// changesOf is a driver.Scanner over the keys of changes. A key may have several lines, anywhere in
// the file: of writes that lost a race, and of runs that were killed. So each segment has the keys
// of one hash, few enough to be held in memory.
type changesOf struct {
	file   io.ReaderAt
	prefix string // of the keys

	mu    sync.Mutex // guards the rest
	parts map[int]*changed
	read  map[string][]Change // of the pages that were not taken yet
}

// changed is the changes of a segment.
type changed struct {
	keys []string // by their first lines
	of   map[string][]Change
	torn int
}

// firstOf returns the first line of a file of changes that is one. It tells the file from others, however many lines
// are appended.
func firstOf(file io.ReaderAt) ([]byte, error) {
	lines := bufio.NewReader(io.NewSectionReader(file, 0, math.MaxInt64))
	for {
		line, err := lines.ReadBytes('\n')
		if c, whole := parseChange(line); whole && c.Life.CreatedAt != 0 || err == io.EOF {
			return bytes.TrimSpace(line), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// partBytes is about how much of the file a segment has.
const partBytes = 64 << 20

// Segments implements driver.Scanner. Their number depends on the file alone.
func (c *changesOf) Segments(context.Context, int) ([]driver.Cursor, error) {
	size, err := io.Copy(io.Discard, io.NewSectionReader(c.file, 0, math.MaxInt64))
	all := make([]driver.Cursor, 1+size/partBytes)
	for i := range all {
		all[i] = driver.EncodeCursor(changesPlace{i, len(all), 0})
	}
	return all, err
}

// changesPlace is a cursor.
type changesPlace struct{ Part, Of, At int }

// Scan implements driver.Scanner.
func (c *changesOf) Scan(_ context.Context, from driver.Cursor, limit int) (page driver.Page, err error) {
	var p changesPlace
	if err := driver.DecodeCursor(from, &p); err != nil || p.Of < 1 {
		return page, driver.BadCursor(from)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	part := c.parts[p.Part]
	if part == nil {
		if part, err = c.load(p.Part, p.Of); err != nil {
			return page, err
		}
		c.parts[p.Part] = part
	}
	if p.At == 0 {
		page.Passed = part.torn
	}
	end := min(p.At+limit, len(part.keys))
	for _, key := range part.keys[min(p.At, end):end] {
		c.read[key] = part.of[key]
		page.Records = append(page.Records, driver.Scanned{Key: key})
	}
	if end < len(part.keys) {
		page.Next = driver.EncodeCursor(changesPlace{p.Part, p.Of, end})
	} else {
		delete(c.parts, p.Part)
	}
	return page, nil
}

// take gives records their changes.
func (c *changesOf) take(records []record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range records {
		r := &records[i]
		r.changes = c.read[r.Key]
		delete(c.read, r.Key)
	}
}

// load reads the changes of a segment.
func (c *changesOf) load(part, of int) (*changed, error) {
	all := &changed{of: make(map[string][]Change)}
	lines := bufio.NewReader(io.NewSectionReader(c.file, 0, math.MaxInt64))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		change, whole := parseChange(line)
		if !whole && part == 0 {
			all.torn++
		}
		if key := string(change.Key); change.Life.CreatedAt != 0 && strings.HasPrefix(key, c.prefix) && int(share(key, saltPart)*float64(of)) == part {
			if all.of[key] == nil {
				all.keys = append(all.keys, key)
			}
			all.of[key] = append(all.of[key], change)
		}
		if err == io.EOF {
			return all, nil
		}
	}
}

// parseChange reads a line. Where one was cut off, another may follow in the same line.
func parseChange(line []byte) (c Change, whole bool) {
	if len(bytes.TrimSpace(line)) == 0 || json.Unmarshal(line, &c) == nil {
		return c, true // an empty one stands before each run's
	}
	c = Change{}
	if i := bytes.LastIndex(line, []byte(`{"key":`)); i > 0 && json.Unmarshal(line[i:], &c) != nil {
		c = Change{}
	}
	return c, false
}
