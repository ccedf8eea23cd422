// Package sheet lays out reports as text.
package sheet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Sheet lays out lines whose cells end in tabs.
type Sheet struct {
	strings.Builder
	w *tabwriter.Writer
}

// New returns an empty Sheet.
func New() *Sheet {
	s := new(Sheet)
	s.w = tabwriter.NewWriter(&s.Builder, 0, 0, 2, ' ', 0)
	return s
}

// Line adds a line.
func (s *Sheet) Line(format string, args ...any) { _, _ = fmt.Fprintf(s.w, format+"\n", args...) }

// Text returns the lines, without the last line's end.
func (s *Sheet) Text() string {
	_ = s.w.Flush()
	return strings.TrimRight(s.Builder.String(), "\n")
}

// Counts adds a title, and a line for each of counts, if there are any.
func (s *Sheet) Counts(title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	s.Line("%s", title)
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	}) {
		s.Line("  %s\t%s", Thousands(counts[name]), name)
	}
}

// Thousands is n with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Number returns v as text, with one decimal if it is small and not whole.
func Number(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return Thousands(int64(v + 0.5))
	}
	return fmt.Sprintf("%.1f", v)
}

// Percent is the share v with its sign.
func Percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
