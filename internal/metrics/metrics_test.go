package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// row is a metric as README.md has it.
func row(m Metric) string {
	labels := []string{"`" + LabelStore + "`"}
	if m.Label != "" {
		label := "`" + m.Label + "`"
		if len(m.series) > 0 {
			var values []string
			for _, s := range m.series {
				values = append(values, s.Value)
			}
			label += ": " + strings.Join(values, ", ")
		}
		labels = append(labels, label)
	}
	if m.Name == TouchDuration.Name {
		labels = append(labels, "`"+LabelErrorType+"`")
	}
	return fmt.Sprintf("| `%s` | `%s` | %s | %s | %s | %s |", m.Name, m.Prometheus(), m.Kind, m.Unit, strings.Join(labels, "; "), m.Help)
}

// The table of README.md is the list of metrics.
func TestTable(t *testing.T) {
	content, err := os.ReadFile("../../telemetry/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| `slidingttl.") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, m := range Metrics() {
		want = append(want, row(m))
	}
	if !slices.Equal(got, want) {
		t.Errorf("README.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Every field of Stats is in exactly one series.
func TestEveryCounterIsShown(t *testing.T) {
	fields := reflect.TypeFor[slidingttl.Stats]()
	for i := range fields.NumField() {
		var r reading
		switch f := reflect.ValueOf(&r.Stats).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Uint64:
			f.SetUint(uint64(rand.Uint32()) + 1)
		default:
			f.SetInt(int64(rand.Uint32()) + 1)
		}
		var shown []string
		for _, m := range Metrics() {
			for _, s := range m.series {
				if m.source == ofStore && m.Name != "slidingttl.clock" && s.Read(r) != 0 {
					shown = append(shown, m.Name+" "+s.Value)
				}
			}
		}
		if len(shown) != 1 {
			t.Errorf("Stats.%s is shown by %q", fields.Field(i).Name, shown)
		}
	}
}

// Every field of BuryStats is in exactly one series, of an archive.
func TestEveryCounterOfAnArchiveIsShown(t *testing.T) {
	fields := reflect.TypeFor[driver.BuryStats]()
	for i := range fields.NumField() {
		now := time.Now()
		source := archived{Through: now}
		if f := reflect.ValueOf(&source).Elem().Field(i); f.Kind() == reflect.Uint64 {
			f.SetUint(uint64(rand.Uint32()) + 1)
		} else {
			source.Through = now.Add(-time.Hour)
		}
		var stores Stores
		if err := stores.AddArchive("sessions", source); err != nil {
			t.Fatal(err)
		}
		var shown []string
		for name, v := range stores.Read() {
			if m := Metrics()[v.Metric]; v.Is > 60 {
				shown = append(shown, name+" "+m.Name)
			}
		}
		if len(shown) != 1 || !strings.HasPrefix(shown[0], "sessions slidingttl.archive.") {
			t.Errorf("BuryStats.%s is shown by %q", fields.Field(i).Name, shown)
		}
	}
}

type archived driver.BuryStats

func (a archived) Stats() driver.BuryStats { return driver.BuryStats(a) }

// The lag of a source that has told nothing grows from when it was added.
func TestLagOfASilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stores Stores
		if err := stores.AddArchive("sessions", archived{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		for _, v := range stores.Read() {
			if Metrics()[v.Metric].Name == "slidingttl.archive.lag" && v.Is != (5*time.Hour).Seconds() {
				t.Errorf("a lag of %v s after five hours", v.Is)
			}
		}
	})
}

// brokenDisk is an error of a store's own.
type brokenDisk struct{}

func (*brokenDisk) Error() string { return "disk on fire" }

func TestErrorType(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{slidingttl.ErrClosed, "closed"},
		{slidingttl.ErrShed, "shed"},
		{&slidingttl.Error{Op: "touch", Err: slidingttl.ErrConflict}, "conflict"},
		{&slidingttl.InvalidError{Field: "f"}, "invalid"},
		{fmt.Errorf("%w: %w", slidingttl.ErrRefused, &brokenDisk{}), "refused"},
		{fmt.Errorf("%w: %w", slidingttl.ErrAmbiguous, &brokenDisk{}), "ambiguous"},
		{fmt.Errorf("%w: %w", slidingttl.ErrAmbiguous, context.DeadlineExceeded), "timeout"},
		{context.Canceled, "canceled"},
		{fmt.Errorf("reading: %w", &brokenDisk{}), "*metrics.brokenDisk"},
		{errors.Join(errors.New("one"), fmt.Errorf("two: %w", &brokenDisk{})), "*metrics.brokenDisk"},
		{&fs.PathError{Op: "open", Err: errors.New("no")}, "_OTHER"},
		{errors.New("no type of its own"), "_OTHER"},
		{fmt.Errorf("without a cause"), "_OTHER"},
	} {
		if got := ErrorType(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
