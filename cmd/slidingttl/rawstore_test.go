//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/hostile"
)

// The judge of what a report says. Each operation runs over the hostile records of a store while
// a fault strikes, and each of its counts is compared with what the store itself holds before and
// after. It is then resumed until it is done, and nothing may be left that was neither done nor
// named. Last, undo must give back what there was.

// held is a record as the store has it.
type held struct {
	created bool   // it has a created_at
	raw     string // all of it
}

// rawStore is a store under the judge. The command reaches it through what the faults break.
type rawStore struct {
	uri      string
	layout   string   // the content of a layout file; empty: none
	env      []string // for a command in a process of its own
	records  int
	load     hostile.Load
	limits   hostile.Limits
	snapshot func(t testing.TB) map[string]held // by the command's key; aliens under another
	after    func(n int) <-chan struct{}        // closed when the command has made n more steps
	cut      func() (heal func())
	stall    func() (heal func())
	restart  func(t testing.TB)
	revoke   func(t testing.TB) (restore func())
	another  func(t testing.TB) (uri string, back func()) // the same command now reaches another store, with the same records
	restarts bool                                         // a restart changes the store's identity
}

// counts are the counts of all reports.
type counts struct {
	Records, Passed, Failed, Unsure, Repeated, Waiting, Runs int64
	Done                                                     bool

	Adopted, Already, Dead, Malformed               int64
	TooOld                                          int64 `json:"too_old"`
	NoOrigin                                        int64 `json:"no_origin"`
	Undone, Changed                                 int64
	Mended, Left, Well                              int64
	PastCap                                         int64 `json:"past_cap"`
	Expired, Retained, Alive, Implausible, Vanished int64
	Locked                                          int64
	Races                                           int64 `json:"lost_races"`
	Kept                                            int64
	States                                          map[string]struct{ Count int64 }
}

// done is the number of records that the operation says it has written.
func (c *counts) done() int64 { return c.Adopted + c.Undone + c.Mended + c.PastCap + c.Expired }

// sum is the number of records that it says something of.
func (c *counts) sum() int64 {
	n := c.done() + c.Already + c.Dead + c.Malformed + c.TooOld + c.NoOrigin + c.Changed + c.Left + c.Well + c.Retained + c.Alive + c.Implausible +
		c.Vanished + c.Locked + c.Races + c.Failed + c.Unsure + c.Waiting + c.Kept
	for _, s := range c.States {
		n += s.Count
	}
	return n
}

var rawStoreFaults = []string{"cut", "stall", "restart", "disk", "revoke", "kill", "twice", "another"}

// TestRawStore runs each fault once on each store, at a moment that depends on RAWSTORE_SEED.
func TestRawStore(t *testing.T) {
	rawStoreMatrix(t, rawSeed(t))
}

func rawSeed(t testing.TB) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("RAWSTORE_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	t.Logf("RAWSTORE_SEED=%d", seed)
	return seed
}

func rawStoreMatrix(t *testing.T, seed uint64) {
	for name, open := range rawStores(t) {
		for _, fault := range rawStoreFaults {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				h := fnv.New64a()
				_, _ = io.WriteString(h, name+"/"+fault)
				(&trial{T: t, rawStore: open(t, fault), fault: fault, dir: t.TempDir(), rand: rand.New(rand.NewPCG(seed, h.Sum64()))}).judge()
			})
		}
	}
}

// trial is one store under one fault.
type trial struct {
	*testing.T
	*rawStore
	fault string
	dir   string
	rand  *rand.Rand
	runs  int
}

