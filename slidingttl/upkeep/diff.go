package upkeep

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// DiffReport is what a change of policy does to the records that are readable before it.
type DiffReport struct {
	Totals
	From string `json:"from"`
	To   string `json:"to"`

	// Skipped are dead, past their cap, implausible or malformed before and after: not of Records.
	Skipped int64 `json:"skipped"`

	// Idle is what becomes of the records if nobody reads them again, Read if each is
	// read now: how its death moves. The shares are of the records that are readable.
	Idle Fate `json:"idle"`
	Read Fate `json:"read"`

	// TouchesBefore and TouchesAfter are the writes a day for the sake of expiries.
	// Before: those of which the records tell, for an expiry says when it was
	// written. After: as many keys, read as often, under the new policy. Where the
	// policy before has no slack a record tells of its last touch only, and both
	// are the least there can be.
	TouchesBefore float64 `json:"touches_a_day_before"`
	TouchesAfter  float64 `json:"touches_a_day_after"`

	Sample *Sample `json:"sample,omitempty"` // nil: all was looked at
}

// Fate is how the deaths of records move.
type Fate struct {
	Gone   Share `json:"gone"`   // at once: alive before, past the new cap
	Sooner Share `json:"sooner"` // but not at once
	Same   Share `json:"same"`
	Later  Share `json:"later"`
}

const (
	gone = iota
	sooner
	same
	laterThan
	fates
	skipped   = 2 * fates
	diffCount = skipped + 1
)

// diffed is what a diff collects: of Counts those if idle, those if read, and skipped.
type diffed struct {
	audited
	Touches float64 // a day, under the policy before
	Slid    int64   // records whose expiries tell of a touch
}

func (d *diffed) add(page *diffed) {
	d.audited.add(&page.audited)
	d.Touches += page.Touches
	d.Slid += page.Slid
}

// Diff tells what the records of s would see if policy from became policy to, at once and
// everywhere. It writes nothing, and neither would the change itself: an expiry comes
// down when its record is read.
//
// Its report is good also where an error is returned, for the records looked at until
// then. Options.PolicyFor must be nil.
func Diff(ctx context.Context, s driver.Scanner, from, to slidingttl.Policy, opts *LookOptions) (*DiffReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if o.PolicyFor != nil {
		return nil, invalid("Options.PolicyFor", "set", "must be nil: a diff is of two policies")
	}
	before, err := newJudge(from, s, &o.Options)
	if err != nil {
		return nil, err
	}
	if err := to.Validate(); err != nil {
		return nil, err
	}
	old, new := before.all, termsOf(to)
	found, err := looking("diff", before.about(" to "+to.String()), &o, diffCount, func(page []driver.Scanned, into *diffed) error {
		at := before.now()
		for i := range page {
			r := &page[i]
			switch before.state(r, &old, at) {
			case Malformed, Implausible, Dead, Retained, PastCap:
				into.Counts[skipped]++
				continue
			}
			into.Counts[fate(old.death(r.Life), new.death(r.Life), at)]++
			into.Counts[fates+fate(old.read(r.Life, at), new.read(r.Life, at), at)]++
			if r.CreatedAt != 0 && r.ExpiresAt != 0 {
				into.Slid++
				into.Touches += old.touchesADay(r.Life, at)
			}
		}
		return nil
	}).run(ctx, s)
	return found.report(from, to, &o), err
}

// fate is how a death that moves moves.
func fate(from, to, now driver.Instant) int {
	switch {
	case to <= now:
		return gone
	case to < from:
		return sooner
	case to > from:
		return laterThan
	}
	return same
}

// read is when a record of life l that is read at now, and never again, dies.
func (t *terms) read(l driver.Life, now driver.Instant) driver.Instant {
	limit := t.limit(l.CreatedAt)
	if limit <= now {
		return limit
	}
	created := l.CreatedAt
	if created == 0 {
		created = now // it is adopted
	}
	return t.policy.Expiry(created, now)
}

// window is the time in which a record that has slack is touched once at most, and its
// expiry tells whether it was.
func (t *terms) window() time.Duration { return max(min(t.policy.Slack, day), 0) }

// touchesADay is what a record of life l adds to the touches of a day.
func (t *terms) touchesADay(l driver.Life, now driver.Instant) float64 {
	written := l.ExpiresAt - t.idle - t.slack // where the expiry is not the cap
	w := driver.Instant(0).Add(t.window())
	if w == 0 {
		w = driver.Instant(0).Add(day)
	}
	if l.ExpiresAt == t.limit(l.CreatedAt) || written <= l.CreatedAt || written <= now-w || written > now {
		return 0
	}
	return float64(driver.Instant(0).Add(day)) / float64(w)
}

// touchesAfter is how many touches a day become of those, under new, for n records.
func touchesAfter(old, new *terms, touches float64, n int64) float64 {
	if touches == 0 || n == 0 {
		return 0
	}
	slackDays := func(t *terms) float64 { return t.policy.Slack.Hours() / 24 }
	// A record is touched when its slack has passed and it is then read: the gap
	// between is what both policies have in common.
	gap := max(0, float64(n)/touches-slackDays(old))
	if after := slackDays(new) + gap; after > 0 {
		return float64(n) / after
	}
	return touches
}

func (d *diffed) report(from, to slidingttl.Policy, o *LookOptions) *DiffReport {
	if d.Counts == nil {
		d.Counts = make([]int64, diffCount)
	}
	clusters := slices.Collect(maps.Values(d.Clusters))
	all := shares(d.Counts[:skipped], fates, clusters)
	old, new := termsOf(from), termsOf(to)
	r := &DiffReport{
		Totals:        d.Totals,
		From:          from.String(),
		To:            to.String(),
		Skipped:       d.Counts[skipped],
		Idle:          Fate{all[gone], all[sooner], all[same], all[laterThan]},
		Read:          Fate{all[fates+gone], all[fates+sooner], all[fates+same], all[fates+laterThan]},
		TouchesBefore: d.Touches,
		TouchesAfter:  touchesAfter(&old, &new, d.Touches, d.Slid),
	}
	if from.Promote || to.Promote {
		r.TouchesBefore, r.TouchesAfter = 0, 0 // one in a record's life, which no expiry dates
	}
	if len(clusters) > 1 {
		r.Sample = estimate(o.Sample, fates, clusters)
		r.TouchesBefore /= o.Sample
		r.TouchesAfter /= o.Sample
	}
	return r
}

// String is the report as text, of several lines.
func (r *DiffReport) String() string {
	s := newSheet()
	s.line("from %s", r.From)
	s.line("to %s", r.To)
	s.totals(&r.Totals)
	s.line("%s dead, past their cap, implausible or malformed before and after", thousands(r.Skipped))
	if r.Sample != nil {
		s.line("a sample of %s; bounds hold together with a confidence of %.0f %%", percent(r.Sample.Of), 100*r.Sample.Confidence)
	}
	for _, f := range []struct {
		title string
		Fate
	}{{"if nobody reads them again", r.Idle}, {"if each is read now", r.Read}} {
		s.line("\n%s, they die", f.title)
		s.share("at once", f.Gone, r.Sample != nil)
		s.share("sooner", f.Sooner, r.Sample != nil)
		s.share("as before", f.Same, r.Sample != nil)
		s.share("later", f.Later, r.Sample != nil)
	}
	s.line("\ntouches a day: about %s before, %s after", number(r.TouchesBefore), number(r.TouchesAfter))
	return s.text()
}
