package upkeep

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Change is a write that Adopt is about to make to a record without created_at. As JSON it is a
// line of Undo's input. It contains a key: protect it as you protect the key.
type Change struct {
	Key  []byte         `json:"key"`
	Was  driver.Instant `json:"was"` // the expiry; zero: none
	Life driver.Life    `json:"life"`
}

// UndoReport is what became of the records of an adoption that was taken back.
type UndoReport struct {
	Totals
	Applied bool `json:"applied"` // else it was a dry run

	Undone  int64 `json:"undone"`  // in a dry run: would be
	Changed int64 `json:"changed"` // not written: touched or written since
	Already int64 `json:"already"` // have no created_at
	Written
}

func (r *UndoReport) add(page *UndoReport) { r.tallies().add(page.tallies()) }

func (r *UndoReport) tallies() tallies {
	return tallies{"adoption taken back" + dry(r.Applied), append([]tally{
		{&r.Undone, would(r.Applied, "as before"), false},
		{&r.Changed, "left: touched or written since", false},
		{&r.Already, "had no created_at", true},
	}, r.Written.tallies()...), nil}
}

// Undo reverts what adoptions have written to d. changes are the Changes that AdoptOptions.Undo
// got, as JSON, one a line. A record that still has the life that Adopt wrote loses its
// created_at, and gets its former expiry back. A record that was touched or written since is
// not changed, because a program relies on it. Undo skips incomplete lines: Adopt writes a
// record only after its line is complete. Segments, Shards and PolicyFor are not used. If d
// is no [driver.RawReader], a dry run does not see which records were touched.
//
// Together with an error, the report is valid for the records read until then.
func Undo[T any](ctx context.Context, d Store[T], changes io.ReaderAt, opts *WriteOptions) (*UndoReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	u := &undoer[T]{d: d, judge: judgeOf(d, &o.Options), writer: newWriter(&o)}
	u.raw, _ = driver.As[driver.RawReader](d)
	about := "apply " + strconv.FormatBool(o.Apply)
	r, err := writing("undo", about, &o, u.writer, u.undo).run(ctx, changesOf{changes})
	r.Applied = o.Apply
	return &r, err
}

// undoer is an Undo under way.
type undoer[T any] struct {
	d      driver.Driver[T]
	raw    driver.RawReader // nil: the driver has none
	judge  *judge
	writer *writer
}

// undo reverts the change c, and returns a report of this record.
func (u *undoer[T]) undo(ctx context.Context, c *driver.Scanned) (one UndoReport, err error) {
	was, size := c.Meta, 0
	if u.raw != nil {
		var raw driver.Raw
		err := again(ctx, func() (err error) {
			raw, err = u.raw.Raw(ctx, c.Key)
			return err
		})
		if err != nil {
			what, err := u.writer.became(err)
			one.note(what, 0)
			return one, err
		}
		was, size = raw.Meta, len(raw.Value)
	}
	left := &one.Changed
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		if m.CreatedAt == 0 {
			left = &one.Already
		}
		return driver.Life{ExpiresAt: c.HeldUntil}, m.Life == c.Life, nil
	}
	what, err := u.writer.land(ctx, was, plan, func(was driver.Meta, next driver.Life) error {
		_, err := u.d.Touch(ctx, c.Key, was, next, u.judge.now())
		return err
	})
	switch {
	case err != nil:
		return UndoReport{}, err
	case what == done:
		one.Undone++
	case what == nothing:
		*left++
	}
	one.note(what, u.writer.units(size))
	return one, nil
}

// changesOf is a driver.Scanner over changes. Each record has the life that Adopt wrote, and in
// HeldUntil the former expiry.
type changesOf struct{ lines io.ReaderAt }

// Segments implements driver.Scanner: there is one.
func (changesOf) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"0"}, nil
}

// Scan implements driver.Scanner.
func (w changesOf) Scan(_ context.Context, from driver.Cursor, limit int) (page driver.Page, err error) {
	at, err := strconv.ParseInt(string(from), 10, 64)
	if err != nil {
		return page, driver.BadCursor(from)
	}
	lines := bufio.NewReader(io.NewSectionReader(w.lines, at, math.MaxInt64-at))
	for len(page.Records) < limit {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return page, err
		}
		at += int64(len(line))
		var c Change
		if whole := json.Unmarshal(line, &c) == nil; whole && c.Life.CreatedAt != 0 {
			page.Records = append(page.Records, driver.Scanned{Key: string(c.Key), Meta: driver.Meta{Life: c.Life}, HeldUntil: c.Was})
		} else if !whole && len(line) > 1 { // an empty one stands before each run's
			page.Passed++
		}
		if err == io.EOF {
			return page, nil
		}
	}
	page.Next = driver.Cursor(strconv.FormatInt(at, 10))
	return page, nil
}

// String returns the report as several lines of text.
func (r *UndoReport) String() string { return r.tallies().text(&r.Totals) }
