package upkeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// MendReport is what became of the malformed records of a store.
type MendReport struct {
	Totals
	Applied bool `json:"applied"` // else it was a dry run

	Mended   int64            `json:"mended"` // in a dry run: would be
	Faults   map[string]int64 `json:"faults,omitempty"`
	Left     int64            `json:"left"` // what was meant is in doubt
	Problems map[string]int64 `json:"problems,omitempty"`
	Well     int64            `json:"well"`
	Missed
}

func (r *MendReport) totals() *Totals { return &r.Totals }

func (r *MendReport) add(page *MendReport) {
	r.Mended += page.Mended
	r.Faults = count(r.Faults, page.Faults)
	r.Left += page.Left
	r.Problems = count(r.Problems, page.Problems)
	r.Well += page.Well
	r.Missed.sum(&page.Missed)
}

// Mend writes anew what records of s say of their life, where it cannot be read or the
// store does not act on it, and there is no doubt what it is: see [driver.Mender]. Over a driver that is none it
// reports them and writes nothing. Options.PolicyFor is not used.
//
// Its report is good also where an error is returned, for the records looked at until
// then.
func Mend(ctx context.Context, s driver.Scanner, opts *WriteOptions) (*MendReport, error) {
	var o WriteOptions
	if opts != nil {
		o = *opts
	}
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	m := &mender{writer: newWriter(&o)}
	m.driver, _ = driver.As[driver.Mender](s)
	r, err := writing("mend", fmt.Sprintf("apply %v", o.Apply), &o, m.writer, m.mend).run(ctx, s)
	r.Applied = o.Apply
	return &r, err
}

// mender is a Mend under way.
type mender struct {
	driver driver.Mender // nil: none
	writer *writer
}

// mend mends r, and returns a report of it alone.
func (m *mender) mend(ctx context.Context, r *driver.Scanned) (one MendReport, err error) {
	switch {
	case r.Problem == nil && (r.Fault == "" || m.driver == nil):
		one.Well = 1
		return one, nil
	case m.driver == nil:
		one.left(r.Problem)
		return one, nil
	}
	var fault string
	for range lostRaces {
		err = again(ctx, func() (err error) {
			if err := m.writer.turn(ctx); err != nil {
				return err
			}
			fault, err = m.driver.Mend(ctx, r.Key, m.writer.apply)
			return err
		})
		if !errors.Is(err, driver.ErrConflict) {
			break
		}
	}
	switch {
	case err == nil && fault == "":
		one.Well++
	case err == nil:
		one.Mended, one.Faults = 1, map[string]int64{fault: 1}
	case errors.Is(err, driver.ErrInvalid):
		one.left(err)
	case errors.Is(err, driver.ErrNotFound):
		one.Vanished++
	case errors.Is(err, driver.ErrLocked):
		one.Locked++
	case errors.Is(err, driver.ErrConflict):
		one.Races++
	default:
		return one, err
	}
	return one, nil
}

func (r *MendReport) left(err error) {
	r.Left, r.Problems = 1, map[string]int64{reason(err): 1}
}

// String is the report as text, of several lines.
func (r *MendReport) String() string {
	s := newSheet()
	s.line("mending%s", dry(r.Applied))
	s.totals(&r.Totals)
	s.line("")
	s.tally(would(r.Applied, "mended"), r.Mended)
	s.tally("well", r.Well)
	s.some("left: what was meant is in doubt", r.Left)
	s.missed(&r.Missed)
	s.counts("\nfaults", r.Faults)
	s.counts("\nleft because", r.Problems)
	return s.text()
}
