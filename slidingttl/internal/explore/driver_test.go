package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// features are what a driver may have. A plain one removes the dead at their expiry, and
// its touches keep the version.
var features = []string{
	"plain",
	"readtouch", // a ReadToucher whose server decides
	"overwrite", // an Overwriter as well
	"versions",  // a touch changes the version
	"stale",     // a Latest: a plain read may be stale
	"retains",   // keeps the dead
	"seconds",   // stores whole seconds
	"deaf",      // does not return at the end of a context
	"locks",     // no feature: the schedule orders the locks of the touches as well
}

// driverCall is a call of a driver.
type driverCall = fakestore.Call[value]

// conn is a process's driver.
type conn struct {
	fakestore.Driver[value]
	w *world
	p *process
}

// dial returns a driver with the features of the program's.
func (w *world) dial(p *process) *conn {
	c := &conn{w: w, p: p}
	c.Step, c.Handle, c.Has = w.resolution(), c.answer, []any{(*driver.Remover)(nil)}
	switch has := func(f string) bool { return strings.Contains(w.driver, f) }; {
	case has("overwrite"):
		c.Has = append(c.Has, (*driver.Overwriter[value])(nil), (*driver.ReadToucher[value])(nil))
	case has("readtouch"):
		c.Has = append(c.Has, (*driver.ReadToucher[value])(nil))
	case has("stale"):
		c.Has = append(c.Has, (*driver.Latest[value])(nil))
	}
	return c
}

// answer answers k.
func (c *conn) answer(k *driverCall) {
	created := driver.Instant(0) // of the record that a touch is for
	if k.Op == fakestore.Touch {
		created = k.Was.CreatedAt
	}
	if k.Key == key {
		c.roundTrip(k, created, c.effect)
		return
	}
	if k.Op != fakestore.Touch {
		c.readOther(k)
		return
	}
	switch k.Key {
	case aside:
		k.Err = c.w.refusal()
	case bad:
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.p.failed = append(c.p.failed, 1)
		c.w.sending(c.p, bad)
		k.Err = errDown
	default:
		c.roundTrip(k, 1, func(*run, *driverCall, *state) {})
	}
}

// readOther answers a read of a record whose every read finds a touch due, or of none.
func (c *conn) readOther(k *driverCall) {
	if k.Key == missing {
		k.Err = driver.ErrNotFound
		return
	}
	now := driver.Ceil(c.p.now())
	k.Entry.Meta = driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(minute)}, Version: 1}
}

// effect has k, a call of r, take effect over s.
func (c *conn) effect(r *run, k *driverCall, s *state) {
	var found *driver.Entry[value]
	if s.present {
		found = &driver.Entry[value]{Value: s.value, Meta: s.Meta}
	}
	rules := fakestore.Rules{Bumps: strings.Contains(c.w.driver, "versions")}
	if is, writes := k.Apply(found, c.w.truth.version+1, rules); writes {
		c.judge(r, k, s, is)
		c.write(r, k, s, is)
		s = c.w.truth.last()
	}
	if r != nil && (k.Reads() || k.Op == fakestore.ReadTouch) {
		r.read(s)
	}
}

// judge judges what k, a call of r, writes over s.
func (c *conn) judge(r *run, k *driverCall, s *state, is *driver.Entry[value]) {
	switch k.Op {
	case fakestore.Touch, fakestore.ReadTouch:
		c.w.judgeTouch(c.p, r, is.Life, k.Now)
	case fakestore.Remove:
		if r != nil && r.meta != (driver.Meta{}) && s.value != r.value {
			c.w.violated("created", "%v removes value %d in place of %d", r, s.value.id, r.value.id)
		}
	case fakestore.Insert, fakestore.Replace, fakestore.Overwrite:
		if k.Op == fakestore.Replace || s.present && s.Alive(k.Now) {
			c.w.judgeReplace(c.p, r, k.Value, is.Life)
		} else {
			c.w.judgeFresh(c.p, r, is.Life)
		}
	}
}

func (c *conn) write(r *run, k *driverCall, s *state, is *driver.Entry[value]) {
	switch {
	case is == nil:
		c.w.put(state{by: r})
		if r != nil {
			r.deleted = c.w.step
		}
	case k.Op == fakestore.Touch || k.Op == fakestore.ReadTouch:
		c.w.truth.version = max(c.w.truth.version, is.Version)
		touched := *s
		touched.Meta = is.Meta
		c.w.put(touched)
	default:
		c.w.store(is.Value, is.Life, r)
	}
}

// read notes what r finds.
func (r *run) read(s *state) {
	if r.saved > 0 && r.readBack == nil {
		meta := s.Meta
		r.readBack = &meta
	}
	if !s.present {
		if !r.ended { // else nobody hears the answer
			r.foundGone = r.w.step
		}
	} else if r.saved == 0 && r.name == "save" {
		r.before = s.Life
	}
}

// save makes a trip that writes what no driver does.
func (c *conn) save(ctx context.Context, write func(by *run)) error {
	k := &driverCall{Ctx: ctx, Op: "save", Key: key}
	c.roundTrip(k, 0, func(r *run, _ *driverCall, _ *state) { write(r) })
	return k.Err
}

// repository is the wrapped repository: it keeps its values where the store does, and a value
// that it saves has no life.
type repository struct{ *conn }

func (r repository) Get(ctx context.Context, id string) (value, error) {
	e, err := r.conn.Get(ctx, id)
	return e.Value, err
}

func (r repository) Upsert(ctx context.Context, _ string, v value) error {
	return r.conn.save(ctx, func(by *run) {
		if by != nil {
			by.saved = r.w.step
		}
		r.w.store(v, driver.Life{}, by)
	})
}

var (
	errDown   = errors.New("store is down")
	errExited = errors.New("its goroutine has ended")
	errLost   = fmt.Errorf("%w: %w", errDown, driver.ErrAmbiguous)
)
