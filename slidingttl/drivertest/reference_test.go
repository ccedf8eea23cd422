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
)

// reference is a correct driver with every capability. The broken drivers are made from it.
type reference struct {
	step    time.Duration
	maxKey  int
	remarks bool // a touch changes the version
	unique  bool // no version comes twice
	late    bool // dead records are never deleted
	trusts  bool // it uses the caller's time as the store's
	gate    *Gate
	lost    func(call string, write func()) error // returns the error of a write whose answer was lost; nil: driver.ErrAmbiguous
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

var (
	_ driver.Upserter[Value]    = (*reference)(nil)
	_ driver.BatchGetter[Value] = (*reference)(nil)
	_ driver.ReadToucher[Value] = (*reference)(nil)
	_ driver.Clock              = (*reference)(nil)
	_ driver.Checker            = (*reference)(nil)
	_ driver.Scanner            = (*reference)(nil)
	_ driver.RawReader          = (*reference)(nil)
)

func newReference() *reference {
	answering := make(chan struct{})
	close(answering)
	b := &backing{records: make(map[string]record), hung: answering, used: make(map[driver.Cursor]bool)}
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	return &reference{step: time.Millisecond, maxKey: 250, time: now, gate: new(Gate), backing: b}
}

// again returns another reference over the same store, which does not pass the gate.
func (r *reference) again() *reference {
	other := *r
	other.gate = new(Gate)
	return &other
}

// sent passes a write through the gate.
func (r *reference) sent(ctx context.Context, call string, write func()) error {
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
		err = r.lost(call, write)
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

// retaining returns another reference over the same store, with a retention.
func (r *reference) retaining(d time.Duration) *reference {
	other := *r
	other.retain = d
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

// match returns the record under key if a write planned for was, at now, may land on it.
func (r *reference) match(key string, was driver.Meta, now driver.Instant) (record, error) {
	rec, ok := r.records[key]
	switch {
	case !ok || !rec.meta.Alive(r.judged(now)):
		return rec, driver.ErrNotFound
	case rec.meta != was:
		return rec, &driver.ConflictError{Found: rec.meta}
	case rec.guarded:
		return rec, errGuarded
	}
	return rec, nil
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

// put stores a value under key with the version that follows was.
func (r *reference) put(key string, v Value, life driver.Life, was driver.Version) driver.Version {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	version := r.next(was)
	r.records[key] = record{value: string(b), meta: driver.Meta{Life: life, Version: version}, goes: r.gone(life)}
	return version
}

func (rec record) entry() driver.Entry[Value] {
	e := driver.Entry[Value]{Meta: rec.meta}
	if err := json.Unmarshal([]byte(rec.value), &e.Value); err != nil {
		panic(err)
	}
	return e
}

func (r *reference) Get(ctx context.Context, key string) (driver.Entry[Value], error) {
	if err := r.begin(ctx, key); err != nil {
		return driver.Entry[Value]{}, err
	}
	defer r.mu.Unlock()
	rec, ok := r.records[key]
	if !ok {
		return driver.Entry[Value]{}, driver.ErrNotFound
	}
	if rec.problem != nil {
		return driver.Entry[Value]{}, rec.problem
	}
	return rec.entry(), nil
}

func (r *reference) Insert(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	lost := r.sent(ctx, callInsert, func() { version, err = r.insert(ctx, key, v, life, now) })
	return version, cmp.Or(lost, err)
}

func (r *reference) insert(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx, key); err != nil {
		return 0, err
	}
	defer r.mu.Unlock()
	if rec, ok := r.records[key]; ok && rec.meta.Alive(now) {
		return 0, &driver.ConflictError{Found: rec.meta}
	} else if rec.guarded {
		return 0, errGuarded
	} else if ok {
		driver.Replaced(ctx, rec.meta)
	}
	return r.put(key, v, life, 0), nil
}

func (r *reference) Replace(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	lost := r.sent(ctx, callReplace, func() { version, err = r.replace(ctx, key, v, was, life, now) })
	return version, cmp.Or(lost, err)
}

func (r *reference) replace(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx, key); err != nil {
		return 0, err
	}
	defer r.mu.Unlock()
	if _, err := r.match(key, was, now); err != nil {
		return 0, err
	}
	return r.put(key, v, life, was.Version), nil
}

func (r *reference) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	lost := r.sent(ctx, callTouch, func() { version, err = r.touch(ctx, key, was, life, now) })
	return version, cmp.Or(lost, err)
}

func (r *reference) touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx, key); err != nil {
		return 0, err
	}
	defer r.mu.Unlock()
	rec, err := r.match(key, was, now)
	if err != nil {
		return 0, err
	}
	return r.move(key, rec, life).Version, nil
}

