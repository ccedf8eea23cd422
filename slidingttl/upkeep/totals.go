package upkeep

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/internal/sheet"
	"github.com/slidingttl/slidingttl/internal/verdict"
)

// Totals is the common part of all reports.
type Totals struct {
	Records int64   `json:"records"` // records read
	Cost    float64 `json:"cost"`    // of the scan, in the store's unit; zero if it reports none
	Seconds float64 `json:"seconds"` // duration of all runs
	Done    bool    `json:"done"`    // all records were read

	// Runs is the number of runs: more than one after a resume. Records that a run changed
	// after its last checkpoint count as found in their new state.
	Runs int `json:"runs"`

	// Passed counts the items in the store that are no records of this layout: they have
	// another type, or keys that the layout does not make or that lack Options.Prefix.
	Passed int64 `json:"passed,omitempty"`

	// Failed counts the records that could not be read or written, and were not changed.
	// Failures has their number by reason, at most 100 reasons.
	Failed   int64            `json:"failed,omitempty"`
	Failures map[string]int64 `json:"failures,omitempty"`

	// Waiting counts records whose write was not tried to its end when the run ended: they may
	// have been written. A resumed run tries them first, so it is zero in a report that is Done.
	Waiting int64 `json:"waiting,omitempty"`

	// Unsure counts records that may have been written: the answers to their writes were lost,
	// and they could not be read again. Options.Failed is told of them.
	Unsure int64 `json:"unsure,omitempty"`

	// Repeated counts records that were written by this operation before the store's scan began
	// anew, as after a restart of Redis. Such records count twice, if the scan found them again.
	Repeated int64 `json:"repeated,omitempty"`

	pending []record
}

func (t *Totals) sum(page *Totals) {
	t.Records += page.Records
	t.Cost += page.Cost
	t.Seconds += page.Seconds
	t.Runs += page.Runs
	t.Passed += page.Passed
	t.Failed += page.Failed
	t.Unsure += page.Unsure
	t.Repeated += page.Repeated
	t.Failures = verdict.Count(t.Failures, page.Failures)
	t.pending = append(t.pending, page.pending...)
}

// Sum returns t.
func (t *Totals) Sum() *Totals { return t }

// restart keeps the cost, and what is pending.
func (t *Totals) restart() { *t = Totals{Cost: t.Cost, pending: t.pending} }

// String says what the work has cost, and what was not done, in one line or several.
func (t *Totals) String() string {
	s := sheet.New()
	line := fmt.Sprintf("%s records looked at in %s", sheet.Thousands(t.Records), time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond))
	if t.Cost > 0 {
		line += fmt.Sprintf(", at a cost of %s", sheet.Number(t.Cost))
	}
	if t.Runs > 1 {
		line += fmt.Sprintf(", in %d runs; what one did after its last checkpoint counts as found so", t.Runs)
	}
	if !t.Done {
		line += "; not all were"
	}
	s.Line("%s", line)
	for _, l := range []struct {
		n    int64
		text string
	}{
		{t.Passed, "passed over: of another type, or under other keys"},
		{t.Waiting, "not tried to the end, and perhaps written: a resumed run tries them first"},
		{t.Unsure, "perhaps written: the answers were lost"},
		{t.Repeated, "were written before the store restarted, when its scan began anew"},
	} {
		if l.n > 0 {
			s.Line("%s %s", sheet.Thousands(l.n), l.text)
		}
	}
	s.Counts(sheet.Thousands(t.Failed)+" failed, and were left as they are, because", t.Failures)
	return s.Text()
}
