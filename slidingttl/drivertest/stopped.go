package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// written is a write that the gate stops on its way.
type written struct {
	name string
	anew bool // of a key that is absent
	call func(ctx context.Context, t *trial, key string, was driver.Meta) error
}

// The value of a record, of what a stopped write puts in its place, and of what another does.
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

// begin makes what w needs under key, with that life, and returns it.
func (t *trial) begin(w written, key string, l driver.Life) driver.Entry[Value] {
	if w.anew {
		return driver.Entry[Value]{}
	}
	return t.insert(key, original, l)
}

// warm makes each write once, so that scripts are loaded, statements prepared and clocks known.
func (t *trial) warm() {
	for _, w := range stoppedWrites {
		key := t.key("warm " + w.name)
		t.ok(w.name, w.call(t.ctx, t, key, t.begin(w, key, t.life(time.Hour)).Meta))
	}
}

// stop has the gate call f in place of the next write, while call is made, and returns what
// call returns. f runs beside the case: it must not end it.
func (t *trial) stop(when string, f func(deliver func()) Answer, call func() error) error {
	var asked sync.WaitGroup
	asked.Add(1)
	cancel := t.b.Gate.stop(func(deliver func()) Answer {
		defer asked.Done()
		return f(deliver)
	})
	err := call()
	if cancel() {
		asked.Wait() // the client may have given up before
	} else {
		t.Errorf("%s: no write passed Backend.Gate", when)
	}
	t.b.Gate.hangUp()
	for range 3 { // until the client knows what has become of its connection
		if _, err := t.d.Get(t.ctx, t.key("never")); errors.Is(err, driver.ErrNotFound) {
			break
		}
	}
	return err
}

// found is what is stored under key, as another process sees it; nil: nothing.
func (t *trial) found(d driver.Driver[Value], key string) *driver.Entry[Value] {
	e, err := driver.GetLatest(t.ctx, d, key)
	switch {
	case err == nil:
		return &e
	case !errors.Is(err, driver.ErrNotFound):
		t.Errorf("Get by another process: %v", err)
	}
	return nil
}

// landed reports whether w has done its work on was.
func (w written) landed(was, is *driver.Entry[Value]) bool {
	switch {
	case w.name == "Delete" || is == nil:
		return w.name == "Delete" && is == nil
	case w.name == "Touch":
		return is.Life != was.Life && is.Value.equal(was.Value)
	}
	return is.Value.equal(value(stopped))
}
