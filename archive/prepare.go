package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// prepare splits a batch by day. Each day's records are sorted as in files, each life once.
func (w *Writer) prepare(source string, batch []Record) (map[Day][]entry, error) {
	if source == "" {
		return nil, &driver.InvalidError{Field: "source", Value: "empty", Rule: "must have at least one byte"}
	}
	if err := checkText("source", source); err != nil {
		return nil, err
	}
	now := w.opts.Now()
	latest := w.latest(now)
	archived := make([]Archived, len(batch))
	days := map[Day][]entry{}
	for i := range batch {
		r := &batch[i]
		a, problem := w.archived(r, source, driver.Floor(now))
		d := DayOf(a.ExpiredAt)
		switch {
		case problem != nil:
			a, d = quarantined(r, source, driver.Floor(now), problem), Quarantine
		case a.ExpiredAt > latest:
			return nil, clockError(fmt.Sprintf("the death of record %d of the batch", i), a.ExpiredAt.Time(), now)
		}
		archived[i] = a
		days[d] = append(days[d], entryOf(&archived[i]))
	}
	for d, records := range days {
		days[d] = lives(records)
	}
	return days, nil
}

// latest returns the last time at now that is not in the future by the clock of any source.
func (w *Writer) latest(now time.Time) driver.Instant { return driver.Ceil(now.Add(w.opts.MaxSkew)) }

// archived returns r in the archive's form. For a problem, r belongs in the quarantine.
func (w *Writer) archived(r *Record, source string, now driver.Instant) (a Archived, problem error) {
	a = Archived{Record: *r, Source: source, ArchivedAt: now}
	if err := r.check(); err != nil {
		return a, err
	}
	a.Generation = r.generation()
	if a.Reason == "" {
		a.Reason = Unknown
	}
	for _, c := range w.opts.Columns {
		v, err := c.of(r)
		if s, ok := v.(string); ok && err == nil {
			err = checkText("column "+c.name, s)
		}
		if i, ok := v.(driver.Instant); ok && err == nil {
			err = checkTime("column "+c.name, i)
		}
		if err != nil {
			return a, fmt.Errorf("column %s: %w", c.name, err)
		}
		if v == nil {
			continue
		}
		if a.Columns == nil {
			a.Columns = map[string]any{}
		}
		a.Columns[c.name] = v
	}
	return a, nil
}

// markOf returns a hash of the lives in a day's sorted records. File names identify batches by it.
func markOf(records []entry) string {
	h := sha256.New()
	var b []byte
	for i := range records {
		id := &records[i].id
		b = b[:0]
		for _, s := range []string{id.key, id.source, id.generation} {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		_, _ = h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
