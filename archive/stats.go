package archive

import (
	"context"
	"fmt"
)

var counting = operation{"days first last files rows bytes garbage quarantined", func(r *Report) string {
	if r.Files == 0 {
		return "the archive holds nothing of these days"
	}
	days := "no days"
	if r.Days > 0 {
		days = fmt.Sprintf("%d days, from %s to %s", r.Days, r.Span.From, r.Span.To)
	}
	text := fmt.Sprintf("%s\n%d rows in %d files, %d bytes\n%d files that do not count: archive compact removes them", days, r.Rows, r.Files, r.Bytes, r.Counts["garbage"])
	if n := r.Counts["quarantined"]; n > 0 {
		text += fmt.Sprintf("\n%d records in quarantine: archive list --from quarantine", n)
	}
	return text
}}

// Stats describes the days in span, by their listing. Together with an error that matches ErrCorrupt it returns
// the statistics of the days that can be read.
func (r *Reader) Stats(ctx context.Context, span Span) (*Report, error) {
	s := counting.report()
	err := eachDay(ctx, r.catalog, span, nil, func(_ int, m *manifest) error {
		s.Counts["garbage"] += int64(len(m.garbage))
		if len(m.files) == 0 {
			return m.err
		}
		if s.holds(m); m.day == Quarantine {
			s.Counts["quarantined"] = m.rows()
			s.Days, s.Rows = s.Days-1, s.Rows-m.rows()
			return m.err
		}
		if s.Span.From == 0 {
			s.Span.From = m.day
		}
		s.Span.To = m.day
		return m.err
	})
	return s, err
}
