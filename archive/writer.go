package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// WriterOptions adjusts a Writer. The zero value, and nil, mean the defaults.
type WriterOptions struct {
	// Columns are added to those that every file has, for queries. They may differ from run
	// to run.
	Columns []Column

	// Now is the time, for archived_at. Nil: time.Now.
	Now func() time.Time

	// MaxSkew is how far the clocks of sources may be ahead of Now. Zero: a minute.
	MaxSkew time.Duration
}

// Writer writes records to an archive. It is safe for concurrent use, and several may write
// to one archive, in one process or in many.
type Writer struct {
	bucket  Bucket
	opts    WriterOptions
	layout  *layout
	catalog *catalog

	records, bytes, quarantined atomic.Uint64

	mu    sync.Mutex
	known map[Day]map[string]bool // guarded by mu; marks of batches that the archive has
}

const (
	defaultSkew  = time.Minute
	keptDays     = 512 // of which the batches are known
	writesAtOnce = 8
)

// NewWriter returns a Writer to the archive in b. It does no I/O. Errors:
// *driver.InvalidError.
func NewWriter(b Bucket, opts *WriterOptions) (*Writer, error) {
	w := &Writer{bucket: b, catalog: &catalog{bucket: b}, known: map[Day]map[string]bool{}}
	if opts != nil {
		w.opts = *opts
		w.opts.Columns = slices.Clone(opts.Columns)
	}
	if err := checkColumns(w.opts.Columns); err != nil {
		return nil, err
	}
	if w.opts.MaxSkew < 0 {
		return nil, &driver.InvalidError{Field: "WriterOptions.MaxSkew", Value: w.opts.MaxSkew.String(), Rule: "must not be negative"}
	}
	if w.opts.MaxSkew == 0 {
		w.opts.MaxSkew = defaultSkew
	}
	if w.opts.Now == nil {
		w.opts.Now = time.Now
	}
	own := map[string]ColumnType{}
	for _, c := range w.opts.Columns {
		own[c.Name] = c.Type
	}
	w.layout = newLayout(own)
	return w, nil
}

// WriterStats counts what a Writer has written since it was made.
type WriterStats struct {
	Records     uint64 // those that were quarantined included
	Bytes       uint64 // of their values
	Quarantined uint64
}

// Stats returns the counters. It may be called at any time.
func (w *Writer) Stats() WriterStats {
	return WriterStats{Records: w.records.Load(), Bytes: w.bytes.Load(), Quarantined: w.quarantined.Load()}
}

// Write puts batch into the archive, and returns nil when it is durable. It does not write
// a batch that the archive has already, or one without records.
//
// A record that cannot be archived stops no other. It goes to the [Quarantine] with its key
// and value unchanged and a column that names the problem, and can be found and forgotten
// like other records.
//
// After an error some days of the batch may be in the archive: hand it over again. Errors
// before anything is written: *driver.InvalidError for a batch without a source or a column
// of a wrong type, and *ClockError. Other errors are the Bucket's.
func (w *Writer) Write(ctx context.Context, batch Batch) error {
	days, err := w.prepare(&batch)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writesAtOnce)
	for day, records := range days {
		g.Go(func() error { return w.writeDay(ctx, day, records) })
	}
	return g.Wait()
}

// prepare splits a batch by day, in the order of files, each life once.
func (w *Writer) prepare(batch *Batch) (map[Day][]entry, error) {
	if err := batch.check(); err != nil {
		return nil, err
	}
	now := w.opts.Now()
	latest := driver.Ceil(now.Add(w.opts.MaxSkew))
	archived := make([]Archived, len(batch.Records))
	days := map[Day][]entry{}
	for i := range batch.Records {
		r := &batch.Records[i]
		a, problem, err := w.archived(r, batch.Source, driver.Floor(now))
		d := DayOf(a.ExpiredAt)
		switch {
		case err != nil:
			return nil, fmt.Errorf("record %d of the batch: %w", i, err)
		case problem != nil:
			a, d = quarantined(r, batch.Source, driver.Floor(now), problem), Quarantine
		case a.ExpiredAt > latest:
			return nil, &ClockError{What: fmt.Sprintf("the death of record %d of the batch", i), Seen: a.ExpiredAt.Time(), Now: now}
		}
		archived[i] = a
		days[d] = append(days[d], entryOf(&archived[i]))
	}
	for d, records := range days {
		days[d] = lives(records)
	}
	return days, nil
}

// archived is r as the archive has it, or what keeps it from being archived.
func (w *Writer) archived(r *Record, source string, now driver.Instant) (a Archived, problem, err error) {
	a = Archived{Record: *r, Source: source, ArchivedAt: now}
	if err := r.check(); err != nil {
		return a, err, nil
	}
	a.Generation = r.generation()
	if a.Reason == "" {
		a.Reason = Unknown
	}
	for _, c := range w.opts.Columns {
		v, err := c.Of(r)
		if s, ok := v.(string); ok && err == nil {
			err = checkText("column "+c.Name, s)
		}
		if err != nil {
			return a, fmt.Errorf("column %s: %w", c.Name, err), nil
		}
		if _, err := c.Type.value(c.Name, v); err != nil {
			return a, nil, err
		}
		if v == nil {
			continue
		}
		if a.Columns == nil {
			a.Columns = map[string]any{}
		}
		a.Columns[c.Name] = v
	}
	return a, nil, nil
}

// writeDay writes the records of a batch that died on day.
func (w *Writer) writeDay(ctx context.Context, day Day, records []entry) error {
	mark := markOf(records)
	known, err := w.has(ctx, day, mark)
	if err != nil || known {
		return err
	}
	l := w.layout
	if day == Quarantine {
		l = newLayout(map[string]ColumnType{colProblem: Text})
	}
	size := 0
	err = w.bucket.Create(ctx, func(to io.Writer) (string, error) {
		e := newEncoder(to, l, batchCodec)
		for _, r := range records {
			size += len(r.Value)
			if err := e.add(r.Archived); err != nil {
				return "", err
			}
		}
		sum, err := e.close()
		return batchName(day, mark, e.rows, sum), err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) { // its name has its hash: what exists is it
		return err
	}
	w.records.Add(uint64(len(records)))
	w.bytes.Add(uint64(size))
	if day == Quarantine {
		w.quarantined.Add(uint64(len(records)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.known[day]; known != nil {
		known[mark] = true
	}
	return nil
}

// has reports whether the archive has a batch. It asks the bucket once for a day: what
// another process writes of the same batch after that is there twice, and counts once.
func (w *Writer) has(ctx context.Context, day Day, mark string) (bool, error) {
	w.mu.Lock()
	known, asked := w.known[day]
	has := known[mark]
	w.mu.Unlock()
	if asked {
		return has, nil
	}
	m, err := w.catalog.manifest(ctx, day)
	if err != nil {
		return false, err
	}
	if err := settle(w.bucket, day); err != nil {
		return false, err
	}
	known = map[string]bool{}
	for b := range m.batches {
		known[b] = true
	}
	for _, f := range m.Files {
		if !f.Merged {
			known[f.mark] = true
		}
	}
	has = known[mark]
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= keptDays {
		clear(w.known)
	}
	if w.known[day] == nil {
		w.known[day] = known
	}
	return has, nil
}
