package survey

import (
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/internal/sheet"
	"github.com/slidingttl/slidingttl/internal/verdict"
)

func share(s *sheet.Sheet, name string, v Share, bounded bool) {
	if bounded {
		s.Line("  %s\t%s\t%s\t%s to %s", name, sheet.Thousands(v.Count), sheet.Percent(v.Share), sheet.Percent(v.Low), sheet.Percent(v.High))
		return
	}
	s.Line("  %s\t%s\t%s", name, sheet.Thousands(v.Count), sheet.Percent(v.Share))
}

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
		{r.States[verdict.Malformed].Count, "malformed", "mend"},
		{r.States[verdict.Implausible].Count, "implausible", "mend, if a unit is named below"},
		{faults, "not deleted by the store", "mend"},
		{r.States[verdict.NoCreatedAt].Count, "without created_at", "adopt"},
		{r.States[verdict.PastCap].Count, "past the cap", "reap"},
		{r.States[verdict.NeverExpires].Count, "without an expiry", "the next read gives one"},
	} {
		be := "are"
		if f.n == 1 {
			be = "is"
		}
		if f.n > 0 {
			found = append(found, fmt.Sprintf("%s %s %s (%s): %s", sheet.Thousands(f.n), be, f.what, sheet.Percent(float64(f.n)/float64(r.Records)), f.do))
		}
	}
	if found == nil {
		return fmt.Sprintf("Of %s records none is to be mended, adopted or reaped.", sheet.Thousands(r.Records))
	}
	return fmt.Sprintf("Of %s records %s.", sheet.Thousands(r.Records), strings.Join(found, "; "))
}

// String is the report as text, of several lines.
func (r *AuditReport) String() string {
	s := sheet.New()
	s.Line("%s", r.verdict())
	s.Line("audit under %s", r.Policy)
	s.Line("%s", &r.Totals)
	if r.Sample != nil {
		s.Line("a sample of %s in %d segments: the store holds about %s records, %s to %s",
			sheet.Percent(r.Sample.Of), r.Sample.Segments, sheet.Number(r.Sample.Records), sheet.Number(r.Sample.Low), sheet.Number(r.Sample.High))
		s.Line("bounds hold together with a confidence of %.0f %%", 100*r.Sample.Confidence)
	}
	s.Line("")
	for state := verdict.Slides; state >= 0; state-- {
		share(s, strings.ReplaceAll(state.String(), "_", " "), r.States[state], r.Sample != nil)
	}
	if r.Immortal.Count > 0 {
		s.Line("")
		share(s, "alive for ever unless read", r.Immortal, r.Sample != nil)
	}
	if n, m := r.Kinds[verdict.Session], r.Kinds[verdict.Index]; n+m > 0 {
		s.Line("\n%s look like sessions, and %s like indexes of users' sessions: they have policies of their own", sheet.Thousands(n), sheet.Thousands(m))
	}
	s.Counts("\nmalformed because", r.Problems)
	s.Counts("\nimplausible because", r.Doubts)
	s.Counts("\nnot deleted by the store because", r.Faults)
	s.Line("\nleft alone, they die within")
	for _, d := range r.Deaths {
		if d.Count > 0 {
			share(s, d.Within, d.Share, r.Sample != nil)
		}
	}
	return s.Text()
}
