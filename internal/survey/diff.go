package survey

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/slidingttl/slidingttl/internal/sheet"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// DiffReport describes what a change of policy does to the records that are readable before it.
type DiffReport struct {
	upkeep.Totals
	From string `json:"from"`
	To   string `json:"to"`

	// Skipped counts records that are dead, past their cap, implausible or malformed before
	// and after. They are not in Records.
	Skipped int64 `json:"skipped"`

	// Idle describes how deaths move if no record is read again, and Read if each is read
	// now. The shares are of the readable records.
	Idle Fate `json:"idle"`
	Read Fate `json:"read"`

	// Before and After count the readable records by when they die if no record is read
	// again. Those that are gone at once die in the first step of After.
	Before Calendar `json:"before"`
	After  Calendar `json:"after"`

	// TouchesBefore and TouchesAfter estimate the touches a day. Before is derived from
	// the expiries, which show when they were written. After assumes the same keys and
	// reads under the new policy. If the policy before has no slack, an expiry shows the
	// last touch only, and both figures are lower bounds.
	TouchesBefore float64 `json:"touches_a_day_before"`
	TouchesAfter  float64 `json:"touches_a_day_after"`

	Sample *Sample `json:"sample,omitempty"` // nil: all records were read
}

// Fate is how the deaths of records move.
type Fate struct {
	Gone   Share `json:"gone"`   // die at once: alive before, past the new cap
	Sooner Share `json:"sooner"` // die sooner, but not at once
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

// diffed is what a diff collects. Its Counts are those for Idle, those for Read, and Skipped.
type diffed struct {
	audited // its Dying is before the change
	After   deaths
	Touches float64 // a day, under the policy before
	Slid    int64   // records whose expiries show a touch
}

func (d *diffed) add(page *diffed) {
	d.audited.add(&page.audited)
	d.After = d.After.plus(page.After)
	d.Touches += page.Touches
	d.Slid += page.Slid
}

// Diff reports what would happen to the records of s if policy to replaced from everywhere, now.
// It writes nothing. Neither would the change itself: an expiry is lowered when its record
// is read.
//
// With Options.PolicyFor or LookOptions.ToFor it does not estimate touches.
func Diff(ctx context.Context, s driver.Scanner, from, to slidingttl.Policy, opts *LookOptions) (*DiffReport, error) {
	o := driver.Given(opts)
	if err := o.validate(); err != nil {
		return nil, err
	}
	before, err := o.judge(from, s)
	if err != nil {
		return nil, err
	}
	o.PolicyFor = o.ToFor
	after, err := o.judge(to, s)
	if err != nil {
		return nil, err
	}
	step := stepOf(from, to)
	found, err := look(ctx, s, "diff", "policy "+before.Policies()+" to "+after.Policies(), &o, diffCount, (*diffed).add, func(page []driver.Scanned, into *diffed) error {
		at := before.Now()
		into.Dying, into.After = make(deaths), make(deaths)
		for i := range page {
			r := &page[i]
			old, err := before.Terms(r.Key)
			if err != nil {
				return err
			}
			new, err := after.Terms(r.Key)
			if err != nil {
				return err
			}
			switch before.State(r, old, at) {
			case verdict.Malformed, verdict.Implausible, verdict.Dead, verdict.Retained, verdict.PastCap:
				into.Counts[skipped]++
				continue
			}
			into.Dying.count(r.Life, old, step, at)
			into.After.count(r.Life, new, step, at)
			into.Counts[fate(old.Death(r.Life), new.Death(r.Life), at)]++
			into.Counts[fates+fate(read(old, r.Life, at), read(new, r.Life, at), at)]++
			if r.CreatedAt != 0 && r.ExpiresAt != 0 {
				into.Slid++
				into.Touches += touchesADay(old, r.Life, at)
			}
		}
		return nil
	})
	if found == nil {
		return nil, err
	}
	return found.report(before, after, &o), err
}

// fate returns the kind of Fate of a record whose death moves from one time to another.
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

// read returns when a record of life l dies if it is read at now and never again.
func read(t *verdict.Terms, l driver.Life, now driver.Instant) driver.Instant {
	limit := t.Limit(l.CreatedAt)
	if limit <= now {
		return limit
	}
	created := l.CreatedAt
	if created == 0 {
		created = now // it is adopted
	}
	return t.Expiry(created, now)
}

// touchesADay returns what a record of life l adds to the touches a day.
func touchesADay(t *verdict.Terms, l driver.Life, now driver.Instant) float64 {
	written := l.ExpiresAt.Add(-t.IdleGrace).Add(-t.Slack) // if the expiry is not the cap
	// The time in which a record is touched at most once: its slack, or a day.
	w := cmp.Or(driver.Instant(0).Add(min(t.Slack, day)), driver.Instant(0).Add(day))
	if l.ExpiresAt == t.Limit(l.CreatedAt) || written <= l.CreatedAt || written <= now-w || written > now {
		return 0
	}
	return float64(driver.Instant(0).Add(day)) / float64(w)
}

// touchesAfter converts the touches a day of n records under old to those under new.
func touchesAfter(old, new *verdict.Terms, touches float64, n int64) float64 {
	if touches == 0 || n == 0 {
		return 0
	}
	slackDays := func(t *verdict.Terms) float64 { return t.Slack.Hours() / 24 }
	// A record is touched by the first read after its slack has passed. The gap between
	// the two is the same under both policies.
	gap := max(0, float64(n)/touches-slackDays(old))
	if after := slackDays(new) + gap; after > 0 {
		return float64(n) / after
	}
	return touches
}

func (d *diffed) report(before, after *verdict.Judge, o *LookOptions) *DiffReport {
	if len(d.Counts) == 0 {
		d.Counts = make([]int64, diffCount)
	}
	clusters := slices.Collect(maps.Values(d.Clusters))
	all := shares(d.Counts[:skipped], fates, clusters)
	from, to, now := before.All.Policy, after.All.Policy, before.Now()
	r := &DiffReport{
		Totals:        d.Totals,
		From:          before.Policies(),
		To:            after.Policies(),
		Skipped:       d.Counts[skipped],
		Idle:          Fate{all[gone], all[sooner], all[same], all[laterThan]},
		Read:          Fate{all[fates+gone], all[fates+sooner], all[fates+same], all[fates+laterThan]},
		Before:        d.Dying.calendar(stepOf(from, to), now),
		After:         d.After.calendar(stepOf(from, to), now),
		TouchesBefore: d.Touches,
		TouchesAfter:  touchesAfter(&before.All, &after.All, d.Touches, d.Slid),
	}
	if from.Promote || to.Promote || before.PolicyFor != nil || after.PolicyFor != nil {
		r.TouchesBefore, r.TouchesAfter = 0, 0 // with Promote one in a record's life, which no expiry dates
	}
	if len(clusters) > 1 {
		r.Sample = estimate(o.Sample, fates, clusters)
		r.TouchesBefore /= o.Sample
		r.TouchesAfter /= o.Sample
	}
	return r
}

// String returns the report as several lines of text.
func (r *DiffReport) String() string {
	s := sheet.New()
	s.Line("from %s", r.From)
	s.Line("to %s", r.To)
	s.Line("%s", &r.Totals)
	s.Line("%s dead, past their cap, implausible or malformed before and after", sheet.Thousands(r.Skipped))
	if r.Sample != nil {
		s.Line("a sample of %s; bounds hold together with a confidence of %.0f %%", sheet.Percent(r.Sample.Of), 100*r.Sample.Confidence)
	}
	for _, f := range []struct {
		title string
		Fate
	}{{"if nobody reads them again", r.Idle}, {"if each is read now", r.Read}} {
		s.Line("\n%s, they die", f.title)
		share(s, "at once", f.Gone, r.Sample != nil)
		share(s, "sooner", f.Sooner, r.Sample != nil)
		share(s, "as before", f.Same, r.Sample != nil)
		share(s, "later", f.Later, r.Sample != nil)
	}
	s.Line("\ntouches a day: about %s before, %s after", sheet.Number(r.TouchesBefore), sheet.Number(r.TouchesAfter))
	return s.Text()
}
