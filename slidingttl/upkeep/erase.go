package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// EraseOptions says what Erase removes. It has Keys or a Prefix.
type EraseOptions struct {
	WriteOptions

	// Found is called with the keys of records that are about to be removed, before they are,
	// one call at a time. Its error ends the operation. Nil: nobody is told.
	Found func(keys []string) error

	// Kept is called like Found, with the keys of records that were to be removed and are in the store
	// at the end. Nil: nobody is told.
	Kept func(keys []string) error
}

func (o *EraseOptions) validate() error {
	return cmp.Or(o.WriteOptions.validate(), o.named("EraseOptions"))
}

var erasing = operation{
	"erase", "erasing",
	"applied erased ended" + written + " missed? others? later? left?",
	append([]row{
		{"erased", "would be erased", wrote},
		{"ended", "would be erased: lives beside records", rare | wrote},
		{"missed", "gone before, or kept", rare | wrote},
		{"others", "no records, which stay", rare},
		{"later", "lives to be erased an hour later", rare | wrote},
	}, writtenRows...),
}

// Erase deletes the records of keys, whatever their state: alive, dead, retained or unreadable. It
// is for the right to erasure. A record of these keys that is written during the call may stay. So may one
// that was written, or restored, before a call with Options.Resume: nothing looks behind that position.
//
// The report counts records as "erased", or in a dry run what would be, and as "ended" the lives beside
// records (see driver.Eraser), as counted when the last run began. "missed" were gone before their removal,
// or there after it: another look counts in Failed those that are there at the end. "others" are keys that
// hold no record, but another type of value, for example: they stay. "later" are lives beside records that
// have to stay for now: erase again an hour later.
func Erase(ctx context.Context, d Store, opts *EraseOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	w := newWriter(d, &o.WriteOptions)
	raw := w.raw
	one := func(ctx context.Context, s *record) (Report, error) {
		r := Report{Counts: map[string]int64{"erased": 1, "write_units": units(s.Size)}}
		if !o.Apply {
			w.tried.Add(1)
			return r, nil
		}
		there := func() bool {
			_, err := raw.Raw(ctx, s.Key)
			return !errors.Is(err, driver.ErrNotFound)
		}
		gone := o.Prefix != "" && !s.last && raw != nil && !there() // a scan may show a key that no look-up finds
		err := w.write(ctx, s, func() error { return d.Delete(ctx, s.Key) })
		if err == nil {
			w.landed.Add(1)
			if gone || raw != nil && there() {
				r.Counts["erased"], r.Counts["missed"] = 0, 1
			}
		}
		return r, err
	}
	what := driver.Erasure{Keys: o.Keys, Prefix: o.Prefix}
	var scanner driver.Scanner = d
	more, _ := driver.As[driver.Eraser](d)
	if more != nil {
		scanner = more.Whole(what)
		if whole, ok := scanner.(driver.RawReader); ok {
			raw = whole
		}
	}
	var mu sync.Mutex // held by calls of Found
	found := func(keys []string) error {
		mu.Lock()
		defer mu.Unlock()
		return o.Found(keys)
	}
	visit := func(ctx context.Context, _ int, page []driver.Scanned, into *Report) error {
		page = slices.DeleteFunc(page, func(s driver.Scanned) bool {
			if s.Other {
				into.count("others", 1)
			}
			return s.Other || errors.Is(s.Problem, driver.ErrNotFound)
		})
		if o.Found != nil && len(page) > 0 {
			keys := make([]string, len(page))
			for i := range page {
				keys[i] = page[i].Key
			}
			if err := found(keys); err != nil {
				return err
			}
		}
		w.fails.walked.Add(int64(len(page)))
		return forEach(ctx, w, recordsOf(page), into, true, one)
	}
	j := erasing.writing(fmt.Sprintf("apply %v", o.Apply), &o.WriteOptions, w, one)
	j.visit = visit
	var ended, later int64
	if more != nil {
		if ended, later, err = more.EraseEnded(ctx, what, false); err != nil {
			return nil, err
		}
	}
	r, err := j.run(ctx, scanner)
	erasing.end(&r, o.Apply, "")
	r.Counts["ended"], r.Counts["later"] = ended, later
	if err == nil && o.Apply && r.Failed+r.Counts["missed"]+r.Unsure > 0 {
		err = look(ctx, d, o, &r)
	}
	if more != nil && err == nil && o.Apply {
		if _, r.Counts["later"], err = more.EraseEnded(ctx, what, true); err == nil { // a trigger may have kept records that were erased
			r.Left, err = more.Scrub(ctx, what)
		}
	}
	return &r, err
}

// look sets r.Failed to the number of records that are there after all.
func look(ctx context.Context, d Store, o EraseOptions, r *Report) error {
	o.Apply, o.Resume, o.Save, o.Found = false, nil, nil, o.Kept
	now, err := Erase(ctx, d, &o)
	if err != nil {
		return err
	}
	if more := now.Counts["erased"] - r.Failed; more > 0 {
		r.Failures = verdict.Count(r.Failures, map[string]int64{"the store kept it, or a look-up does not find its key": more})
	}
	r.Failed = max(r.Failed, now.Counts["erased"])
	return nil
}
