package upkeep

import (
	"github.com/slidingttl/slidingttl/internal/sheet"
	"github.com/slidingttl/slidingttl/internal/verdict"
)

// tallies has the counters of a report, in the order of its text.
type tallies struct {
	title   string
	numbers []tally
	reasons []reasons
}

// tally is a number of records.
type tally struct {
	n    *int64
	name string
	kind kind
}

// kind says what a number is of.
type kind int

const (
	rare   kind = 1 << iota // left out of the text if zero
	wrote                   // records that were written
	amount                  // what the writes cost
	usual  kind = 0
)

// reasons counts records by reason.
type reasons struct {
	of    *map[string]int64
	title string
	kind  kind
}

// add adds the counts of a page.
func (t tallies) add(page tallies) {
	for i, n := range t.numbers {
		*n.n += *page.numbers[i].n
	}
	for i, r := range t.reasons {
		*r.of = verdict.Count(*r.of, *page.reasons[i].of)
	}
}

// restart keeps the numbers of records that were written, and counts them in of as repeated.
func (t tallies) restart(of *Totals) {
	of.restart()
	for _, n := range t.numbers {
		switch {
		case n.kind&wrote != 0:
			of.Repeated += *n.n
		case n.kind&amount == 0:
			*n.n = 0
		}
	}
	for _, r := range t.reasons {
		if r.kind&wrote == 0 {
			*r.of = nil
		}
	}
}

// text returns the report as several lines of text. The lines of more follow the totals.
func (t tallies) text(of *Totals, more ...string) string {
	s := sheet.New()
	s.Line("%s", t.title)
	s.Line("%s", of)
	for _, line := range append(more, "") {
		s.Line("%s", line)
	}
	for _, n := range t.numbers {
		if n.kind&rare == 0 || *n.n > 0 {
			s.Line("  %s\t%s", n.name, sheet.Thousands(*n.n))
		}
	}
	for _, r := range t.reasons {
		s.Counts("\n"+r.title, *r.of)
	}
	return s.Text()
}

func dry(applied bool) string {
	if applied {
		return ""
	}
	return ", a dry run: nothing was written"
}

func would(applied bool, what string) string {
	if applied {
		return what
	}
	return "would be " + what
}

// Written sums the writes of an operation, and counts the records that it failed to write.
type Written struct {
	// Units counts the store's write units. Each write costs the record's size by the scan,
	// in units of 1 KB, and at least one. In a dry run: what it would cost.
	Units int64 `json:"write_units"`

	Vanished int64 `json:"vanished"`   // gone before they could be written
	Locked   int64 `json:"locked"`     // not written: locked by another client
	Races    int64 `json:"lost_races"` // not written: changed by others before each attempt
	Kept     int64 `json:"kept"`       // not written: of a kind that WriteOptions.Kinds does not name
}

// Billed returns Units.
func (m *Written) Billed() int64 { return m.Units }

func (m *Written) tallies() []tally {
	return []tally{
		{&m.Units, "write units, by the sizes known", rare | amount},
		{&m.Locked, "left: locked by another client", rare},
		{&m.Races, "left: written by others time and again", rare},
		{&m.Kept, "left: sessions and their indexes, see --kinds", rare},
		{&m.Vanished, "gone before they were written", rare},
	}
}

// note counts the outcome of a record whose write costs units.
func (m *Written) note(o outcome, units int64) {
	switch o {
	case done:
		m.Units += units
	case vanished:
		m.Vanished++
	case locked:
		m.Locked++
	case races:
		m.Races++
	case kept:
		m.Kept++
	}
}
