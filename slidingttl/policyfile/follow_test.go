package policyfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hours is a file in which each name has a grace of so many hours.
func hours(h map[string]int) string {
	file := make(map[string]slidingttl.Policy)
	for name, n := range h {
		file[name] = grace(n)
	}
	b, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func grace(hours int) slidingttl.Policy {
	return slidingttl.Policy{IdleGrace: time.Duration(hours) * time.Hour, MaxLifetime: 1000 * time.Hour}
}

// desk is a program that follows a file.
type desk struct {
	t      *testing.T
	path   string
	file   *policyfile.File
	mu     sync.Mutex     // guards all below
	calls  []string       // "a 3": a was given a grace of three hours
	has    map[string]int // what each function has, in hours
	refuse []string       // the calls that fail
	errs   []error

	cancel context.CancelFunc
	ended  chan error
}

func open(t *testing.T, content string, names ...string) *desk {
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "policies.json"), has: make(map[string]int)}
	d.write(content)
	var err error
	if d.file, err = policyfile.Open(d.path, names...); err != nil {
		t.Fatal(err)
	}
	return d
}

// write replaces the file as one should.
func (d *desk) write(content string) {
	d.t.Helper()
	beside := d.path + ".new"
	if err := os.WriteFile(beside, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(beside, d.path); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) follow(names ...string) {
	apply := make(map[string]func(slidingttl.Policy) error)
	for _, name := range names {
		apply[name] = func(p slidingttl.Policy) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			h := int(p.IdleGrace / time.Hour)
			call := fmt.Sprint(name, " ", h)
			d.calls = append(d.calls, call)
			if slices.Contains(d.refuse, call) {
				return errRefused
			}
			d.has[name] = h
			return nil
		}
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	d.cancel, d.ended = cancel, make(chan error, 1)
	go func() {
		d.ended <- d.file.Follow(ctx, apply, &policyfile.Options{
			Interval: time.Minute,
			OnError: func(err error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.errs = append(d.errs, err)
				panic("a hook's bug")
			},
		})
	}()
	synctest.Wait()
}

var errRefused = errors.New("refused")

// minute lets one look pass and returns what it called.
func (d *desk) minute() []string {
	d.mu.Lock()
	d.calls = nil
	d.mu.Unlock()
	time.Sleep(time.Minute)
	synctest.Wait()
	return d.calls
}

// policies checks what the functions have and what Policy says.
func (d *desk) policies(want map[string]int) {
	d.t.Helper()
	if !maps.Equal(d.has, want) {
		d.t.Errorf("the functions have %v, want %v", d.has, want)
	}
	for name, h := range want {
		if p, ok := d.file.Policy(name); !ok || p != grace(h) {
			d.t.Errorf("Policy(%q) = %v, %t; want a grace of %d h", name, p, ok, h)
		}
	}
}

// wantReload checks what LastReload says.
func (d *desk) wantReload(successful bool, at time.Time) {
	d.t.Helper()
	if s, a := d.file.LastReload(); s != successful || !a.Equal(at) {
		d.t.Errorf("LastReload() = %t, %v; want %t, %v", s, a, successful, at)
	}
}

func (d *desk) wantCalls(got []string, want ...string) {
	d.t.Helper()
	if !slices.Equal(got, want) {
		d.t.Errorf("called %q, want %q", got, want)
	}
}

// What the operator's command keeps beside the policies is none of them.
func TestStoresBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slidingttl.json")
	content := `{"stores": {"sessions": {"uri": "dynamodb://sessions"}}, "web": {"idle_grace": "30m", "max_lifetime": "12h"}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := policyfile.Open(path, "web")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Policy("stores"); ok {
		t.Error("the stores are taken for a policy")
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"a": 1, "b": 1, "c": 1}), "a", "b")
		d.follow("a", "b")
		d.wantCalls(d.calls, "a 1", "b 1")
		d.wantCalls(d.minute())
		d.write(hours(map[string]int{"a": 1, "b": 2, "tenant": 7}))
		d.wantCalls(d.minute(), "b 2")
		d.policies(map[string]int{"a": 1, "b": 2})
		if p, ok := d.file.Policy("tenant"); !ok || p != grace(7) {
			t.Errorf("a new name: %v, %t", p, ok)
		}
		if _, ok := d.file.Policy("c"); ok {
			t.Errorf("a name that is gone is still there")
		}
		d.wantCalls(d.minute())
		if d.errs != nil {
			t.Errorf("errors %v", d.errs)
		}
		d.cancel()
		if err := <-d.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
}

// TestBadFiles: the last good file stays in force, each failure is told once, and the
// file counts again once it is mended, or is as it was.
func TestBadFiles(t *testing.T) {
	good := hours(map[string]int{"a": 1, "b": 1})
	for _, tt := range []struct {
		name, content string
		invalid       bool   // it is an ErrInvalid, else of encoding/json
		says          string // a part of the text
	}{
		{"half written", good[:len(good)/2], false, "unexpected end"},
		{"empty", "", false, "unexpected end"},
		{"a list", "[]", true, "content is json.Delim: must be an object"},
		{"two objects", good + good, false, "after top-level value"},
		{"a name missing", hours(map[string]int{"a": 2}), true, `"b"`},
		{"a name bound but not opened missing", hours(map[string]int{"b": 2}), true, `"a"`},
		{"a name twice", strings.Replace(hours(map[string]int{"a": 2, "b": 2, "c": 2}), `"c"`, `"a"`, 1), true, `policy "a" is given twice: must have a name that no other policy has`},
		{"null", good[:len(good)-1] + `,"c":null}`, true, `"c"`},
		{"one policy is not valid", hours(map[string]int{"a": 2, "b": 2, "c": 2000}), true, "Policy.IdleGrace"},
		{"a field unknown", strings.Replace(good, "idle_grace", "idel_grace", 1), true, "idel_grace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, good, "b")
				d.follow("a", "b")
				opened := time.Now()
				d.wantReload(true, opened)
				d.write(tt.content)
				d.wantCalls(d.minute())
				d.wantReload(false, opened)
				d.wantCalls(d.minute())
				d.wantReload(false, opened) // looked at again, and the same
				d.policies(map[string]int{"a": 1, "b": 1})
				if len(d.errs) != 1 {
					t.Fatalf("errors %v; want one", d.errs)
				}
				_, err := policyfile.Open(d.path, "a", "b")
				for _, err := range []error{d.errs[0], err} {
					var syntax *json.SyntaxError
					if errors.Is(err, slidingttl.ErrInvalid) != tt.invalid || errors.As(err, &syntax) == tt.invalid ||
						!strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), d.path) {
						t.Errorf("error %v; want one on %s", err, tt.says)
					}
				}
				d.write(good)
				d.wantCalls(d.minute())
				d.wantReload(true, time.Now())
				d.write(hours(map[string]int{"a": 3, "b": 3}))
				d.wantCalls(d.minute(), "a 3", "b 3")
				d.policies(map[string]int{"a": 3, "b": 3})
				if len(d.errs) != 1 {
					t.Errorf("errors %v", d.errs[1:])
				}
			})
		})
	}
}

func TestFileThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"a": 1}), "a")
		d.follow("a")
		if err := os.Remove(d.path); err != nil {
			t.Fatal(err)
		}
		d.minute()
		d.wantCalls(d.minute())
		d.policies(map[string]int{"a": 1})
		if len(d.errs) != 1 || !errors.Is(d.errs[0], fs.ErrNotExist) {
			t.Errorf("errors %v, want one of fs.ErrNotExist", d.errs)
		}
		if _, err := policyfile.Open(d.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open: %v", err)
		}
		d.write(hours(map[string]int{"a": 2}))
		d.wantCalls(d.minute(), "a 2")
		d.policies(map[string]int{"a": 2})
	})
}

// TestRefusedByOne: where one function refuses, all have what they had.
func TestRefusedByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"a": 1, "b": 1, "c": 1}), "a", "b", "c")
		d.follow("a", "b", "c")
		d.refuse = []string{"b 2"}
		d.write(hours(map[string]int{"a": 2, "b": 2, "c": 2}))
		d.wantCalls(d.minute(), "a 2", "b 2", "a 1")
		d.wantCalls(d.minute())
		d.policies(map[string]int{"a": 1, "b": 1, "c": 1})
		if len(d.errs) != 1 || !errors.Is(d.errs[0], errRefused) || !strings.Contains(d.errs[0].Error(), `"b"`) {
			t.Errorf("errors %v", d.errs)
		}
		d.write(hours(map[string]int{"a": 2, "b": 3, "c": 2}))
		d.wantCalls(d.minute(), "a 2", "b 3", "c 2")
		d.policies(map[string]int{"a": 2, "b": 3, "c": 2})
	})
}

// TestRefusedAtTheStart: a function without a policy that it could be given back.
func TestRefusedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"b": 1}), "b")
		d.write(hours(map[string]int{"a": 2, "b": 2}))
		d.refuse = []string{"b 2"}
		d.follow("a", "b")
		d.wantCalls(d.calls, "a 2", "b 2")
		if len(d.errs) != 1 || !errors.Is(d.errs[0], errRefused) {
			t.Errorf("errors %v", d.errs)
		}
		d.write(hours(map[string]int{"a": 2, "b": 3}))
		d.wantCalls(d.minute(), "a 2", "b 3")
		d.policies(map[string]int{"a": 2, "b": 3})
	})
}

// TestRefusedGivingBack: after that every function is given its policy anew.
func TestRefusedGivingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"a": 1, "b": 1}), "a", "b")
		d.follow("a", "b")
		d.refuse = []string{"b 2", "a 1"}
		d.write(hours(map[string]int{"a": 2, "b": 2}))
		d.wantCalls(d.minute(), "a 2", "b 2", "a 1")
		if len(d.errs) != 1 || !strings.Contains(d.errs[0].Error(), `"b"`) || !strings.Contains(d.errs[0].Error(), `"a", restoring the former policy`) {
			t.Errorf("errors %v", d.errs)
		}
		d.refuse = nil
		d.write(hours(map[string]int{"a": 1, "b": 1}))
		d.wantCalls(d.minute(), "a 1", "b 1")
		d.policies(map[string]int{"a": 1, "b": 1})
	})
}

// TestPolicyWhileFollowing reads under the race detector.
func TestPolicyWhileFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, hours(map[string]int{"a": 1, "b": 1}), "a", "b")
		d.follow()
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					if _, ok := d.file.Policy("a"); !ok {
						t.Error("a is missing")
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			})
		}
		for h := range 10 {
			d.write(hours(map[string]int{"a": 1 + h, "b": 1 + h}))
			d.minute()
		}
		close(stop)
		wg.Wait()
		if p, _ := d.file.Policy("b"); p != grace(10) {
			t.Errorf("b has %v", p)
		}
	})
}

func TestOptions(t *testing.T) {
	d := open(t, hours(map[string]int{"a": 1}))
	err := d.file.Follow(t.Context(), nil, &policyfile.Options{Interval: -1})
	if is, ok := errors.AsType[*slidingttl.InvalidError](err); !ok || *is != (slidingttl.InvalidError{Field: "Options.Interval", Value: "-1ns", Rule: "must not be negative"}) {
		t.Errorf("Follow with a negative interval: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.file.Follow(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow with an ended context: %v", err)
	}
}
