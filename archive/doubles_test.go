package archive_test

import (
	"errors"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// twoDays is an archive as earlier versions could leave it: each of ten lives is in two days, that
// of its store's expiry and that of a shorter policy.
func twoDays(t *testing.T) *fakeBucket {
	t.Helper()
	b := newFake()
	w := writer(t, b)
	early := batch(0, 30, 0)
	last := batch(10, 20, 1)
	for i := range last.Records {
		last.Records[i].CreatedAt = early.Records[10+i].CreatedAt
	}
	write(t, w, early, last, batch(20, 40, 0), batch(0, 5, 2))
	return b
}

// Compact keeps each life in the day of its last expiry only, after a crash at any call, and
// however few lives it can compare at once.
func TestLivesInTwoDays(t *testing.T) {
	archive.Shorten(t, 20, 1<<30)
	archive.CompareAtOnce(t, 30)
	for _, after := range []bool{false, true} {
		for calls := 0; ; calls++ {
			b := twoDays(t)
			_, err := archive.Compact(t.Context(), crash(b, calls, after), nil)
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			days := map[string]archive.Day{}
			for _, a := range all(t, b) {
				days[a.Key+a.Generation] = max(days[a.Key+a.Generation], archive.DayOf(a.ExpiredAt))
			}
			if len(days) != 45 {
				t.Fatalf("after %d calls there are %d lives; want 45", calls, len(days))
			}
			compact(t, b)
			found := all(t, b)
			if len(found) != 45 {
				t.Fatalf("after %d calls and another run %d lives were found; want 45", calls, len(found))
			}
			for _, a := range found {
				if d := archive.DayOf(a.ExpiredAt); d != days[a.Key+a.Generation] {
					t.Fatalf("%s is found on %s; want its last day, %s", a.Key, d, days[a.Key+a.Generation])
				}
			}
			tidied(t, b)
			if err == nil {
				break
			}
		}
	}
}

// Lives are compared in as many parts as keep within memory, and each part reads all days.
func TestComparedInParts(t *testing.T) {
	var reads [2]int
	for i, atOnce := range []int64{1 << 20, 10} {
		archive.CompareAtOnce(t, atOnce)
		b := twoDays(t)
		b.step = func() { reads[i]++ }
		compact(t, b)
	}
	if reads[1] < 2*reads[0] {
		t.Errorf("%d reads in one part, %d in many", reads[0], reads[1])
	}
}

// Days that were looked through once are not again.
func TestDaysAreComparedOnce(t *testing.T) {
	b := twoDays(t)
	compact(t, b)
	reads := 0
	b.step = func() { reads++ }
	if r, err := archive.Compact(t.Context(), b, &archive.CompactOptions{Span: archive.Span{From: archive.DayOf(at(noon)), To: archive.DayOf(at(noon))}}); err != nil || r.Days != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if reads > 10 {
		t.Errorf("%d reads of files and listings", reads)
	}
}
