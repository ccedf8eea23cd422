package upkeep

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/internal/sheet"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Report is the result of an operation that writes, or would. It prints as text, and marshals to JSON.
type Report struct {
	Totals
	Applied bool   // else it was a dry run
	Policy  string // empty: the operation has none

	// Counts has the numbers of records by what became of them, by the names that the operation's
	// function gives. Operations that write have besides: "write_units", which is the sum of the sizes
	// written, in units of 1 KB and at least one each, or what it would be; and the records that were not
	// written because they were "vanished" by then, "locked" by another client, changed by others before
	// each attempt ("lost_races"), or of a kind that WriteOptions.Kinds does not name ("kept").
	Counts map[string]int64

	// Reasons counts records by reason, at most 100 each: why they are malformed ("problems"), and what
	// Mend corrects ("faults").
	Reasons map[string]map[string]int64

	// Since and Until are the times of a Harvest. Deaths by Since were left to an earlier one; zero: none.
	// Deaths until Until were considered: it is the next harvest's Since if this one is Done.
	Since, Until driver.Instant

	// Again has the hashes of the keys of records that a Harvest did not hand over because they could not
	// be read: at most 10,000 dead ones, and at most 10,000 that are malformed, or have an implausible
	// expiry that has passed. The next harvest's HarvestOptions.Again must have them.
	Again []string

	// Left is what the store's own files may still hold after an Erase, in words: see driver.Eraser.
	Left []string

	of *operation // nil: of a part of the store
}

// operation says what a Report has, and how it prints.
type operation struct {
	name, title string
	json        string // its names after those of Totals, in their order; with ? only if there are any
	rows        []row  // of the text; Counts before Reasons
}

// row is a name in Counts or Reasons.
type row struct {
	name, text string // a text that begins with "would be" is of a dry run
	kind       kind
}

// kind says what a row is of.
type kind int

const (
	rare   kind = 1 << iota // left out of the text if zero
	wrote                   // records that were written
	amount                  // what the writes cost
	why                     // it is in Reasons
	usual  kind = 0
)

// written are the names that all operations have that write.
const written = " write_units vanished locked lost_races kept"

var writtenRows = []row{
	{"write_units", "write units, by the sizes known", rare | amount},
	{"locked", "left: locked by another client", rare},
	{"lost_races", "left: written by others time and again", rare},
	{"kept", "left: sessions and their indexes, see --kinds", rare},
	{"vanished", "dead or gone before they were written", rare},
}

var malformedRow = row{"problems", "malformed because", why}

var operations = []*operation{&adoption, &mending, &reaping, &retiring, &erasing, &undoing, &harvesting}

// totals are the names of Totals in JSON.
var totals = strings.Fields("records cost seconds done runs passed failed failures waiting unsure repeated")

// count adds n to a count.
func (r *Report) count(name string, n int64) {
	if r.Counts == nil {
		r.Counts = make(map[string]int64)
	}
	r.Counts[name] += n
}

// because adds to reasons.
func (r *Report) because(name string, reasons map[string]int64) {
	if r.Reasons == nil {
		r.Reasons = make(map[string]map[string]int64)
	}
	r.Reasons[name] = verdict.Count(r.Reasons[name], reasons)
}

// malformed counts a record with an error that says why it is.
func (r *Report) malformed(err error) {
	r.count("malformed", 1)
	r.because("problems", map[string]int64{verdict.Reason(err): 1})
}

// note counts the outcome of a record of that size: under name if it was written or nothing had to be.
func (r *Report) note(o outcome, name string, size int) {
	if o == done {
		r.count("write_units", units(size))
	}
	if o != done && o != nothing {
		name = string(o)
	}
	r.count(name, 1)
}

// noted returns the report of a record alone, as note counts it, or err.
func noted(o outcome, name string, size int, err error) (one Report, _ error) {
	if err == nil {
		one.note(o, name, size)
	}
	return one, err
}

// add adds the results of a page, but for its Totals.
func (r *Report) add(page *Report) {
	for name, n := range page.Counts {
		r.count(name, n)
	}
	for name, reasons := range page.Reasons {
		r.because(name, reasons)
	}
	r.Until = max(r.Until, page.Until)
	r.Again = append(r.Again, page.Again...)
}