// move gives rec, which is stored under key, another life.
func (r *reference) move(key string, rec record, life driver.Life) driver.Meta {
	rec.meta.Life, rec.goes = life, r.gone(life)
	if r.remarks {
		rec.meta.Version = r.next(rec.meta.Version)
	}
	r.records[key] = rec
	return rec.meta
}

func (r *reference) Delete(ctx context.Context, key string) (err error) {
	lost := r.sent(ctx, callDelete, func() { err = r.delete(ctx, key) })
	return cmp.Or(lost, err)
}

func (r *reference) delete(ctx context.Context, key string) error {
	if err := r.begin(ctx, key); err != nil {
		return err
	}
	defer r.mu.Unlock()
	if r.records[key].guarded {
		return errGuarded
	}
	delete(r.records, key)
	return nil
}

func (r *reference) Resolution() time.Duration { return r.step }

func (r *reference) Upsert(ctx context.Context, key string, v Value, _ *driver.Meta, plan driver.Plan, now driver.Instant) (m driver.Meta, err error) {
	lost := r.sent(ctx, callUpsert, func() { m, err = r.upsert(ctx, key, v, plan, now) })
	return m, cmp.Or(lost, err)
}

func (r *reference) upsert(ctx context.Context, key string, v Value, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if err := r.begin(ctx, key); err != nil {
		return driver.Meta{}, err
	}
	defer r.mu.Unlock()
	var found *driver.Meta
	var was driver.Version
	if rec, ok := r.records[key]; ok && rec.meta.Alive(now) {
		found, was = &rec.meta, rec.meta.Version
	}
	if r.records[key].guarded {
		return driver.Meta{}, errGuarded
	}
	life, err := plan(found)
	if err != nil {
		return driver.Meta{}, err
	}
	if rec, ok := r.records[key]; ok && found == nil {
		driver.Replaced(ctx, rec.meta)
	}
	return driver.Meta{Life: life, Version: r.put(key, v, life, was)}, nil
}

func (r *reference) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
	found := make(map[string]driver.Entry[Value])
	var failed driver.KeyErrors
	for i, key := range keys {
		e, err := r.Get(ctx, key)
		switch {
		case err == nil:
			found[key] = e
		case errors.Is(err, driver.ErrInvalid):
			if slices.Index(keys, key) == i {
				failed = append(failed, &driver.KeyError{Index: i, Err: err})
			}
		case !errors.Is(err, driver.ErrNotFound):
			return found, err
		}
	}
	return found, failed.Err()
}

func (r *reference) ReadTouch(ctx context.Context, key string, _ *driver.Meta, a driver.Access, now driver.Instant) (e driver.Entry[Value], touched bool, err error) {
	if err := r.begin(ctx, key); err != nil {
		return e, false, err
	}
	defer r.mu.Unlock()
	rec, ok := r.records[key]
	if !ok {
		return e, false, driver.ErrNotFound
	}
	e = rec.entry()
	if life, due := a.Touch(e.Life); due && e.Alive(r.judged(now)) && !rec.guarded {
		e.Meta, touched = r.move(key, rec, life), true
	}
	return e, touched, nil
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
	r.put(key, v, driver.Life{}, 98)
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
	r.put(key, v, life, 98)
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
	r.put(key, v, life, 98) // a version that the driver's writes do not reach
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
