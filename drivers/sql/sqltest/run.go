package sqltest

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // registers itself
	_ "github.com/jackc/pgx/v5/stdlib" // registers itself
	_ "modernc.org/sqlite"             // registers itself
)

// Database is a kind of database.
type Database int

const (
	PostgreSQL Database = iota + 1
	MariaDB             // or MySQL, by SQLTEST_MYSQL
	SQLite
)

// Server is a database server that answers. Its methods are safe for concurrent use.
type Server struct {
	// DSN is how to reach it, by pgx or go-sql-driver/mysql.
	DSN string

	db    Database
	stop  func() error                    // nil: it was not started here
	again func(ctx context.Context) error // kills it and its children, and starts it over its data
}

const startTimeout = 2 * time.Minute

// kind is a kind of server.
type kind struct {
	driver   string // of database/sql
	variable string // the environment variable that names a running server
	packages string // Debian's packages of it
	user     string // it runs as this user if the program runs as root
	signal   string // ends it and its children at once
	find     func() (string, error)
	commands func(program, dir string) (prepare, serve *exec.Cmd)
	durable  []string // options that flush to disk
	dsn      func(dir string) string
}

var kinds = map[Database]kind{
	PostgreSQL: {
		driver: "pgx", variable: "SQLTEST_POSTGRES", packages: "postgresql", user: "postgres", signal: "QUIT",
		find: func() (string, error) {
			return find("postgres", "/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres")
		},
		commands: func(program, dir string) (prepare, serve *exec.Cmd) {
			data := filepath.Join(dir, "data")
			return exec.Command(beside(program, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"),
				exec.Command(program, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off",
					"-c", "full_page_writes=off", "-c", "max_connections=200", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
		},
		durable: []string{"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on"},
		dsn:     func(dir string) string { return "host=" + dir + " user=postgres dbname=postgres sslmode=disable" },
	},
	MariaDB: {
		driver: "mysql", variable: "SQLTEST_MYSQL", packages: "mariadb-server", user: "mysql", signal: "KILL",
		find: func() (string, error) { return find("mariadbd", "/usr/sbin/mariadbd", "/usr/libexec/mariadbd") },
		commands: func(program, dir string) (prepare, serve *exec.Cmd) {
			data := filepath.Join(dir, "data")
			install, err := find("mariadb-install-db")
			if err != nil {
				install = beside(program, "../bin/mariadb-install-db")
			}
			// Two servers with one tmpdir, /tmp by default, remove each other's temporary tables.
			return exec.Command(install, "--no-defaults", "--datadir="+data, "--tmpdir="+dir, "--auth-root-authentication-method=normal", "--skip-test-db"),
				exec.Command(program, "--no-defaults", "--datadir="+data, "--tmpdir="+dir, "--socket="+filepath.Join(dir, "s"), "--skip-networking",
					"--pid-file="+filepath.Join(dir, "pid"), "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
					"--innodb-buffer-pool-size=256M", "--innodb-log-file-size=256M", "--max-connections=200")
		},
		durable: []string{"--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync"},
		dsn:     func(dir string) string { return "root@unix(" + filepath.Join(dir, "s") + ")/" },
	},
}

// Run starts PostgreSQL or MariaDB, or uses the server that a variable names. It is for programs
// that are no tests. It returns when the server answers, after a few seconds. The caller closes
// it; it stops at the latest with the program.
func Run(ctx context.Context, db Database) (*Server, error) {
	k, ok := kinds[db]
	if !ok {
		return nil, fmt.Errorf("sqltest: database %d has no server", db)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if dsn := os.Getenv(k.variable); dsn != "" {
		if err := answers(ctx, k.driver, dsn, nil); err != nil {
			return nil, fmt.Errorf("sqltest: the server that %s names does not answer: %w", k.variable, err)
		}
		return &Server{DSN: dsn, db: db}, nil
	}
	return run(ctx, db, k, nil)
}

// RunDurable runs a server that flushes to disk before it acknowledges a commit, as in production.
//
// It is nobody else's.
func RunDurable(ctx context.Context, db Database) (*Server, error) {
	k, ok := kinds[db]
	if !ok {
		return nil, fmt.Errorf("sqltest: database %d has no server", db)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return run(ctx, db, k, k.durable)
}

// Crash kills the server and all its processes at once, and starts it over its data. It is for a
// server that RunDurable started.
func (s *Server) Crash(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.again(ctx)
}

func run(ctx context.Context, db Database, k kind, options []string) (*Server, error) {
	s, err := k.start(ctx, nil, options)
	if errors.Is(err, errNotInstalled) {
		return nil, fmt.Errorf("sqltest: %w: apt-get install %s, or name a server by %s", err, k.packages, k.variable)
	}
	if err != nil {
		return nil, fmt.Errorf("sqltest: %s does not start: %w", k.packages, err)
	}
	s.db = db
	return s, nil
}

// Close stops the server and drops its data, and returns when its process has ended. A
// server named by a variable goes on running.
func (s *Server) Close() error {
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// guard is a shell script that runs a server. When the script's standard input ends, because the
// server is closed or this program is killed, it ends the server and removes its directory.
const guard = `signal=$1 dir=$2; shift 2; exec 3<&0
{
	cat <&3 >/dev/null
	kill -$signal $$
	for try in 1 2 3 4 5 6 7 8 9 10; do kill -0 $$ || break; sleep 0.2; done
	rm -rf "$dir"
} >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null`

// start runs the server, with variables of its environment and more options.
func (k kind) start(ctx context.Context, env, options []string) (*Server, error) {
	program, err := k.find()
	if err != nil {
		return nil, err
	}
	u, err := ownerFor(k.user)
	if err != nil {
		return nil, err
	}
	dir, err := temporary(u)
	if err != nil {
		return nil, err
	}
	prepare, serve := k.commands(program, dir)
	u.runs(prepare)
	prepare.Dir = dir
	if out, err := prepare.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	args := append([]string{"-c", guard, "sh", k.signal, dir, "env"}, env...)
	args = append(append(args, serve.Args...), options...)
	s := &Server{DSN: k.dsn(dir)}
	var guards []io.Closer // each removes dir at its end
	var ended chan struct{}
	var process *os.Process
	begin := func(ctx context.Context) error {
		cmd := exec.Command("sh", args...)
		u.runs(cmd)
		cmd.Dir = dir
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		cmd.WaitDelay = 10 * time.Second // for a child that outlives it, and has its output open
		stdin, g, err := os.Pipe()       // one that Wait does not close
		if err != nil {
			return err
		}
		cmd.Stdin = stdin
		err = cmd.Start()
		_ = stdin.Close()
		if err != nil {
			_ = g.Close()
			return err
		}
		gone := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it ends by a signal, or its output has the error
			close(gone)
		}()
		guards, ended, process = append(guards, g), gone, cmd.Process
		if err := answers(ctx, k.driver, s.DSN, gone); err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output.Bytes()))
		}
		return nil
	}
	s.stop = func() error {
		for _, g := range guards {
			_ = g.Close()
		}
		if ended != nil {
			<-ended
		}
		return os.RemoveAll(dir)
	}
	s.again = func(ctx context.Context) error {
		killAll(process.Pid)
		<-ended
		return begin(ctx)
	}
	if err := begin(ctx); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}

// killAll kills a process and its children, the children while it cannot tell them to do anything, nor make others.
func killAll(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for state, _ := statOf(pid); state != "" && state != "T" && state != "Z"; state, _ = statOf(pid) {
		runtime.Gosched() // a fork under way ends before it stops
	}
	all := []int{pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if _, parent := statOf(child); err == nil && parent == strconv.Itoa(pid) {
			all = append(all, child)
		}
	}
	for i := range all {
		_ = syscall.Kill(all[len(all)-1-i], syscall.SIGKILL)
	}
}

// statOf returns the state of a process and its parent; empty if it has ended.
func statOf(pid int) (state, parent string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return fields[0], fields[1]
}

// answers waits until the server answers, or ended is closed.
func answers(ctx context.Context, driver, dsn string, ended <-chan struct{}) error {
	db, err := stdsql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	const between = 20 * time.Millisecond
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil || ended == nil {
			return err // a server that was not started here must answer at once
		}
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		}
	}
}

// owner is the user that a server runs as; nil: the user of this program.
type owner struct{ uid, gid uint32 }

// ownerFor returns the user of that name if this program runs as root, as which servers refuse
// to run.
func ownerFor(name string) (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &owner{uint32(uid), uint32(gid)}, errors.Join(errUID, errGID)
}

func (u *owner) runs(cmd *exec.Cmd) {
	if u != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid}}
	}
}
