//go:build night && !race

package sources

import (
	"crypto/rand"
	stdsql "database/sql"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// pad returns n bytes of text that cannot be compressed.
func pad(n int) string {
	b := make([]byte, n*3/4)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// large writes n dead records of size bytes each into d.
func large(t *testing.T, d driver.Driver[session], n, size int) {
	t.Helper()
	for i := range n {
		died := driver.Floor(time.Now()).Add(-time.Hour - time.Duration(i)*time.Second).RoundUp(time.Second)
		life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
		insert(t, d, fmt.Sprint("dead-", i), session{Pad: pad(size)}, life)
	}
}

// With some hundred values of a megabyte, and the default batch sizes, no process that archives
// them, or compacts the archive, needs more than 300 MB of memory.
func TestMemory(t *testing.T) {
	const most, n, size = 300, 400, 1 << 20
	for name, begin := range map[string]func(t *testing.T) run{
		"postgres": func(t *testing.T) run {
			name, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
			db, err := stdsql.Open(name, dsn)
			ok(t, err)
			t.Cleanup(func() { _ = db.Close() })
			d, err := openSQL(db, sql.PostgreSQL)
			ok(t, err)
			ok(t, d.EnsureTable(t.Context()))
			large(t, d, n, size)
			return run{Address: dsn}
		},
		"redis": func(t *testing.T) run {
			r := stores["redis"](t)
			r.Kind = "redis"
			d, done, err := openHarvested(r)
			ok(t, err)
			large(t, d, n, size)
			ok(t, done())
			return r
		},
		"compact": func(t *testing.T) run {
			path := t.TempDir()
			_, g, err := open(path)
			ok(t, err)
			for i := range n { // a file of each, and some of many
				dead := make([]driver.Dead, 1+i%50/49*24)
				for j := range dead {
					at := driver.Floor(time.Now()).Add(-time.Hour)
					life := driver.Life{CreatedAt: at.Add(-day), ExpiresAt: at}
					dead[j] = driver.Dead{Key: fmt.Sprint("dead-", i, "-", j), At: at, Raw: driver.Raw{Meta: driver.Meta{Life: life}, Format: "bytes", Value: []byte(pad(size))}}
				}
				ok(t, g.Archive(t.Context(), dead))
			}
			return run{Archive: path}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t)
			r.Kind, r.Peak = name, true
			if r.Archive == "" {
				r.Archive = t.TempDir()
			}
			out, err := command(t, r).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_, told, _ := strings.Cut(string(out), "VmHWM:")
			var kB int
			if _, err := fmt.Sscan(told, &kB); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s, err := archive.NewReader(bucket(t, r.Archive)).Stats(t.Context(), archive.Span{})
			ok(t, err)
			t.Logf("%d MB at most, for %d records in %d MB of archive", kB/1024, s.Rows, s.Bytes>>20)
			if s.Rows < n || s.Bytes < 250<<20 {
				t.Errorf("the archive has %+v", s)
			}
			if kB > most*1024 {
				t.Errorf("it took %d MB of memory; want at most %d", kB/1024, most)
			}
		})
	}
}