// judge runs all operations, each under the fault.
func (r *trial) judge() {
	now := time.Now()
	for i := 0; i*17 < r.records; i++ {
		records := hostile.Records(now, fmt.Sprintf("%03d-", i), r.limits)
		if i > 1 { // a few that cannot be written are enough: each is tried time and again
			records = slices.DeleteFunc(records, func(h hostile.Record) bool { return h.Guarded })
		}
		must(hostile.LoadAll(r.Context(), r.load, records))(r)
		r.limits.Value = 0 // one of the longest is enough
	}
	began := r.snapshot(r)
	undo := filepath.Join(r.dir, "undo")
	r.operate("adopt", undo, "--policy", thirty, "--undo", undo)
	failed := r.operate("undo", "", undo)
	back := r.snapshot(r)
	for key, was := range began {
		if is := back[key]; !failed[key] && is.raw != was.raw && !strings.Contains(key, "longest") {
			r.Fatalf("undo did not give back %q: it is %.80q, and was %.80q", key, is.raw, was.raw)
		}
	}
	r.operate("adopt", undo, "--policy", thirty, "--undo", undo)
	r.operate("mend", "", "--created-at", "seconds")
	r.operate("reap", "", "--policy", "idle 1ms, max 1ms", "--grace", "1ms")
	r.operate("audit", "", "--policy", thirty)
}

