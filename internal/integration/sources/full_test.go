package sources

import (
	"crypto/rand"
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The kernel refuses writes in the middle of a file and of a sweep. Then the archive has exactly
// the rows that are gone from the table, no partial file is found, and the next run continues.
func TestFullDisk(t *testing.T) {
	const small, large = 100, 60
	name, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	db, err := stdsql.Open(name, dsn)
	ok(t, err)
	t.Cleanup(func() { _ = db.Close() })
	d, err := openSQL(db, sql.PostgreSQL)
	ok(t, err)
	dead := fillSQL(t, d, small)
	died := driver.Floor(time.Now().Add(-time.Minute)) // last, and swept last
	life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
	for i := range large {
		key := fmt.Sprint("large-", i)
		dead[key] = archive.Record{CreatedAt: life.CreatedAt, ExpiredAt: died, Reason: archive.Idle}
		var pad strings.Builder
		for range 100 {
			pad.WriteString(rand.Text()) // which cannot be compressed
		}
		insert(t, d, key, session{User: key, Pad: pad.String()}, life)
	}

	path := t.TempDir()
	r := run{Kind: "postgres", Address: dsn, Archive: path, Batch: 20, FileSize: 16 << 10}
	out, err := command(t, r).CombinedOutput()
	for _, want := range []string{archive.ErrNoSpace.Error(), "file too large"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("a sweep onto a full disk: %v, %s; want %q", err, out, want)
		}
	}
	_, err = archive.NewReader(bucket(t, path)).Verify(t.Context(), nil)
	ok(t, err)
	buried := archived(t, path)
	// The last batch of small ones may have had room for large ones, of which a few fit.
	if got := rows(t, db); len(buried) < small || len(buried) == small+large || len(buried)+got != small+large+20 {
		t.Errorf("%d records are in the archive, and %d rows are left; want %d or some more, and all others", len(buried), got, small)
	}

	r.FileSize = 0
	if out, err := command(t, r).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := rows(t, db); got != 20 {
		t.Errorf("%d rows are left; want 20", got)
	}
	holds(t, path, dead)
}
