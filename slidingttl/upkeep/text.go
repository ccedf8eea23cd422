package upkeep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// page lays out lines whose cells end in tabs.
type sheet struct {
	strings.Builder
	w *tabwriter.Writer
}

func newSheet() *sheet {
	s := new(sheet)
	s.w = tabwriter.NewWriter(&s.Builder, 0, 0, 2, ' ', 0)
	return s
}

func (s *sheet) line(format string, args ...any) { _, _ = fmt.Fprintf(s.w, format+"\n", args...) }

// text returns the lines, without the last line's end.
func (s *sheet) text() string {
	_ = s.w.Flush()
	return strings.TrimRight(s.Builder.String(), "\n")
}

// totals says what the work has cost.
func (s *sheet) totals(t *Totals) {
	line := fmt.Sprintf("%s records looked at in %s", thousands(t.Records), time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond))
	if t.Cost > 0 {
		line += fmt.Sprintf(", at a cost of %s", number(t.Cost))
	}
	if t.Runs > 1 {
		line += fmt.Sprintf(", in %d runs; what one did after its last checkpoint counts as found so", t.Runs)
	}
	if !t.Done {
		line += "; not all were"
	}
	s.line("%s", line)
	if t.Passed > 0 {
		s.line("%s passed over: of another type, or under other keys", thousands(t.Passed))
	}
	if t.Waiting > 0 {
		s.line("%s not tried to the end, and perhaps written: a resumed run tries them first", thousands(t.Waiting))
	}
	if t.Unsure > 0 {
		s.line("%s perhaps written: the answers were lost", thousands(t.Unsure))
	}
	if t.Repeated > 0 {
		s.line("%s were written before the store restarted, when its scan began anew", thousands(t.Repeated))
	}
	s.counts(thousands(t.Failed)+" failed, and were left as they are, because", t.Failures)
}

func (s *sheet) share(name string, v Share, bounded bool) {
	if bounded {
		s.line("  %s\t%s\t%s\t%s to %s", name, thousands(v.Count), percent(v.Share), percent(v.Low), percent(v.High))
		return
	}
	s.line("  %s\t%s\t%s", name, thousands(v.Count), percent(v.Share))
}

func (s *sheet) counts(title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	s.line("%s", title)
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	}) {
		s.line("  %s\t%s", thousands(counts[name]), name)
	}
}

// thousands is n with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// number returns v as text, with one decimal if it is small and not whole.
func number(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return thousands(int64(v + 0.5))
	}
	return fmt.Sprintf("%.1f", v)
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

// verdict says in a sentence what is wrong, how much of it there is, and what to do, in that order.
func (r *AuditReport) verdict() string {
	var faults int64
	for _, n := range r.Faults {
		faults += n
	}
	var found []string
	for _, f := range []struct {
		n        int64
		what, do string
	}{
		{r.States[Malformed].Count, "malformed", "mend"},
		{r.States[Implausible].Count, "implausible", "mend, if a unit is named below"},
		{faults, "not deleted by the store", "mend"},
		{r.States[NoCreatedAt].Count, "without created_at", "adopt"},
		{r.States[PastCap].Count, "past the cap", "reap"},
		{r.States[NeverExpires].Count, "without an expiry", "the next read gives one"},
	} {
		be := "are"
		if f.n == 1 {
			be = "is"
		}
		if f.n > 0 {
			found = append(found, fmt.Sprintf("%s %s %s (%s): %s", thousands(f.n), be, f.what, percent(float64(f.n)/float64(r.Records)), f.do))
		}
	}
	if found == nil {
		return fmt.Sprintf("Of %s records none is to be mended, adopted or reaped.", thousands(r.Records))
	}
	return fmt.Sprintf("Of %s records %s.", thousands(r.Records), strings.Join(found, "; "))
}

// String is the report as text, of several lines.
func (r *AuditReport) String() string {
	s := newSheet()
	s.line("%s", r.verdict())
	s.line("audit under %s", r.Policy)
	s.totals(&r.Totals)
	if r.Sample != nil {
		s.line("a sample of %s in %d segments: the store holds about %s records, %s to %s",
			percent(r.Sample.Of), r.Sample.Segments, number(r.Sample.Records), number(r.Sample.Low), number(r.Sample.High))
		s.line("bounds hold together with a confidence of %.0f %%", 100*r.Sample.Confidence)
	}
	s.line("")
	for state := Slides; state >= 0; state-- {
		s.share(strings.ReplaceAll(state.String(), "_", " "), r.States[state], r.Sample != nil)
	}
	if r.Immortal.Count > 0 {
		s.line("")
		s.share("alive for ever unless read", r.Immortal, r.Sample != nil)
	}
	if n, m := r.Kinds[Session], r.Kinds[Index]; n+m > 0 {
		s.line("\n%s look like sessions, and %s like indexes of users' sessions: they have policies of their own", thousands(n), thousands(m))
	}
	s.counts("\nmalformed because", r.Problems)
	s.counts("\nimplausible because", r.Doubts)
	s.counts("\nnot deleted by the store because", r.Faults)
	s.line("\nleft alone, they die within")
	for _, d := range r.Deaths {
		if d.Count > 0 {
			s.share(d.Within, d.Share, r.Sample != nil)
		}
	}
	return s.text()
}
