package slidingttl_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// watcher notes the calls of an Observer.
type watcher struct {
	mu   sync.Mutex // guards told
	told []string
}

func (w *watcher) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, what)
}

// want wants exactly these calls since its last call, in any order.
func (w *watcher) want(t *testing.T, when string, what ...string) {
	t.Helper()
	synctest.Wait() // the hooks have run
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.told)
	slices.Sort(what)
	if !slices.Equal(w.told, what) {
		t.Errorf("%s: told %q, want %q", when, w.told, what)
	}
	w.told = nil
}

func (w *watcher) observer() *slidingttl.Observer {
	return &slidingttl.Observer{
		Read: func(_ context.Context, e slidingttl.ReadEvent) { w.note(e.Op + " " + e.Outcome.String()) },
		Touch: func(_ context.Context, e slidingttl.TouchEvent) {
			w.note("touch " + e.Outcome.String() + " after " + e.Duration.String() + " with " + e.Left.String())
		},
		Breaker: func(open bool) {
			if open {
				w.note("breaker opens")
			} else {
				w.note("breaker closes")
			}
		},
	}
}

func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = 5 * time.Millisecond
		var w watcher
		var log bytes.Buffer
		s := open(t, d, session, &slidingttl.Options[int]{
			Observer: w.observer(),
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			Foreign:  slidingttl.Reject,
		})
		get := func() { _, _ = s.Get(t.Context(), "secret") }
		get()
		w.want(t, "absent", "get absent")
		wantErr(t, s.Keep(t.Context(), "secret"), slidingttl.ErrNotFound)
		w.want(t, "absent", "touch absent")
		must(t, s.Insert(t.Context(), "secret", 1))
		time.Sleep(10 * time.Minute)
		get()
		w.want(t, "due", "get hit", "touch written after 10ms with 19m59.97s")
		time.Sleep(session.IdleGrace)
		get()
		w.want(t, "idle", "get died_idle")
		must(t, under.Delete(t.Context(), "secret"))
		must(t, s.Insert(t.Context(), "secret", 1))
		for range 24 {
			time.Sleep(29 * time.Minute)
			get()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		w.told = nil
		get()
		w.want(t, "past the cap", "get died_of_age")

		under.Plant("secret", 1, driver.Life{})
		get()
		w.want(t, "foreign", "get foreign")
		must(t, under.Delete(t.Context(), "secret"))
		must(t, s.Insert(t.Context(), "secret", 1))
		down := errors.New("down")
		var failing sync.Map
		d.before = func(_ context.Context, op, _ string) error {
			if _, ok := failing.Load(op); ok {
				return down
			}
			return nil
		}
		failing.Store("get", true)
		get()
		w.want(t, "read failed", "get error")
		failing.Delete("get")
		failing.Store("touch", true)
		for range 20 {
			time.Sleep(time.Second)
			get()
		}
		if !s.Stats().BreakerOpen {
			t.Error("the breaker is closed after 5 failures in a row")
		}
		failing.Delete("touch")
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		told := strings.Join(w.told, ", ")
		w.mu.Unlock()
		if !strings.Contains(told, "touch failed after 5ms") || !strings.Contains(told, "breaker opens") || !strings.Contains(told, "breaker closes") {
			t.Errorf("told %s", told)
		}
		if got := log.String(); !strings.Contains(got, "does not take touches") || !strings.Contains(got, "takes touches again") || strings.Contains(got, "secret") {
			t.Errorf("logged %s", got)
		}
	})
}

// A panic of an Observer stops nothing.
func TestObserverPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{
			Read: func(context.Context, slidingttl.ReadEvent) { panic("boom") },
		}})
		must(t, err)
		must(t, s.Insert(t.Context(), "k", 1))
		_, err = s.Get(t.Context(), "k")
		must(t, err)
		if n := s.Stats().HookPanics; n != 1 {
			t.Errorf("%d panics counted, want 1", n)
		}
		var p *slidingttl.PanicError
		if err := s.Close(t.Context()); !errors.As(err, &p) {
			t.Errorf("Close: %v, want the panic", err)
		}
	})
}

// broken is a log's handler that panics.
type broken struct{ slog.Handler }

func (broken) Handle(context.Context, slog.Record) error { panic("boom") }

// A panic of the Logger stops nothing.
func TestLoggerPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Logger: slog.New(broken{slog.NewTextHandler(new(bytes.Buffer), nil)})})
		must(t, err)
		breakOpen(t, s, under)
		set(false)
		time.Sleep(time.Minute)
		if st := s.Stats(); st.BreakerOpen || st.HookPanics < 2 {
			t.Errorf("%+v", st)
		}
		var p *slidingttl.PanicError
		if err := s.Close(t.Context()); !errors.As(err, &p) {
			t.Errorf("Close: %v, want the panic", err)
		}
	})
}
