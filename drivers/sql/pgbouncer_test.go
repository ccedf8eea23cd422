package sql

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	stdsql "database/sql"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// bouncer starts a pgbouncer in front of a schema, and returns its DSN. The database test is pooled
// by transaction, sessions by session, statements by statement.
func bouncer(t *testing.T, dsn string) string {
	t.Helper()
	match := regexp.MustCompile(`^host=(\S+) .*search_path=(\S+)$`).FindStringSubmatch(dsn)
	if match == nil {
		t.Fatalf("a server of another kind: %s", dsn)
	}
	dir, err := os.MkdirTemp("", "bouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // it runs as another user, and creates its socket there
		t.Fatal(err)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	err = os.WriteFile(config, fmt.Appendf(nil, `[databases]
test = host=%[1]s dbname=postgres user=postgres connect_query='SET search_path TO %[2]s'
statements = host=%[1]s dbname=postgres user=postgres pool_mode=statement connect_query='SET search_path TO %[2]s'
busy = host=%[1]s dbname=postgres user=postgres pool_size=1 connect_query='SET search_path TO %[2]s'
sessions = host=%[1]s dbname=postgres user=postgres pool_mode=session pool_size=40 connect_query='SET search_path TO %[2]s'
[pgbouncer]
server_reset_query = DEALLOCATE ALL; SET search_path TO %[2]s
unix_socket_dir = %[3]s
listen_port = 6432
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = 5
`, match[1], match[2], dir), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{config}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "postgres")
	}
	cmd := exec.CommandContext(t.Context(), "pgbouncer", args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: apt-get install pgbouncer", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends by a signal
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	dsn = "host=" + dir + " port=6432 user=postgres dbname=test sslmode=disable"
	db := bounced(t, dsn)
	for db.PingContext(t.Context()) != nil {
		select {
		case <-ended:
			t.Fatalf("pgbouncer ended: %s", output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return dsn
}

func bounced(t *testing.T, dsn string) *stdsql.DB {
	t.Helper()
	db, err := stdsql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestPgbouncer: Check refuses prepared statements if connections are pooled by transaction, and
// the modes of pgx that it names work.
func TestPgbouncer(t *testing.T) {
	_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	dsn = bouncer(t, dsn)
	d := open[session](t, bounced(t, dsn+" default_query_exec_mode=exec"), PostgreSQL, nil)
	for _, mode := range []string{"", "exec", "cache_describe", "simple_protocol"} {
		t.Run("mode "+mode, func(t *testing.T) {
			where := dsn
			if mode != "" {
				where += " default_query_exec_mode=" + mode
			}
			db := bounced(t, where)
			db.SetMaxIdleConns(maxIdle)
			d, err := New[session](db, PostgreSQL, d.name, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = d.Check(t.Context(), time.Hour)
			if mode == "" {
				if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "cache_describe") {
					t.Errorf("Check: %v; want it to name the modes that work", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			var group errgroup.Group
			for i := range 10 {
				group.Go(func() error {
					key := fmt.Sprint(mode, i)
					for range 20 {
						now := driver.Floor(d.Now())
						life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
						version, err := d.Insert(t.Context(), key, session{"ann"}, life, now)
						if err != nil {
							return err
						}
						e, err := d.Get(t.Context(), key)
						if err != nil || e.Version != version {
							return fmt.Errorf("%+v, %w", e, err)
						}
						if _, _, err = d.ReadTouch(t.Context(), key, nil, driver.Access{At: now, Keep: 2e7, Stored: 2e7, Most: 3e7, Step: time.Millisecond}, now); err != nil {
							return err
						}
						if err := d.Delete(t.Context(), key); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPgbouncerBusy: pgbouncer has one code for its statement mode and for a wait that was too long.
// Check does not take the latter for a wrong configuration.
func TestPgbouncerBusy(t *testing.T) {
	_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	dsn = bouncer(t, dsn) + " default_query_exec_mode=simple_protocol"
	d := open[session](t, bounced(t, dsn), PostgreSQL, nil)
	mustExec(t, bounced(t, strings.Replace(dsn, "dbname=test", "dbname=pgbouncer", 1)), PostgreSQL, "SET query_wait_timeout = 1")
	db := bounced(t, strings.Replace(dsn, "dbname=test", "dbname=busy", 1))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if d, err = New[session](db, PostgreSQL, d.name, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context(), time.Hour); sqlState(err) != "08P01" || errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Check: %v; want pgbouncer's own", err)
	}
}