// operate runs op until it is done, with the fault in its first run, and compares its counts. It
// returns the keys that op names as failed.
func (r *trial) operate(op, undo string, args ...string) (failed map[string]bool) {
	r.Helper()
	r.runs++
	dir := filepath.Join(r.dir, fmt.Sprint(r.runs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.Fatal(err)
	}
	place, named := filepath.Join(dir, "place"), filepath.Join(dir, "errors")
	full := []string{op, r.uri}
	file := ""
	if op == "undo" { // its file comes second
		full, args = append(full, args[0]), args[1:]
	}
	if r.layout != "" {
		file = filepath.Join(r.dir, "layout.json")
		if err := os.WriteFile(file, []byte(r.layout), 0o600); err != nil {
			r.Fatal(err)
		}
		full = append(full, "--layout", file)
	}
	if r.fault == "restart" && r.restarts && r.runs > 1 { // of the file for undo
		args = append(args, "--same-store")
	}
	full = append(append(full, args...), "--json", "--rate", "2000", "--checkpoint", place, "--errors", named)
	writes := op != "audit"
	if writes {
		full = append(full, "--apply", "--yes", "--writes", "0")
	}
	before := r.snapshot(r)
	run := r.strike(op, full, undo, place)
	killed, beside := run.killed, run.beside
	for tries := 0; ; tries++ {
		after := r.snapshot(r)
		where := fmt.Sprintf("%s, run %d, exit %d", op, tries+1, run.code)
		if run.report != nil {
			r.compare(where, run.report, before, after, killed, writes, beside)
		}
		if run.code == 0 || run.code == exitPartly {
			return r.finished(where, op, run.report, before, after, named, killed)
		}
		r.Logf("%s: %s", where, run.err)
		if tries == 6 {
			r.Fatalf("%s: it does not end:\n%s", where, run.err)
		}
		again := full
		if r.fault == "restart" && r.restarts {
			again = append(slices.Clone(full), "--same-store") // of the checkpoint
		}
		if _, err := os.Stat(place); err == nil {
			again = append(slices.Clone(again), "--resume")
		} else { // from the beginning
			// What a command sent last that was killed, or had to give up, may land after the snapshot.
			before, beside, killed = after, 0, true
			_ = os.Remove(named)
		}
		run = r.run(again)
		if run.code == exitUsage {
			r.Fatalf("%s: it cannot be resumed: %s", where, run.err)
		}
	}
}

// compare compares the counts of one report with what the store holds.
func (r *trial) compare(where string, c *counts, before, after map[string]held, killed, writes bool, beside int64) {
	r.Helper()
	if c.sum() != c.Records+c.Repeated {
		r.Errorf("%s: %d records looked at, and %d counted: %+v", where, c.Records, c.sum(), *c)
	}
	changed := int64(0)
	for key, was := range before {
		if after[key] != was {
			changed++
		}
	}
	done := c.done() + beside
	if done > changed || !killed && done+c.Unsure+c.Waiting < changed {
		r.Errorf("%s: it reports %d records written and %d perhaps, and the store shows %d: %+v", where, done, c.Unsure+c.Waiting, changed, *c)
	}
	if !writes && changed > 0 {
		r.Errorf("%s: it wrote %d records", where, changed)
	}
}

// finished judges what a run that is done has left.
func (r *trial) finished(where, op string, c *counts, before, after map[string]held, named string, killed bool) map[string]bool {
	r.Helper()
	if c == nil {
		r.Fatalf("%s: it printed no report", where)
	}
	if !c.Done {
		r.Errorf("%s: it says that it has not looked at all", where)
	}
	content, _ := os.ReadFile(named)
	failed, unsure := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(string(content)) {
		quoted, why, _ := strings.Cut(line, "\t")
		if strings.HasPrefix(why, "it may have been written") {
			unsure[must(strconv.Unquote(quoted))(r)] = true
		} else {
			failed[must(strconv.Unquote(quoted))(r)] = true
		}
	}
	for key := range failed {
		if before[key] != after[key] {
			r.Errorf("%s: %.40q is named as failed, and was written", where, key)
		}
	}
	if int(c.Failed) != len(failed) {
		r.Errorf("%s: %d failed, and %d are named", where, c.Failed, len(failed))
	}
	own := 0
	for key := range before {
		if !r.alien(key) {
			own++
		}
	}
	if op == "reap" {
		own -= int(c.Repeated) // they are gone, and were not found again
	}
	if op != "undo" && c.Records != int64(own) && (op != "reap" || r.fault != "twice" && !killed) {
		r.Errorf("%s: it looked at %d records of %d: %+v", where, c.Records, own, *c)
	}
	if op == "adopt" {
		for key, is := range after {
			if !is.created && !failed[key] && !unsure[key] && !r.alien(key) {
				r.Errorf("%s: %.40q is neither adopted nor named", where, key)
				break
			}
		}
	}
	if op == "undo" && !killed && c.Changed > 0 {
		r.Errorf("%s: %d records count as touched since, and nobody touched one", where, c.Changed)
	}
	return failed
}

func (r *trial) alien(key string) bool {
	return strings.HasPrefix(key, "another") || key == "" && r.layout != ""
}

// run is one run of the command.
type ran struct {
	code   int
	report *counts // nil: none was printed
	err    string
	killed bool
	beside int64 // written by the same command beside it
}

// run runs the command to its end.
func (r *trial) run(args []string) ran { return r.runTo(r.Context(), args, nil) }

// runTo is run until ctx ends. The report goes to the file to, if that is not nil.
func (r *trial) runTo(ctx context.Context, args []string, to io.Writer) ran {
	var out, errs bytes.Buffer
	if to == nil {
		to = &out
	}
	code := run(ctx, args, streams{in: strings.NewReader(""), out: to, err: &errs})
	return ran{code: code, report: countsIn(out.Bytes()), err: errs.String()}
}

func countsIn(report []byte) *counts {
	var c counts
	if json.Unmarshal(report, &c) != nil {
		return nil
	}
	return &c
}

// strike makes the first run of a command, in which the fault strikes.
func (r *trial) strike(op string, args []string, undo, place string) (first ran) {
	moment := r.after(1 + r.rand.IntN(r.records/10))
	ended := make(chan struct{})
	var faults sync.WaitGroup
	once := func(fault func()) {
		faults.Go(func() {
			select {
			case <-moment:
				fault()
			case <-ended:
			}
		})
	}
	finish := func() {
		close(ended)
		faults.Wait()
	}
	lasts := func(d time.Duration, begin func() func()) {
		once(func() {
			heal := begin()
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
			heal()
		})
	}
	switch r.fault {
	case "cut":
		lasts(900*time.Millisecond, r.cut)
	case "stall":
		lasts(300*time.Millisecond, r.stall)
	case "restart":
		once(func() { r.restart(r) })
	case "revoke":
		restore := func() {}
		once(func() { restore = r.revoke(r) })
		first = r.run(args)
		finish()
		restore()
		return first
	case "disk":
		defer finish()
		return r.fullDisk(op, args, undo, place)
	case "kill":
		defer finish()
		return r.kill(args, moment)
	case "twice":
		second := make(chan ran, 1)
		go func() { second <- r.run(args) }()
		first = r.run(args)
		beside := <-second
		finish()
		if first.code == exitUsage { // the other was first
			first, beside = beside, first
		}
		if beside.report != nil && first.report != nil {
			first.beside = beside.report.done()
		}
		return first
	case "another":
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		once(cancel)
		first = r.runTo(ctx, args, nil)
		finish()
		r.elsewhere(op, args, place)
		return first
	}
	first = r.run(args)
	finish()
	return first
}

// elsewhere resumes at another store, which must be refused.
func (r *trial) elsewhere(op string, args []string, place string) {
	r.Helper()
	mine := r.snapshot
	uri, back := r.another(r)
	was := r.snapshot(r)
	args = slices.Clone(args)
	args[1] = uri
	if _, err := os.Stat(place); err == nil {
		if again := r.run(append(args, "--resume")); again.code != exitUsage {
			r.Errorf("%s is resumed at another store, and exits with %d: %+v", op, again.code, again.report)
		}
	}
	if op == "undo" {
		args = slices.DeleteFunc(args, func(a string) bool { return a == place })
		args = slices.DeleteFunc(args, func(a string) bool { return a == "--checkpoint" })
		if again := r.run(args); again.code != exitUsage {
			r.Errorf("%s reads another store's file, and exits with %d: %+v", op, again.code, again.report)
		}
	}
	if !maps.Equal(was, r.snapshot(r)) {
		r.Errorf("%s wrote to another store", op)
	}
	back()
	r.snapshot = mine
}

// fullDisk runs the command while the disk of one of its files fills up.
func (r *trial) fullDisk(op string, args []string, undo, place string) ran {
	r.Helper()
	dir := filepath.Join(r.dir, fmt.Sprint("disk", r.runs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8k"); err != nil {
		r.Skipf("a file system of 8 KB needs root: %v", err)
	}
	defer func() {
		// A process that another test is starting may hold its files for a moment.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			r.Error(err)
		}
	}()
	which := []string{"place", "report"}[r.rand.IntN(2)]
	if op == "adopt" && r.runs == 1 {
		which = "undo"
	}
	r.Logf("%s: the disk of its %s is full", op, which)
	switch which {
	case "undo":
		args = slices.Clone(args)
		to := filepath.Join(dir, "undo")
		args[slices.Index(args, undo)] = to
		first := r.run(args)
		if err := os.WriteFile(undo, must(os.ReadFile(to))(r), 0o600); err != nil {
			r.Fatal(err)
		}
		if first.code == 0 || first.code == exitPartly {
			r.Errorf("%s exits with %d though the disk of its undo file is full", op, first.code)
		}
		return first
	case "place":
		args = slices.Clone(args)
		i := slices.Index(args, place)
		args[i] = filepath.Join(dir, "place")
		if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o600); err == nil {
			r.Fatal("the disk is not full")
		}
		first := r.run(args)
		if first.code == 0 || first.code == exitPartly {
			r.Errorf("%s exits with %d though the disk of its checkpoint is full", op, first.code)
		}
		return first
	}
	f := must(os.Create(filepath.Join(dir, "report")))(r)
	defer func() { _ = f.Close() }()
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o600)
	first := r.runTo(r.Context(), args, f)
	if first.code == 0 || first.code == exitPartly {
		r.Errorf("%s exits with %d though its report was not written", op, first.code)
	}
	first.killed = true // there is no report
	return first
}

// kill runs the command in a process of its own, and kills it at the moment.
func (r *trial) kill(args []string, moment <-chan struct{}) ran {
	r.Helper()
	var errs, out bytes.Buffer
	c := exec.Command(must(os.Executable())(r), args...)
	c.Env, c.Stdout, c.Stderr = append(append(os.Environ(), r.env...), asCommand+"=1"), &out, &errs
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var err error
	select {
	case <-moment:
		_ = c.Process.Kill()
		err = <-ended
	case err = <-ended:
	}
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	return ran{code: code, report: countsIn(out.Bytes()), err: errs.String(), killed: true}
}
