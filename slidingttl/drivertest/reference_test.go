package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// reference is a correct driver with every capability. The broken drivers are made from it.
type reference struct {
	fakestore.Driver[Value]
	maxKey  int
	remarks bool // a touch changes the version
	unique  bool // no version comes twice
	late    bool // dead records are never deleted
	trusts  bool // it uses the caller's time as the store's
	plans   bool // it leaves to the caller's time whether what it writes has ended
	gate    *Gate
	lost    func(op string, write func()) error // returns the error of a write whose answer was lost; nil: driver.ErrAmbiguous
	arrives func(c *call)                       // changes a write that was stopped when it arrives
	retain  time.Duration
	time    func() time.Time
	*backing
}

// backing is the store, which several references may share.
type backing struct {
	mu      sync.Mutex // guards the rest
	last    driver.Version
	records map[string]record
	down    error                  // the error of each call; nil: it works
	hung    chan struct{}          // closed when it answers again
	ahead   atomic.Int64           // its clock less the process's
	used    map[driver.Cursor]bool // cursors, for broken drivers
}

type record struct {
	value   string // encoded
	meta    driver.Meta
	goes    driver.Instant // when the store deletes it; zero: never
	beside  driver.Instant // a second expiry, for broken drivers
	problem error          // why the life cannot be read
	fault   string         // the fault that Mend corrects
	guarded bool           // no write is allowed
}

// call is a call of a reference.
type call = fakestore.Call[Value]

func newReference() *reference {
	answering := make(chan struct{})
	close(answering)
	b := &backing{records: make(map[string]record), hung: answering, used: make(map[driver.Cursor]bool)}
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	r := reference{maxKey: 250, time: now, gate: new(Gate), backing: b}
	r.Step, r.Has = time.Millisecond, []any{
		(*driver.Upserter[Value])(nil), (*driver.BatchGetter[Value])(nil), (*driver.ReadToucher[Value])(nil), (*driver.Clock)(nil),
		(*driver.Checker)(nil), (*driver.Scanner)(nil), (*driver.RawReader)(nil), (*driver.Mender)(nil),
	}
	return r.again()
}

// again returns another reference over the same store, which does not pass the gate.
func (r *reference) again() *reference {
	other := r.retaining(r.retain)
	other.gate = new(Gate)
	return other
}

// sent passes a write through the gate.
func (r *reference) sent(ctx context.Context, op string, write func()) error {
	err := fmt.Errorf("%w: the connection broke", driver.ErrAmbiguous)
	switch r.gate.Pass(write) {
	case Answered:
		return nil
	case Silent:
		select {
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", driver.ErrAmbiguous, ctx.Err())
		case <-time.After(time.Minute): // the client's timeout
		}
	}
	if r.lost != nil && ctx.Err() == nil {
		err = r.lost(op, write)
	}
	return err
}

// judged returns the time by which the store decides about a write that was planned at now.
func (r *reference) judged(now driver.Instant) driver.Instant {
	if r.trusts {
		return now
	}
	return max(now, driver.Floor(r.time()))
}

// contradicts reports whether by the store's time the life that c writes has ended and by the caller's it
// has not, or the reverse.
func (r *reference) contradicts(c *call) bool {
	writes := c.Op == fakestore.Replace || c.Op == fakestore.Touch
	return writes && !r.trusts && !r.plans && !driver.OtherClock(c.Ctx) && c.Life.Alive(c.Now) != c.Life.Alive(driver.Floor(r.time()))
}

// retaining returns another reference over the same store, with a retention.
func (r *reference) retaining(d time.Duration) *reference {
	other := *r
	other.retain, other.Handle = d, other.do
	return &other
}

// gone returns when the store deletes a record that r writes with life.
func (r *reference) gone(life driver.Life) driver.Instant {
	if life.ExpiresAt == 0 {
		return 0
	}
	return life.ExpiresAt.Add(r.retain)
}

var (
	errDown    = errors.New("the store is down")
	errGuarded = errors.New("the store lets nobody write this record")
)

// begin locks the store, unless it returns an error.
func (r *reference) begin(ctx context.Context, key string) error {
	if err := driver.CheckKey(key, r.maxKey); err != nil {
		return err
	}
	r.mu.Lock()
	hung := r.hung
	r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-hung:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	if down := r.down; down != nil {
		r.mu.Unlock()
		return down
	}
	now := driver.Floor(r.time())
	maps.DeleteFunc(r.records, func(_ string, rec record) bool { return !r.late && rec.goes != 0 && rec.goes <= now })
	return nil
}

// do answers c, and lets writes pass the gate.
func (r *reference) do(c *call) {
	switch {
	case c.Op == fakestore.GetMulti:
		c.Each(r.do)
	case c.Reads(), c.Op == fakestore.ReadTouch, c.Op == fakestore.Remove:
		r.effect(c)
	default:
		stopped := r.arrives != nil && r.gate.armed() && (c.Op == fakestore.Replace || c.Op == fakestore.Touch)
		lost := r.sent(c.Ctx, c.Op, func() {
			if stopped {
				r.arrives(c)
			}
			r.effect(c)
		})
		c.Err = cmp.Or(lost, c.Err)
	}
}

