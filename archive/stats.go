package archive

import (
	"context"
	"fmt"
)

// Stats describes what an archive holds, as its listing shows it.
type Stats struct {
	Days        int   `json:"days"`
	First       Day   `json:"first"` // zero for none
	Last        Day   `json:"last"`
	Files       int   `json:"files"`
	Rows        int64 `json:"rows"` // a life that is in two files counts twice until they are compacted
	Bytes       int64 `json:"bytes"`
	Garbage     int   `json:"garbage"`     // files that do not count, which the next Compact removes; where a file is damaged, only after Repair
	Quarantined int64 `json:"quarantined"` // rows of the Quarantine; its files are among Files
}

// String returns the statistics as text.
func (s Stats) String() string {
	if s.Files == 0 {
		return "the archive holds nothing of these days"
	}
	days := "no days"
	if s.Days > 0 {
		days = fmt.Sprintf("%d days, from %s to %s", s.Days, s.First, s.Last)
	}
	text := fmt.Sprintf("%s\n%d rows in %d files, %d bytes\n%d files that do not count: archive compact removes them", days, s.Rows, s.Files, s.Bytes, s.Garbage)
	if s.Quarantined > 0 {
		text += fmt.Sprintf("\n%d records in quarantine: archive list --from quarantine", s.Quarantined)
	}
	return text
}

// Stats describes the days in span. Together with an error that matches ErrCorrupt it returns
// the statistics of the days that can be read.
func (r *Reader) Stats(ctx context.Context, span Span) (Stats, error) {
	var s Stats
	err := eachDay(ctx, r.catalog, span, nil, func(m manifest) error {
		s.Garbage += len(m.garbage)
		if len(m.files) == 0 {
			return m.err
		}
		if m.day == Quarantine {
			s.Quarantined = m.rows()
		} else {
			if s.Days == 0 {
				s.First = m.day
			}
			s.Last = m.day
			s.Days++
			s.Rows += m.rows()
		}
		s.Files += len(m.files)
		for _, f := range m.files {
			s.Bytes += f.size
		}
		return m.err
	})
	return s, err
}
