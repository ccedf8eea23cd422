package archive_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// An Archiver counts the archived records, each once, and the failures.
func TestGraveStats(t *testing.T) {
	b := newFake()
	through := noon
	g := &archive.Archiver{Writer: writer(t, b), Source: "links", Through: func() time.Time { return through }}
	batch := []driver.Dead{
		{Key: "a", At: at(noon), Raw: driver.Raw{Value: []byte("abc")}},
		{Key: "", At: at(noon), Raw: driver.Raw{Value: []byte("de")}}, // which is quarantined
	}
	for range 2 {
		ok(t, g.Archive(t.Context(), batch))
	}
	other := &archive.Archiver{Writer: writer(t, crash(b, 0, false)), Source: "links"}
	if err := other.Archive(t.Context(), []driver.Dead{{Key: "b", At: at(noon)}}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if got, want := g.Stats(), (driver.BuryStats{Records: 2, Bytes: 5, Quarantined: 1, Through: noon}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if got, want := other.Stats(), (driver.BuryStats{Failures: 1}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