// effect has c take effect.
func (r *reference) effect(c *call) {
	if c.Err = r.begin(c.Ctx, c.Key); c.Err != nil {
		return
	}
	defer r.mu.Unlock()
	at := *c
	switch c.Op {
	case fakestore.Replace, fakestore.Touch, fakestore.Remove, fakestore.ReadTouch:
		at.Now = r.judged(c.Now)
	}
	rec, ok := r.records[c.Key]
	var found *driver.Entry[Value]
	var was driver.Version
	rules := fakestore.Rules{Bumps: r.remarks}
	if ok {
		e := rec.entry()
		found = &e
		if e.Alive(at.Now) {
			was = e.Version
		}
		if rec.guarded {
			rules.Denied = errGuarded
		}
	}
	is, writes := at.Apply(found, r.next(was), rules)
	c.Entry, c.Touched, c.Err = at.Entry, at.Touched, at.Err
	switch {
	case c.Reads() && rec.problem != nil:
		c.Err = rec.problem
	case !writes:
	case r.contradicts(c):
		c.Err = &driver.ConflictError{Found: rec.meta}
	case is == nil:
		delete(r.records, c.Key)
	case c.Op == fakestore.Touch || c.Op == fakestore.ReadTouch:
		rec.meta, rec.goes = is.Meta, r.gone(is.Life)
		r.records[c.Key] = rec
	default:
		r.put(c.Key, is.Value, is.Meta)
	}
}

// next returns the version that follows was. Versions start again with each record, so two
// generations may have the same one, unless they are unique.
func (r *reference) next(was driver.Version) driver.Version {
	if r.unique {
		r.last++
		return r.last
	}
	return was + 1
}

// put stores a value under key.
func (r *reference) put(key string, v Value, m driver.Meta) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r.records[key] = record{value: string(b), meta: m, goes: r.gone(m.Life)}
}

func (rec record) entry() driver.Entry[Value] {
	e := driver.Entry[Value]{Meta: rec.meta}
	if err := json.Unmarshal([]byte(rec.value), &e.Value); err != nil {
		panic(err)
	}
	return e
}

func (r *reference) Now() time.Time { return r.time() }

func (r *reference) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(r.Now()), driver.Ceil(r.Now())
}

func (r *reference) Check(ctx context.Context, _ time.Duration) error {
	if err := r.begin(ctx, "any"); err != nil {
		return err
	}
	r.mu.Unlock()
	if off := time.Duration(r.ahead.Load()).Abs(); off > time.Minute {
		return fmt.Errorf("the clocks are %v apart", off)
	}
	return nil
}

// sweep is Backend.Sweep.
func (r *reference) sweep(ctx context.Context) error {
	if err := r.begin(ctx, "any"); err != nil {
		return err
	}
	defer r.mu.Unlock()
	now := driver.Floor(r.time())
	maps.DeleteFunc(r.records, func(_ string, rec record) bool { return rec.goes != 0 && rec.goes <= now })
	return nil
}

// refScan is a cursor of a reference: the last key returned, of part Part of Parts.
type refScan struct {
	Part, Parts int
	After       string
	Begun       bool
}

func (s refScan) cursor() driver.Cursor {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return driver.Cursor(b)
}

func (r *reference) Segments(_ context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	n = min(n, 7)
	cursors := make([]driver.Cursor, n)
	for i := range cursors {
		cursors[i] = refScan{Part: i, Parts: n}.cursor()
	}
	return cursors, nil
}

func (r *reference) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	var at refScan
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	if err := json.Unmarshal([]byte(from), &at); err != nil || at.Parts < 1 {
		return driver.Page{}, driver.BadCursor(from)
	}
	if err := r.begin(ctx, "any"); err != nil {
		return driver.Page{}, err
	}
	defer r.mu.Unlock()
	p := driver.Page{Cost: 0.5}
	for _, key := range slices.Sorted(maps.Keys(r.records)) {
		if at.Begun && key <= at.After || int(crc32.ChecksumIEEE([]byte(key)))%at.Parts != at.Part {
			continue
		}
		if len(p.Records) == limit {
			p.Next = at.cursor()
			break
		}
		rec := r.records[key]
		s := driver.Scanned{Key: key, Meta: rec.meta, Size: len(rec.value), Problem: cmp.Or(rec.problem, driver.CheckKey(key, 0))}
		if rec.goes > rec.meta.ExpiresAt {
			s.HeldUntil = rec.goes
		}
		p.Records = append(p.Records, s)
		at.After, at.Begun = key, true
	}
	return p, nil
}

