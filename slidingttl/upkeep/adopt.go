package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// AdoptOptions adjusts Adopt. The zero value, and nil, mean the defaults.
type AdoptOptions struct {
	WriteOptions

	// Origin is the rule for created_at. A record for which the rule gives none is not
	// written. Zero: created_at is drawn by key from the Spread before now.
	Origin Origin

	// Spread is the length of time before now from which created_at is drawn, so that
	// records in use do not all reach their cap at once. It is at most MaxLifetime -
	// IdleGrace: with more, some would die before they had been idle for IdleGrace. Zero:
	// that maximum, or IdleGrace if there is no cap. With PolicyFor it is an upper bound.
	Spread time.Duration

	// Exact makes created_at now for all, without a spread.
	Exact bool

	// TooOld also adopts records that Origin makes older than MaxLifetime: their
	// created_at is drawn from the Spread. Without it such a record, which its first read
	// would not find, is counted and not written.
	TooOld bool

	// Undo is called before each write, concurrently, and stores the Change for the
	// function Undo. Its error ends the operation, and the record is not written. Nil: no
	// Change is stored.
	Undo func(Change) error
}

var adoption = operation{
	"adopt", "adoption",
	"applied policy adopted already dead too_old no_origin malformed" + written + " problems?",
	append([]row{
		{"adopted", "would be adopted", wrote},
		{"already", "had created_at", usual},
		{"dead", "dead", rare},
		{"too_old", "left: too old, by the rule", rare},
		{"no_origin", "left: the rule cannot tell", rare},
		{"malformed", "left: malformed", rare},
	}, append(writtenRows, malformedRow)...),
}

// Adopt gives created_at to the records of d that have none. It also gives an expiry to
// records that have none, or one beyond the policy. The expiry is drawn by key between
// IdleGrace from now and Slack later, so that records that are not read do not all die at
// once. An earlier expiry stays. Records that already follow p are not written.
//
// The report counts records as "adopted", or in a dry run what would be, "already" (with created_at),
// "dead", "too_old" and "no_origin" (left, by Origin), and "malformed".
func Adopt(ctx context.Context, d Store, p slidingttl.Policy, opts *AdoptOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, err := verdict.New(p, o.PolicyFor, d, o.MaxSkew, o.Now)
	if err != nil {
		return nil, err
	}
	if most := p.MaxLifetime - p.IdleGrace; o.Spread < 0 || o.Spread > most {
		return nil, invalid("AdoptOptions.Spread", o.Spread.String(), "must be from zero to Policy.MaxLifetime - Policy.IdleGrace, "+most.String())
	}
	if o.Exact && o.Spread != 0 {
		return nil, invalid("AdoptOptions.Spread", o.Spread.String(), "must be zero with Exact")
	}
	if (o.Origin.Created == nil) != (o.Origin.Name == "") {
		return nil, invalid("AdoptOptions.Origin", fmt.Sprintf("%q", o.Origin.Name), "must have a name and a function, or neither")
	}
	a := &adopter{d: d, opts: &o, judge: j, writer: newWriter(d, &o.WriteOptions)}
	about := about(j, fmt.Sprintf(", spread %v, exact %v, rule %q, too old %v, apply %v", o.Spread, o.Exact, o.Origin.Name, o.TooOld, o.Apply))
	return adoption.run(ctx, d, about, j.Policies(), &o.WriteOptions, a.writer, a.adopt)
}

// adopter is an Adopt under way.
type adopter struct {
	d      Store
	opts   *AdoptOptions
	judge  *verdict.Judge
	writer *writer
}

