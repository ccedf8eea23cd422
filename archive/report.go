package archive

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what an operation found in an archive, and did there. It prints as text, and marshals to JSON. Forget's
// contains keys.
type Report struct {
	Applied bool  // of Retain, Repair and Forget; else it was a dry run
	Days    int   // read; of Retain: removed; of Repair: with faults; of Stats: with records
	Files   int   // of Days; of Compact: merged; of Forget: rewritten
	Rows    int64 // of Files; of Repair: of the lost files, by their names. A life that is in two files counts twice
	Bytes   int64 // of Files, for Retain, Verify and Stats
	Span    Span  // of Stats: the first day and the last, zero for none; of Retain: what it removes

	Found                  // of Forget
	Asked        []Asked   // of Forget: keys in order, or the prefix, or the value
	Began, Ended time.Time // of Forget

	// Counts has the rest, by its names in JSON. Of Compact: the days in which files were "merged", the files
	// that they were merged "into", and the duplicates that were "dropped" from Rows. Of Stats: the files that
	// do not count, which the next Compact removes ("garbage"; where a file is damaged, only after Repair), and the
	// rows of the Quarantine, which are not among Rows ("quarantined").
	//
	// Of Forget: the records without a value in Selection.Column, which stay ("no_value"), and those of the
	// Quarantine without a key, which no key or prefix selects ("keyless"). "left" is what a second pass over all days
	// found: a source archived it meanwhile. What Lists tells of is not among it. Without such a pass there is no "left".
	Counts map[string]int64

	// Lists has names of files, and lines of text. Of Repair: the files that are missing or corrupt and of which there is no
	// copy ("lost"), those that count again and may have their rows ("restored"), and those that are
	// not the archive's, which engines read and Repair leaves ("foreign"). Of Verify: the faults, each with a
	// file's name ("corrupt"). Of Forget: the lines of the error, which say what was not read, or stays ("problems").
	Lists map[string][]string

	of *operation // nil: Forget
}

// operation says how a Report prints.
type operation struct {
	json string // the names in their order; with ? only if there is any
	text func(*Report) string
}

func (op *operation) report() *Report {
	return &Report{of: op, Counts: map[string]int64{}, Lists: map[string][]string{}}
}

// holds counts the files of a day.
func (r *Report) holds(m *manifest) {
	r.Days++
	r.Files += len(m.files)
	for _, f := range m.files {
		r.Rows += f.rows
		r.Bytes += f.size
	}
}

// clone returns a copy of a report of Forget.
func (r *Report) clone() Report {
	c := *r
	c.Asked, c.Counts, c.Lists = slices.Clone(r.Asked), maps.Clone(r.Counts), maps.Clone(r.Lists)
	return c
}

// field returns a pointer to what has name in JSON, or to a copy; nil for one of Counts.
func (r *Report) field(name string) any {
	dry, before, list := !r.Applied, r.Span.To+1, r.Lists[name]
	return map[string]any{
		"applied": &r.Applied, "dry_run": &dry, "days": &r.Days, "files": &r.Files, "rows": &r.Rows, "bytes": &r.Bytes,
		"first": &r.Span.From, "last": &r.Span.To, "before": &before, "began": &r.Began, "ended": &r.Ended, "asked": &r.Asked,
		"records": &r.Records, "hidden": &r.Hidden, "locked": &r.Locked,
		"lost": &list, "restored": &list, "foreign": &list, "corrupt": &list, "problems": &list,
	}[name]
}

// MarshalJSON implements json.Marshaler.
func (r *Report) MarshalJSON() (text []byte, err error) {
	for _, name := range strings.Fields(cmp.Or(r.of, &forgetting).json) {
		name, rare := strings.CutSuffix(name, "?")
		n, counted := r.Counts[name]
		v, failed := json.Marshal(cmp.Or(r.field(name), any(n)))
		if err = cmp.Or(err, failed); !rare || counted || string(v) != "0" && string(v) != "null" {
			text = append(append(text, `,"`+name+`":`...), v...)
		}
	}
	text[0] = '{'
	return append(text, '}'), err
}

// UnmarshalJSON implements json.Unmarshaler, for a report of Forget.
func (r *Report) UnmarshalJSON(text []byte) error {
	*r = *forgetting.report()
	var has map[string]json.RawMessage
	err := json.Unmarshal(text, &has)
	for name, v := range has {
		to := cmp.Or(r.field(name), any(new(int64)))
		err = cmp.Or(err, json.Unmarshal(v, to))
		switch to := to.(type) {
		case *bool:
			r.Applied = !*to
		case *[]string:
			r.Lists[name] = *to
		case *int64:
			if r.field(name) == nil {
				r.Counts[name] = *to
			}
		}
	}
	return err
}

// String is the report as text.
func (r *Report) String() string { return cmp.Or(r.of, &forgetting).text(r) }