func (r *reference) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if err := r.begin(ctx, key); err != nil {
		return driver.Raw{}, err
	}
	defer r.mu.Unlock()
	rec, ok := r.records[key]
	if !ok {
		return driver.Raw{}, driver.ErrNotFound
	}
	return driver.Raw{
		Meta:    rec.meta,
		Format:  "json",
		Value:   []byte(rec.value),
		Fields:  map[string]string{"life": describe(rec.meta.Life)},
		Problem: rec.problem,
	}, nil
}

// malform is Backend.Malform.
func (r *reference) malform(_ context.Context, key string, v Value) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(key, v, driver.Meta{Version: r.next(98)})
	rec := r.records[key]
	rec.problem = &driver.InvalidError{Field: "expiry", Value: "a word", Rule: "must be a number"}
	r.records[key] = rec
	return nil
}

// marFor is Backend.Mar for d, which may be no driver.Mender.
func (r *reference) marFor(d driver.Driver[Value]) func(context.Context, string, Value, driver.Life) error {
	if _, ok := driver.As[driver.Mender](d); !ok {
		return nil
	}
	return r.mar
}

const marred = "counts something else"

// mar is Backend.Mar.
func (r *reference) mar(_ context.Context, key string, v Value, life driver.Life) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(key, v, driver.Meta{Life: life, Version: r.next(98)})
	rec := r.records[key]
	rec.fault = marred
	r.records[key] = rec
	return nil
}

func (r *reference) Mend(ctx context.Context, key string, apply bool) (string, error) {
	if err := r.begin(ctx, key); err != nil {
		return "", err
	}
	defer r.mu.Unlock()
	rec, ok := r.records[key]
	switch {
	case !ok:
		return "", driver.ErrNotFound
	case rec.problem != nil:
		return "", rec.problem
	}
	fault := rec.fault
	if apply && fault != "" {
		rec.fault = ""
		rec.meta.Version = r.next(rec.meta.Version)
		r.records[key] = rec
	}
	return fault, nil
}

// change changes the record under key, if there is one, outside of the driver's calls.
func (r *reference) change(key string, f func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec, ok := r.records[key]; ok {
		f(&rec)
		r.records[key] = rec
	}
}

// plant is Backend.Plant.
func (r *reference) plant(_ context.Context, key string, v Value, life driver.Life) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(key, v, driver.Meta{Life: life, Version: r.next(98)}) // a version that the driver's writes do not reach
	return nil
}

// hostile is Backend.Hostile.
func (r *reference) hostile(ctx context.Context, h HostileRecord) error {
	if r.maxKey > 0 && len(h.Key) > r.maxKey || h.Alien {
		return errors.ErrUnsupported
	}
	life := driver.Life{CreatedAt: driver.Instant(h.CreatedAt), ExpiresAt: driver.Floor(h.ExpiresAt)}
	if err := r.plant(ctx, h.Key, value(5), life); err != nil {
		return err
	}
	r.change(h.Key, func(rec *record) { rec.guarded = h.Guarded })
	return nil
}

// apart is Backend.Apart.
func (r *reference) apart(d time.Duration) { r.ahead.Store(int64(d)) }

// fail is Backend.Fail.
func (r *reference) fail() (mend func()) {
	set := func(down error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.down = down
	}
	set(errDown)
	return func() { set(nil) }
}

// hang is Backend.Hang.
func (r *reference) hang() (release func()) {
	hung := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung = hung
	return sync.OnceFunc(func() { close(hung) })
}

// remote is the reason why a reference is no driver.Local.
var remote = map[Feature]string{Local: "stands for a store across a network"}

// sweeper is Backend.Sweep for d, which may replace that of r.
func sweeper(r *reference, d driver.Driver[Value]) func(context.Context) error {
	if t, ok := d.(*twisted); ok {
		return t.sweep
	}
	return r.sweep
}

// harness opens the driver that build makes from a reference.
func harness(build func(*reference) driver.Driver[Value], lacks map[Feature]string) Harness {
	return Harness{
		Bubble: true,
		Lacks:  lacks,
		Open: func(t testing.TB) *Backend {
			t.Cleanup(func() { time.Sleep(time.Second) }) // a slow call that Close gave up ends
			r := newReference()
			d := build(r)
			return &Backend{
				Driver:  d,
				MaxKey:  r.maxKey,
				Plant:   r.plant,
				Malform: r.malform,
				Mar:     r.marFor(d),
				Retain:  func(d time.Duration) driver.Driver[Value] { return build(r.retaining(d)) },
				Fail:    r.fail,
				Own:     func(err error) bool { return errors.Is(err, errDown) },
				Hang:    r.hang,
				Now:     r.time,
				Again:   func() driver.Driver[Value] { return build(r.again()) },
				Gate:    r.gate,
				Apart:   r.apart,
				Hostile: r.hostile,
				Sweep:   sweeper(r, d),
			}
		},
	}
}
