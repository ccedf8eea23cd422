package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// written is a kind of write that the gate stops.
type written struct {
	name   string
	absent bool // the key holds no record
	call   func(ctx context.Context, t *trial, key string, was driver.Meta) error
}

// The values of a record, of a stopped write, and of another process's write.
const (
	original = 1
	stopped  = 7
	another  = 8
)

var stoppedWrites = []written{
	{"Insert", true, func(ctx context.Context, t *trial, key string, _ driver.Meta) error {
		_, err := t.d.Insert(ctx, key, value(stopped), t.life(time.Hour), t.now())
		return err
	}},
	{"Replace", false, func(ctx context.Context, t *trial, key string, was driver.Meta) error {
		_, err := t.d.Replace(ctx, key, value(stopped), was, t.later(was.Life, time.Hour), t.now())
		return err
	}},
	{"Touch", false, func(ctx context.Context, t *trial, key string, was driver.Meta) error {
		_, err := t.d.Touch(ctx, key, was, t.later(was.Life, time.Hour), t.now())
		return err
	}},
	{"Delete", false, func(ctx context.Context, t *trial, key string, _ driver.Meta) error {
		return t.d.Delete(ctx, key)
	}},
	{"Upsert of a new key", true, func(ctx context.Context, t *trial, key string, _ driver.Meta) error {
		return t.upsertLater(ctx, key, nil)
	}},
	{"Upsert of a record that is known", false, func(ctx context.Context, t *trial, key string, was driver.Meta) error {
		return t.upsertLater(ctx, key, &was)
	}},
}

func (t *trial) upsertLater(ctx context.Context, key string, known *driver.Meta) error {
	plan := func(found *driver.Meta) (driver.Life, error) {
		if found == nil {
			return t.life(time.Hour), nil
		}
		return t.later(found.Life, time.Hour), nil
	}
	_, err := driver.Upsert(ctx, t.d, key, value(stopped), known, plan, t.now())
	return err
}

// stopping is a write that the gate stops, on a key of its own.
type stopping struct {
	written
	*trial
	key  string
	was  driver.Entry[Value]  // stands under key, unless the write needs the key absent
	peer driver.Driver[Value] // of another process
}

// eachStopped calls f with each write. Its record, if it needs one, lives for ttl. how is part
// of its key.
func (t *trial) eachStopped(writes []written, how string, ttl time.Duration, f func(w stopping)) {
	peer := t.b.Again()
	for _, w := range writes {
		s := stopping{written: w, trial: t, key: t.key(how + w.name), peer: peer}
		if !w.absent {
			s.was = t.insert(s.key, original, t.life(ttl))
		}
		f(s)
	}
}

// write makes the write.
func (w *stopping) write(ctx context.Context) error { return w.call(ctx, w.trial, w.key, w.was.Meta) }

// found is what is stored, as another process sees it; nil: nothing.
func (w *stopping) found() *driver.Entry[Value] {
	e, err := driver.GetLatest(w.ctx, w.peer, w.key)
	switch {
	case err == nil:
		return &e
	case !errors.Is(err, driver.ErrNotFound):
		w.Errorf("Get by another process: %v", err)
	}
	return nil
}

// landed reports whether the write has done its work.
func (w *stopping) landed() bool {
	is := w.found()
	switch {
	case w.name == "Delete" || is == nil:
		return w.name == "Delete" && is == nil
	case w.name == "Touch":
		return is.Life != w.was.Life && is.Value.equal(w.was.Value)
	}
	return is.Value.equal(value(stopped))
}

// follow makes another process write over the stored record, or insert one.
func (w *stopping) follow() {
	is, err := w.found(), error(nil)
	if is == nil {
		_, err = w.peer.Insert(w.ctx, w.key, value(another), w.life(time.Hour), w.now())
	} else {
		_, err = w.peer.Replace(w.ctx, w.key, value(another), is.Meta, w.later(is.Life, time.Hour), w.now())
	}
	if err != nil {
		w.Errorf("%s: the other's write: %v", w.name, err)
	}
}

// warm makes each write once, so that scripts are loaded, statements prepared and clocks known.
func (t *trial) warm() {
	t.eachStopped(stoppedWrites, "warm ", time.Hour, func(w stopping) { t.ok(w.name, w.write(t.ctx)) })
}

// stop makes call, while the gate calls f in place of the next write, and returns what call
// returns. f runs in another goroutine: it must not call Fatalf.
func (w *stopping) stop(when string, f func(deliver func()) Answer, call func() error) error {
	var asked sync.WaitGroup
	asked.Add(1)
	cancel := w.b.Gate.stop(func(deliver func()) Answer {
		defer asked.Done()
		return f(deliver)
	})
	err := call()
	if cancel() {
		asked.Wait() // the client may have given up before
	} else {
		w.Errorf("%s: no write passed Backend.Gate", when)
	}
	w.b.Gate.hangUp()
	for range 3 { // until the client knows that the key's connection is broken
		if _, err := w.d.Get(w.ctx, w.key); err == nil || errors.Is(err, driver.ErrNotFound) {
			break
		}
	}
	return err
}
