package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ReapOptions adjusts Reap. The zero value, and nil, mean the defaults.
type ReapOptions struct {
	WriteOptions

	// Grace is how long a record must have been dead. It must exceed the difference between
	// the clocks of all users of the store. Zero: an hour.
	Grace time.Duration

	// PastCap removes records past their cap whose expiry is in the future. It is the
	// default if none of the three is set.
	PastCap bool

	// Expired removes records whose expiry has passed, for a store that does not remove
	// them, or where that is switched off.
	Expired bool

	// Retained removes records before their retention is over: they are then lost to a
	// Store's History and to archives.
	Retained bool
}

func (o *ReapOptions) validate() error {
	if len(o.Keys) > 0 {
		return invalid("ReapOptions.Keys", fmt.Sprint(len(o.Keys), " keys"), "must be none: a look-up does not tell what the store retains")
	}
	return cmp.Or(o.WriteOptions.validate(), atLeastZero("ReapOptions.Grace", &o.Grace, time.Hour))
}

var reaping = operation{
	"reap", "reaping",
	"applied policy past_cap expired retained left alive malformed implausible" + written + " problems?",
	append([]row{
		{"past_cap", "would be removed: past their cap", wrote},
		{"expired", "would be removed: expired", rare | wrote},
		{"retained", "dead, and retained by the store", rare},
		{"left", "dead, and left to the store", rare},
		{"alive", "alive, or dead not long enough", usual},
		{"malformed", "left: malformed", rare},
		{"implausible", "left: implausible, see audit", rare},
	}, append(writtenRows, malformedRow)...),
}

// Reap removes the records of d that are dead under p and that the store will not remove.
// These are records past their cap with an expiry in the future, or with none. A record
// that was written again meanwhile is not removed. Neither is a record that the store
// retains: if a driver retains dead records, a death by the cap counts like one by the
// expiry.
//
// The report counts records removed as "past_cap" and "expired", or in a dry run what would be, those that
// are dead and stay as "retained" and "left" to the store, those "alive", or dead for less than Grace, and
// as "malformed" or "implausible" (with times that make no sense) what is not removed either.
func Reap(ctx context.Context, d Store, p slidingttl.Policy, opts *ReapOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if !o.Expired && !o.Retained {
		o.PastCap = true
	}
	j, err := verdict.New(p, o.PolicyFor, d, o.MaxSkew, o.Now)
	if err != nil {
		return nil, err
	}
	w := newWriter(d, &o.WriteOptions)
	reap := func(ctx context.Context, s *record) (one Report, err error) {
		if s.Problem != nil {
			one.malformed(s.Problem)
			return one, nil
		}
		t, err := j.Terms(s.Key)
		if err != nil {
			return one, err
		}
		var counted string
		var retention time.Duration
		if s.HeldUntil != 0 {
			retention = s.HeldUntil.Sub(s.ExpiresAt)
		}
		plan := func(m driver.Meta) (driver.Life, bool, error) {
			now := j.Now()
			died := t.Death(m.Life)
			retained := died.Add(retention) > now
			switch {
			case j.Implausible(m.Life, now) != "":
				counted = "implausible"
			case died > now.Add(-o.Grace):
				counted = "alive"
			case retained && !o.Retained:
				counted = "retained"
			case m.Alive(now) && (o.PastCap || retained):
				counted = "past_cap"
				return m.Life, true, nil
			case !m.Alive(now) && (o.Expired || retained):
				counted = "expired"
				return m.Life, true, nil
			default:
				counted = "left"
			}
			return m.Life, false, nil
		}
		what, err := w.writeUnlessChanged(ctx, s, plan, func(was driver.Meta, _ driver.Life) error {
			// A driver's condition needs a live record, so judge it at its last live instant.
			at := j.Now()
			if was.ExpiresAt != 0 {
				at = min(at, was.ExpiresAt-1)
			}
			err := driver.Remove(ctx, d, s.Key, was, at)
			if unanswered(ctx, err) {
				s.unknown = true
			} else if s.unknown && errors.Is(err, driver.ErrNotFound) {
				return nil // an earlier attempt has removed it
			}
			return err
		})
		return noted(what, counted, s.Size, err)
	}
	about := about(j, fmt.Sprintf(", grace %v, past cap %v, expired %v, retained %v, apply %v", o.Grace, o.PastCap, o.Expired, o.Retained, o.Apply))
	return reaping.run(ctx, d, about, j.Policies(), &o.WriteOptions, w, reap)
}
