package sources

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestMain executes one run of a source if a test has started this program for that, to kill it.
func TestMain(m *testing.M) {
	if os.Getenv(asSource) != "" {
		if err := runSource(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := sqltest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const day = 24 * time.Hour

var policy = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}

type session struct {
	User string `json:"user"`
	Pad  string `json:"pad,omitempty"`
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the archive in a directory.
func open(path string) (archive.Bucket, *archive.Archiver, error) {
	d, err := archive.OpenDirectory(path)
	if err != nil {
		return nil, nil, err
	}
	w, err := archive.NewWriter(d, nil)
	return d, &archive.Archiver{Writer: w, Source: "sessions", Policy: func(string) slidingttl.Policy { return policy }}, err
}

// insert inserts a record that is alive, and, if l has ended, moves its expiry to where l has it: no store
// inserts a record that is dead by its own time.
func insert(t testing.TB, d driver.Driver[session], key string, v session, l driver.Life) {
	t.Helper()
	now := driver.Floor(time.Now()).RoundUp(time.Second)
	alive := driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: max(l.ExpiresAt, now.Add(time.Hour))}
	version, err := d.Insert(t.Context(), key, v, alive, now)
	if err == nil && l != alive {
		_, err = d.Touch(t.Context(), key, driver.Meta{Life: alive, Version: version}, l, now)
	}
	ok(t, err)
}

// archived returns the records that a Reader finds in the archive at path.
func archived(t testing.TB, path string) map[string][]archive.Archived {
	t.Helper()
	d, err := archive.OpenDirectory(path)
	ok(t, err)
	found := make(map[string][]archive.Archived)
	for a, err := range archive.NewReader(d).All(t.Context(), archive.Span{}) {
		ok(t, err)
		found[a.Key] = append(found[a.Key], a)
	}
	return found
}

// holds wants the archive at path to have exactly the records of want, each once, as they died,
// and, once compacted, each once in its files.
func holds(t testing.TB, path string, want map[string]archive.Record) {
	t.Helper()
	found := archived(t, path)
	lost, twice, wrong := 0, 0, 0
	for key, r := range want {
		all := found[key]
		switch {
		case len(all) == 0:
			lost++
		case len(all) > 1:
			twice++
		case all[0].CreatedAt != r.CreatedAt || all[0].ExpiredAt != r.ExpiredAt || all[0].Reason != r.Reason || !strings.Contains(string(all[0].Value), key):
			wrong++
			t.Logf("for example %+v, want %+v", all[0], r)
		}
	}
	for key := range found {
		if _, ok := want[key]; !ok {
			t.Errorf("%q is in the archive", key)
		}
	}
	if lost+twice+wrong > 0 {
		t.Errorf("of %d records %d are lost, %d are in the archive twice, %d are not as they were", len(want), lost, twice, wrong)
	}
	d, err := archive.OpenDirectory(path)
	ok(t, err)
	_, err = archive.Compact(t.Context(), d, nil)
	ok(t, err)
	stats, err := archive.NewReader(d).Stats(t.Context(), archive.Span{})
	ok(t, err)
	if stats.Rows != int64(len(want)) {
		t.Errorf("after compaction there are %d rows of %d records", stats.Rows, len(want))
	}
}