// restart drops what is from a scan that began anew. It keeps the numbers of records that were written,
// and counts them as repeated.
func (op *operation) restart(r *Report) {
	r.Totals.restart()
	for _, row := range op.rows {
		switch {
		case row.kind&why != 0 && row.kind&wrote == 0:
			delete(r.Reasons, row.name)
		case row.kind&why != 0:
		case row.kind&wrote != 0:
			r.Repeated += r.Counts[row.name]
		case row.kind&amount == 0:
			delete(r.Counts, row.name)
		}
	}
}

// run calls one for each record of s, or of the keys of o, and returns the report.
func (op *operation) run(ctx context.Context, s driver.Scanner, about, policy string, o *WriteOptions, w *writer, one func(context.Context, *record) (Report, error)) (*Report, error) {
	r, err := op.writing(about, o, w, one).run(ctx, s)
	return op.end(&r, o.Apply, policy), err
}

// end completes the report of all.
func (op *operation) end(r *Report, applied bool, policy string) *Report {
	r.of, r.Applied, r.Policy = op, applied, policy
	for _, row := range op.rows {
		if row.kind&why == 0 {
			r.count(row.name, 0)
		}
	}
	return r
}

// field returns a pointer to what has name in JSON, or to a copy where it is in a map.
func (r *Report) field(name string) any {
	switch name {
	case "applied":
		return &r.Applied
	case "policy":
		return &r.Policy
	case "since":
		return &r.Since
	case "until":
		return &r.Until
	case "again":
		return &r.Again
	case "problems", "faults":
		reasons := r.Reasons[name]
		return &reasons
	case "left":
		if r.of == &erasing {
			return &r.Left
		}
	}
	n := r.Counts[name]
	return &n
}

// MarshalJSON implements json.Marshaler: it has Totals, and then the rest beside them.
func (r *Report) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(&r.Totals)
	names := append(slices.Sorted(maps.Keys(r.Counts)), "until?", "again?", "problems?", "faults?")
	if r.of != nil {
		names = strings.Fields(r.of.json)
	}
	text = text[:len(text)-1]
	for _, name := range names {
		name, rare := strings.CutSuffix(name, "?")
		v, failed := json.Marshal(r.field(name))
		if err = cmp.Or(err, failed); !rare || !slices.Contains([]string{"0", "null", "[]", "{}"}, string(v)) {
			text = append(append(text, `,"`+name+`":`...), v...)
		}
	}
	return append(text, '}'), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Report) UnmarshalJSON(text []byte) error {
	*r = Report{}
	var has map[string]json.RawMessage
	err := cmp.Or(json.Unmarshal(text, &has), json.Unmarshal(text, &r.Totals))
	for _, op := range operations {
		if !slices.ContainsFunc(strings.Fields(op.json), func(name string) bool { return has[name] == nil && !strings.HasSuffix(name, "?") }) {
			r.of = op
		}
	}
	for name, v := range has {
		if slices.Contains(totals, name) {
			continue
		}
		to := r.field(name)
		err = cmp.Or(err, json.Unmarshal(v, to))
		switch to := to.(type) {
		case *int64:
			r.count(name, *to)
		case *map[string]int64:
			r.because(name, *to)
		}
	}
	return err
}

// String returns the report as several lines of text.
func (r *Report) String() string {
	if r.of == nil {
		return r.Totals.String()
	}
	s := sheet.New()
	title := r.of.title
	if r.Policy != "" {
		title += " under " + r.Policy
	}
	if !r.Applied {
		title += ", a dry run: nothing was written"
	}
	s.Line("%s", title)
	s.Line("%s", &r.Totals)
	if r.of == &harvesting {
		s.Line("dead by %s", r.Until.Time().Format(time.RFC3339))
	}
	if r.Since != 0 {
		s.Line("and not by %s, to which an earlier harvest came", r.Since.Time().Format(time.RFC3339))
	}
	s.Line("")
	for _, row := range r.of.rows {
		text := row.text
		if r.Applied {
			text = strings.TrimPrefix(text, "would be ")
		}
		switch n := r.Counts[row.name]; {
		case row.kind&why != 0:
			s.Counts("\n"+text, r.Reasons[row.name])
		case row.kind&rare == 0 || n > 0:
			s.Line("  %s\t%s", text, sheet.Thousands(n))
		}
	}
	return s.Text()
}
