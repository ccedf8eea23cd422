package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// WriterOptions adjusts a Writer. The zero value, and nil, mean the defaults.
type WriterOptions struct {
	// Columns are added to the fixed ones, for queries. They may differ from run to run.
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

	mu    sync.Mutex
	known map[Day]known // guarded by mu

	summed map[string]time.Time // guarded by mu; until when the sum of a merged file is believed to be right
}

// known is what the archive had when a Writer asked it for a day.
type known struct {
	batches map[string]bool // marks of the batches; those that the Writer has written since, too
	number  int             // of the last manifest file
}

const (
	defaultSkew  = time.Minute
	keptDays     = 512 // bounds the days in Writer.known
	writesAtOnce = 8
)

// NewWriter returns a Writer to the archive in b. It does no I/O. Errors:
// *driver.InvalidError.
func NewWriter(b Bucket, opts *WriterOptions) (*Writer, error) {
	w := &Writer{bucket: b, opts: driver.Given(opts), catalog: &catalog{bucket: b}, known: map[Day]known{}, summed: map[string]time.Time{}}
	w.opts.Columns = slices.Clone(w.opts.Columns)
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
	own := map[string]*columnType{}
	for _, c := range w.opts.Columns {
		own[c.name] = c.typ
	}
	w.layout = newLayout(own)
	return w, nil
}

// tally counts what was written.
type tally struct{ records, bytes, quarantined, failures atomic.Uint64 }

// Write puts a batch of records into the archive, some thousand, and returns nil when it is durable. It does not write
// a batch that the archive has already, or one without records. A batch has no name: the lives in it identify it. So if a source divides its
// records differently after a crash, no batch is mistaken for another and dropped.
//
// The source is the records' origin, such as a table. It is part of their identity: under another name they are other records.
//
// A record that cannot be archived stops no other. It goes to the [Quarantine] with its key
// and value unchanged and a column that names the problem, and can be found and forgotten
// like other records.
//
// After an error some days of the batch may be in the archive: hand it over again. Errors
// before anything is written: *driver.InvalidError for a batch without a source, and ErrClock. A batch that the archive had is a *CorruptError while its file is
// damaged or a file of its day is missing: run [Repair]. Other errors are the Bucket's.
func (w *Writer) Write(ctx context.Context, source string, batch []Record) error {
	return w.write(ctx, source, batch, new(tally))
}

// write is Write, and counts.
func (w *Writer) write(ctx context.Context, source string, batch []Record, counts *tally) (err error) {
	defer func() {
		if err != nil {
			counts.failures.Add(1)
		}
	}()
	days, err := w.prepare(source, batch)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writesAtOnce)
	for day, records := range days {
		g.Go(func() error { return w.writeDay(ctx, day, records, counts) })
	}
	return g.Wait()
}

// writeDay writes the records of a batch that died on day.
func (w *Writer) writeDay(ctx context.Context, day Day, records []entry, counts *tally) error {
	mark := markOf(records)
	has, seen, err := w.has(ctx, day, mark)
	if err != nil || has {
		return err
	}
	l := w.layout
	if day == Quarantine {
		l = newLayout(map[string]*columnType{colProblem: textType})
	}
	size := 0
	err = w.bucket.Create(ctx, day.directory(), func(to io.Writer) (string, error) {
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
	if err != nil && !errors.Is(err, fs.ErrExist) { // the name contains the hash: an existing file has the same bytes
		return err
	}
	counts.records.Add(uint64(len(records)))
	counts.bytes.Add(uint64(size))
	if day == Quarantine {
		counts.quarantined.Add(uint64(len(records)))
	}
	number, err := w.catalog.last(ctx, day)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if was, ok := w.known[day]; ok && was.number == number {
		was.batches[mark] = true
	} else {
		delete(w.known, day)
	}
	w.mu.Unlock()
	if seen != number { // another may have written the batch, and a merge of that counts
		_, _, err = w.has(ctx, day, mark)
	}
	return err
}

// checkSum is checkSum that believes what it has said of a merged file, for a minute and ten times as long as the
// reading took: a source that reads its stream again hands over a day's batches one after the other.
func (w *Writer) checkSum(ctx context.Context, f dataFile) error {
	began := time.Now()
	w.mu.Lock()
	sound := f.merged && began.Before(w.summed[f.name])
	w.mu.Unlock()
	if sound {
		return nil
	}
	err := checkSum(ctx, w.bucket, f)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.summed) >= keptDays {
		clear(w.summed)
	}
	if delete(w.summed, f.name); err == nil && f.merged {
		w.summed[f.name] = time.Now().Add(time.Minute + 10*time.Since(began))
	}
	return err
}

// has reports whether the archive has a batch, and the number of the last manifest file then. It asks the bucket once
// for each day, and again for a
// batch that it has known there: the file may have been lost since, and a source deletes what is said
// to be in the archive. If another process writes the same batch after that, the archive has two files
// of it until Compact merges them.
func (w *Writer) has(ctx context.Context, day Day, mark string) (has bool, number int, err error) {
	w.mu.Lock()
	was, asked := w.known[day]
	has = was.batches[mark]
	w.mu.Unlock()
	if asked && !has {
		return false, was.number, nil
	}
	m, err := w.catalog.manifest(ctx, day)
	if err != nil {
		return false, 0, err
	}
	err = w.catalog.retry(ctx, m, func(m *manifest) error {
		has, err = w.ask(ctx, m, mark)
		number = m.number
		return err
	})
	return has, number, err
}

// ask is has by a manifest, which it keeps.
func (w *Writer) ask(ctx context.Context, m *manifest, mark string) (bool, error) {
	if err := syncDay(w.bucket, m.day); err != nil {
		return false, err
	}
	var damaged error
	for _, f := range m.files {
		if f.merged && m.batches[mark] || !f.merged && f.mark == mark { // no name says into which file it was merged
			err := w.checkSum(ctx, f)
			switch {
			case err == nil && !f.merged:
				return true, nil
			case err == nil:
			case !errors.Is(err, ErrCorrupt):
				return false, err
			default:
				damaged = err
			}
		}
	}
	if damaged != nil {
		return false, damaged
	}
	if len(m.missing) > 0 { // m.batches has the batches of the missing files too
		if m.batches[mark] {
			return false, m.err
		}
		return false, nil
	}
	batches := map[string]bool{}
	maps.Copy(batches, m.batches)
	for _, f := range m.files {
		if !f.merged {
			batches[f.mark] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= keptDays {
		clear(w.known)
	}
	w.known[m.day] = known{batches, m.number}
	return batches[mark], nil
}
