package sources

import (
	"bufio"
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// asSource names the environment variable that makes the test's program a source: a run, as JSON.
const asSource = "SLIDINGTTL_TEST_AS_SOURCE"

// run configures one run of a source.
type run struct {
	Kind    string // postgres, mariadb, sqlite, couchbase, redis, cosmos, streams or compact
	Address string
	Archive string // a directory

	Batch   int // records buried at once; zero: the default
	Records int // of a stream: the number of records to read

	Processes int    // at once; zero: one
	Forget    string // also forget keys with this prefix, and compact; empty: neither
	Peak      bool   // report the largest memory use

	FileSize uint64 // the kernel's limit on a file's size; zero: none

	User, Password, Name string // of an account, and of a bucket or table in it
	LifeTable            string // of DynamoDB; empty: none
}

var kills = flag.Int("kills", 3, "how often TestKilled kills each source")

// runSource executes one run of a source.
func runSource() error {
	var r run
	if err := json.Unmarshal([]byte(os.Getenv(asSource)), &r); err != nil {
		return err
	}
	if r.FileSize > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: r.FileSize, Max: r.FileSize}); err != nil {
			return err
		}
	}
	a, g, err := open(r.Archive)
	if err != nil {
		return err
	}
	fmt.Println("begins")
	if r.Peak {
		defer func() {
			status, _ := os.ReadFile("/proc/self/status")
			fmt.Printf("%s\n", status)
		}()
	}
	ctx := context.Background()
	switch s, isSQL := databases[r.Kind]; {
	case isSQL:
		db, err := stdsql.Open(map[sql.Dialect]string{sql.PostgreSQL: "pgx", sql.MySQL: "mysql", sql.SQLite: "sqlite"}[s.dialect], r.Address)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		d, err := openSQL(db, s.dialect)
		if err != nil {
			return err
		}
		if r.Forget == "" {
			return sweepSQL(ctx, d, g, r.Batch)
		}
		ops := map[string]func() error{ // in any order, so that kills come in each
			"sweeps":   func() error { return sweepSQL(ctx, d, g, r.Batch) },
			"compacts": func() error { _, err := archive.Compact(ctx, a, nil); return err },
			"forgets":  func() error { return forget(ctx, a, r.Forget) },
		}
		for name, op := range ops {
			fmt.Println(name)
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	}
	switch r.Kind {
	case "streams":
		return readStream(ctx, r, a, g)
	case "compact":
		_, err := archive.Compact(ctx, a, nil)
		return err
	}
	s, done, err := openHarvested(r)
	if err != nil {
		return err
	}
	return errors.Join(harvest(ctx, s, g, r.Batch), done())
}

// forget forgets keys in the archive, while other processes may archive more of them.
func forget(ctx context.Context, a archive.Bucket, prefix string) error {
	_, err := archive.Forget(ctx, a, archive.Selection{Prefix: prefix}, nil)
	if errors.Is(err, archive.ErrLeft) {
		return nil
	}
	return err
}

// command returns the command that executes r in a process of its own.
func command(t *testing.T, r run) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	ok(t, err)
	told, err := json.Marshal(r)
	ok(t, err)
	c := exec.Command(program)
	c.Env = append(os.Environ(), asSource+"="+string(told))
	return c
}

// killed runs r repeatedly, in r.Processes processes at once, and kills them at random moments;
// then it runs r to its end. It calls produce before and during each run. Only kills before a
// process was done count; if produce is nil, fewer kills are enough.
func killed(t *testing.T, r run, produce func()) {
	t.Helper()
	during := make(map[string]int) // number of kills by what the process was doing
	for n, runs := 0, 0; ; runs++ {
		more, last := produce, n >= *kills
		if more == nil || last {
			more = func() {}
		}
		more()
		var all []*process
		for range max(1, r.Processes) {
			all = append(all, start(t, r, !last))
		}
		more()
		whole := true
		for _, p := range all {
			if did, killed := p.killed(t); killed {
				whole = false
				during[did]++
				n++
			}
		}
		if whole && (last || produce == nil || runs >= 20**kills) {
			t.Logf("it was done after %d kills, in %d runs: %v", n, runs+1, during)
			if n < *kills && produce != nil {
				t.Errorf("%d kills of %d", n, *kills)
			}
			return
		}
	}
}

// process is a source in a process of its own.
type process struct {
	*exec.Cmd
	said   *bufio.Scanner
	errs   bytes.Buffer
	moment *time.Timer // kills it; nil: it is not killed
}