// adopt adopts r, and returns a report of it alone.
func (a *adopter) adopt(ctx context.Context, r *record) (one Report, err error) {
	switch {
	case r.Problem != nil:
		if err := a.writer.judgeKey(r.Key); err != nil {
			return one, err // a record that the driver cannot name fails, and its key is reported
		}
		if errors.Is(r.Problem, driver.ErrNotFound) {
			return noted(vanished, "", 0, nil)
		}
		one.malformed(r.Problem)
		return one, nil
	case r.CreatedAt != 0:
		return noted(nothing, "already", 0, nil)
	}
	t, err := a.judge.Terms(r.Key)
	if err != nil {
		return one, err
	}
	counted := "adopted"
	var told Change
	at := a.judge.Now() // the same for all attempts, so that they write the same life, until that has ended
	var now driver.Instant
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		if now = a.judge.Now(); at.Add(t.IdleGrace) <= now {
			at = now
		}
		switch {
		case m.CreatedAt != 0:
			counted = "already"
			return m.Life, false, nil
		case !m.Alive(now):
			counted = "dead"
			return m.Life, false, nil
		}
		created, known, err := a.created(ctx, Record{Key: r.Key, Meta: m, raw: a.writer.raw}, t, at)
		switch {
		case err != nil:
			return m.Life, false, err
		case !known:
			counted = "no_origin"
			return m.Life, false, nil
		case t.Limit(created) <= now && !a.opts.TooOld:
			counted = "too_old"
			return m.Life, false, nil
		case t.Limit(created) <= now:
			created = a.drawn(r.Key, t, at)
		case created < verdict.Earliest: // without a cap nothing is too old, but this is implausible
			counted = "no_origin"
			return m.Life, false, nil
		}
		return driver.Life{CreatedAt: created, ExpiresAt: a.expiry(r.Key, m, t, created, at)}, true, nil
	}
	what, err := a.writer.writeUnlessChanged(ctx, r, plan, func(was driver.Meta, next driver.Life) error {
		if a.opts.Undo != nil && (told.Was != was.ExpiresAt || told.Life != next) {
			told = Change{[]byte(r.Key), was.ExpiresAt, next}
			if err := a.opts.Undo(told); err != nil {
				return &retry.Fatal{Err: fmt.Errorf("AdoptOptions.Undo: %w", err)}
			}
		}
		_, err := a.d.Touch(ctx, r.Key, was, next, now) // a later time would tell it to end the life
		return err
	})
	if err == nil && what == done && !a.opts.Apply {
		err = cmp.Or(r.Full, a.writer.judgeKey(r.Key))
	}
	return noted(what, counted, r.Size, err)
}

// created returns the created_at to write to r, and false if Origin knows none.
func (a *adopter) created(ctx context.Context, r Record, t *verdict.Terms, now driver.Instant) (driver.Instant, bool, error) {
	switch {
	case a.opts.Origin.Created == nil && a.opts.Exact:
		return now, true, nil
	case a.opts.Origin.Created == nil:
		return a.drawn(r.Key, t, now), true, nil
	}
	created, known, err := driver.Instant(0), false, error(nil)
	err = retry.Do(ctx, func() (err error) {
		created, known, err = a.opts.Origin.Created(ctx, r)
		return err
	})
	if created == 0 {
		created = 1 // zero would mean none
	}
	return min(created, now), known, err
}

// The draws have different salts, so that they are independent.
const (
	saltCreated = 1
	saltExpiry  = 2
	saltPart    = 3
)

// share returns a number in [0, 1) that depends on key and salt only.
func share(key string, salt uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	x := h.Sum64() + salt*0x9e3779b97f4a7c15
	// The finalizer of splitmix64: a key's last bytes hardly change FNV's high bits.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// drawn returns a created_at for key, drawn from the spread before now.
func (a *adopter) drawn(key string, t *verdict.Terms, now driver.Instant) driver.Instant {
	w := t.MaxLifetime - t.IdleGrace
	switch {
	case a.opts.Spread != 0:
		w = min(w, a.opts.Spread)
	case t.MaxLifetime == slidingttl.NoCap:
		w = t.IdleGrace
	}
	return max(1, now-driver.Instant(share(key, saltCreated)*float64(w.Milliseconds())))
}

// expiry returns the expiry to write when key is adopted.
func (a *adopter) expiry(key string, m driver.Meta, t *verdict.Terms, created, now driver.Instant) driver.Instant {
	e := now.Add(t.IdleGrace).Plus(driver.Instant(share(key, saltExpiry) * float64(t.Slack.Milliseconds())))
	e = min(e, t.Limit(created)).RoundUp(a.d.Resolution())
	if m.ExpiresAt != 0 && m.ExpiresAt < e {
		return m.ExpiresAt
	}
	return e
}