// start starts a source, and kills it at a random moment after it began.
func start(t *testing.T, r run, kill bool) *process {
	t.Helper()
	p := &process{Cmd: command(t, r)}
	p.Stderr = &p.errs
	out, err := p.StdoutPipe()
	ok(t, err)
	ok(t, p.Start())
	p.said = bufio.NewScanner(out)
	p.said.Scan()
	if kill {
		within := 120 * time.Millisecond
		if r.Forget != "" { // it has three operations
			within <<= rand.IntN(4)
		}
		p.moment = time.AfterFunc(rand.N(within), func() { _ = p.Process.Kill() })
	}
	return p
}

// killed waits for the process's end. It returns what the process did last, and whether it was
// killed before it was done.
func (p *process) killed(t *testing.T) (did string, killed bool) {
	t.Helper()
	for did = p.said.Text(); p.said.Scan(); did = p.said.Text() {
	}
	if p.moment != nil {
		p.moment.Stop()
	}
	err := p.Wait()
	if s, isUnix := p.ProcessState.Sys().(syscall.WaitStatus); isUnix && s.Signaled() && p.moment != nil {
		return did, true
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &p.errs)
	}
	return did, false
}

// A source that is repeatedly killed, at any moment, leaves no record out, and puts none into the
// archive twice.
func TestKilled(t *testing.T) {
	for name, s := range databases {
		t.Run(name, func(t *testing.T) {
			name2, dsn := sqltest.DSN(t, s.server)
			db, err := stdsql.Open(name2, dsn)
			ok(t, err)
			t.Cleanup(func() { _ = db.Close() })
			d, err := openSQL(db, s.dialect)
			ok(t, err)
			dead := fillSQL(t, d, 200)
			path := t.TempDir()
			killed(t, run{Kind: name, Address: dsn, Archive: path, Batch: 20}, func() { addSQL(t, d, dead, 100) })
			if got := rows(t, db); got != 20 {
				t.Errorf("%d rows are left; want 20", got)
			}
			holds(t, path, dead)
		})
	}
}

// Each life of a key is in the archive once, even if the key began another before a sweep. Three
// processes sweep, compact and forget at once, in any order, and are killed repeatedly. After a
// last Forget, when no more is archived, the forgotten keys are in no file.
func TestEveryLife(t *testing.T) {
	for name, s := range databases {
		t.Run(name, func(t *testing.T) {
			driverName, dsn := sqltest.DSN(t, s.server)
			db, err := stdsql.Open(driverName, dsn)
			ok(t, err)
			t.Cleanup(func() { _ = db.Close() })
			d, err := openSQL(db, s.dialect)
			ok(t, err)
			ok(t, d.EnsureTable(t.Context()))
			const keys, lives = 20, 5
			began := driver.Floor(time.Now()).Add(-100 * day)
			want := make(map[string]bool)
			live := func() {
				for range lives {
					life := driver.Life{CreatedAt: began, ExpiresAt: began.Add(time.Minute)}
					for i := range keys {
						key := fmt.Sprint("key-", i)
						if i%5 == 0 {
							key = fmt.Sprint("gone-", i)
						}
						insert(t, d, key, session{User: key}, life)
						if i%5 != 0 {
							want[fmt.Sprint(key, life)] = true
						}
					}
					began = began.Add(2 * time.Minute)
				}
			}
			path := t.TempDir()
			killed(t, run{Kind: name, Address: dsn, Archive: path, Batch: 10, Processes: 3, Forget: "gone-"}, live)
			a, err := archive.OpenDirectory(path)
			ok(t, err)
			r, err := archive.Forget(t.Context(), a, archive.Selection{Prefix: "gone-"}, nil)
			ok(t, err)
			t.Logf("%d lives, and %d rows that were forgotten last", len(want), r.Records)
			for range 2 {
				told := make(map[string]int)
				for key, all := range archived(t, path) {
					for _, a := range all {
						told[fmt.Sprint(key, driver.Life{CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiredAt})]++
					}
				}
				for life := range want {
					if told[life] != 1 {
						t.Errorf("%s is told %d times", life, told[life])
					}
				}
				if len(told) != len(want) {
					t.Errorf("%d lives are told; want %d", len(told), len(want))
				}
				_, err := archive.Compact(t.Context(), a, nil)
				ok(t, err)
			}
		})
	}
}

func TestKilledHarvest(t *testing.T) {
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			r.Kind, r.Archive, r.Batch = name, t.TempDir(), 20
			d, done, err := openHarvested(r)
			ok(t, err)
			dead := make(map[string]archive.Record)
			fillHarvested(t, d, dead, 300) // all at once: a harvest may miss a record that appears with a death in the past
			ok(t, done())
			killed(t, r, nil)
			holds(t, r.Archive, dead)
		})
	}
}
