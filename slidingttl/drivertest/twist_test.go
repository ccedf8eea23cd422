package drivertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type (
	loadFunc      func(key string) (*Value, driver.Meta, error)
	slideFunc     func(is *record, loaded driver.Meta, was, to driver.Instant) bool
	getFunc       func(context.Context, string) (driver.Entry[Value], error)
	insertFunc    func(context.Context, string, Value, driver.Life, driver.Instant) (driver.Version, error)
	replaceFunc   func(context.Context, string, Value, driver.Meta, driver.Life, driver.Instant) (driver.Version, error)
	touchFunc     func(context.Context, string, driver.Meta, driver.Life, driver.Instant) (driver.Version, error)
	deleteFunc    func(context.Context, string) error
	upsertFunc    func(context.Context, string, Value, *driver.Meta, driver.Plan, driver.Instant) (driver.Meta, error)
	getMultiFunc  func(context.Context, []string) (map[string]driver.Entry[Value], error)
	readTouchFunc func(context.Context, string, *driver.Meta, driver.Access, driver.Instant) (driver.Entry[Value], bool, error)
	overwriteFunc func(context.Context, string, Value, driver.Life, driver.Access, driver.Instant) (driver.Meta, error)
	removeFunc    func(context.Context, string, driver.Meta, driver.Instant) error
	scanFunc      func(context.Context, driver.Cursor, int) (driver.Page, error)
	rawFunc       func(context.Context, string) (driver.Raw, error)
	mendFunc      func(context.Context, string, bool) (string, error)
)

// twisted is a reference with some of its methods replaced.
type twisted struct {
	*reference
	get       getFunc
	insert    insertFunc
	replace   replaceFunc
	touch     touchFunc
	delete    deleteFunc
	upsert    upsertFunc
	getMulti  getMultiFunc
	readTouch readTouchFunc
	step      func() time.Duration
	now       func() time.Time
	check     func(context.Context) error
	latest    getFunc       // not nil: it is a driver.Latest
	remove    removeFunc    // not nil: it is a driver.Remover
	overwrite overwriteFunc // not nil: it is a driver.Overwriter
	load      loadFunc      // not nil: it is a driver.Local
	slide     slideFunc     // not nil: it is a driver.Slider
	next      func() driver.Instant
	segment   func(context.Context, int) ([]driver.Cursor, error)
	scan      scanFunc
	sweep     func(context.Context) error
	clockless bool // it hides its clock
	raw       rawFunc
	mend      mendFunc
}

// local is a twisted driver with the capability of a driver.Local.
type local struct{ *twisted }

func (d local) Load(key string) (*Value, driver.Meta, *atomic.Int64, error) {
	v, m, err := d.load(key)
	return v, m, nil, err
}

// slider is a twisted driver with the capability of a driver.Slider. What its Slide does with the
// record that is stored, nil if there is none, is up to slide.
type slider struct {
	local
	mu     sync.Mutex // guards loaded
	loaded map[*atomic.Int64]driver.Meta
}

func (d *slider) Load(key string) (*Value, driver.Meta, *atomic.Int64, error) {
	v, m, err := d.load(key)
	at := new(atomic.Int64)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded[at] = m
	return v, m, at, err
}

func (d *slider) Next() driver.Instant {
	if d.next != nil {
		return d.next()
	}
	return driver.Ceil(d.Now())
}

func (d *slider) Slide(_ context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	d.mu.Lock()
	loaded := d.loaded[at]
	d.mu.Unlock()
	d.reference.mu.Lock()
	defer d.reference.mu.Unlock()
	is, ok := d.reference.records[key]
	if !ok {
		return d.slide(nil, loaded, was, to)
	}
	slid := d.slide(&is, loaded, was, to)
	d.reference.records[key] = is
	return slid
}

// slideRight is a correct Slide.
func slideRight(is *record, loaded driver.Meta, was, to driver.Instant) bool {
	if is == nil || is.meta.Version != loaded.Version || is.meta.CreatedAt != loaded.CreatedAt {
		return false
	}
	return slideAny(is, loaded, was, to)
}

// slideAny is slideRight of any record.
func slideAny(is *record, _ driver.Meta, was, to driver.Instant) bool {
	if is.meta.ExpiresAt != was || was <= 0 || to <= was {
		return false
	}
	is.meta.ExpiresAt, is.goes = to, to
	return true
}

// latest is a twisted driver with the capability of a driver.Latest.
type latest struct{ *twisted }

func (d latest) Latest(ctx context.Context, key string) (driver.Entry[Value], error) {
	return d.latest(ctx, key)
}

// remover is a twisted driver with the capability of a driver.Remover.
type remover struct{ *twisted }

func (d remover) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	return d.remove(ctx, key, was, now)
}

// overwriter is a twisted driver with the capability of a driver.Overwriter.
type overwriter struct{ *twisted }

func (d overwriter) Overwrite(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	return d.overwrite(ctx, key, v, newLife, a, now)
}

// overwriteRight is a correct Overwrite.
func (d *twisted) overwriteRight(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	return d.reference.Upsert(ctx, key, v, nil, a.Overwrite(newLife, now), now)
}

// removeRight is a correct Remove.
func (d *twisted) removeRight(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	r := d.reference
	if err := r.begin(ctx, key); err != nil {
		return err
	}
	defer r.mu.Unlock()
	_, err := r.match(key, was, now)
	if err == nil {
		delete(r.records, key)
	}
	return err
}

// loadCopy is a correct Load.
func (d *twisted) loadCopy(key string) (*Value, driver.Meta, error) {
	e, err := d.reference.Get(context.Background(), key)
	if err != nil {
		return nil, driver.Meta{}, err
	}
	return &e.Value, e.Meta, nil
}

// twist returns a reference none of whose methods is replaced yet.
func twist(r *reference) *twisted {
	return &twisted{
		reference: r,
		get:       r.Get,
		insert:    r.Insert,
		replace:   r.Replace,
		touch:     r.Touch,
		delete:    r.Delete,
		upsert:    r.Upsert,
		getMulti:  r.GetMulti,
		readTouch: r.ReadTouch,
		step:      r.Resolution,
		now:       r.Now,
		check:     func(ctx context.Context) error { return r.Check(ctx, day) },
		segment:   r.Segments,
		scan:      r.Scan,
		sweep:     r.sweep,
		raw:       r.Raw,
		mend:      r.Mend,
	}
}

func (d *twisted) Get(ctx context.Context, key string) (driver.Entry[Value], error) {
	return d.get(ctx, key)
}

func (d *twisted) Insert(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.insert(ctx, key, v, life, now)
}

func (d *twisted) Replace(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.replace(ctx, key, v, was, life, now)
}

func (d *twisted) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.touch(ctx, key, was, life, now)
}

func (d *twisted) Delete(ctx context.Context, key string) error { return d.delete(ctx, key) }

func (d *twisted) Upsert(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	return d.upsert(ctx, key, v, known, plan, now)
}

func (d *twisted) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
	return d.getMulti(ctx, keys)
}

func (d *twisted) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
	return d.readTouch(ctx, key, known, a, now)
}

func (d *twisted) Resolution() time.Duration { return d.step() }

func (d *twisted) Now() time.Time { return d.now() }

func (d *twisted) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(d.now()), driver.Ceil(d.now())
}

func (d *twisted) Check(ctx context.Context, _ time.Duration) error { return d.check(ctx) }

func (d *twisted) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return d.segment(ctx, n)
}

func (d *twisted) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return d.scan(ctx, from, limit)
}

func (d *twisted) Raw(ctx context.Context, key string) (driver.Raw, error) { return d.raw(ctx, key) }

func (d *twisted) Mend(ctx context.Context, key string, apply bool) (string, error) {
	return d.mend(ctx, key, apply)
}

// pages changes every page that Scan returns.
func (d *twisted) pages(change func(*driver.Page)) {
	r := d.reference
	d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
		p, err := r.Scan(ctx, from, limit)
		if err == nil {
			change(&p)
		}
		return p, err
	}
}

// raws changes every record that Raw returns.
func (d *twisted) raws(change func(*driver.Raw)) {
	r := d.reference
	d.raw = func(ctx context.Context, key string) (driver.Raw, error) {
		raw, err := r.Raw(ctx, key)
		if err == nil {
			change(&raw)
		}
		return raw, err
	}
}

// mends changes every record that Mend has written.
func (d *twisted) mends(change func(*record)) {
	r := d.reference
	d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
		fault, err := r.Mend(ctx, key, apply)
		if fault != "" && apply {
			r.mu.Lock()
			defer r.mu.Unlock()
			rec := r.records[key]
			change(&rec)
			r.records[key] = rec
		}
		return fault, err
	}
}

// keys changes every key on its way to the reference.
func (d *twisted) keys(change func(string) string) {
	r := d.reference
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) { return r.Get(ctx, change(key)) }
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Insert(ctx, change(key), v, life, now)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Replace(ctx, change(key), v, was, life, now)
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Touch(ctx, change(key), was, life, now)
	}
	d.delete = func(ctx context.Context, key string) error { return r.Delete(ctx, change(key)) }
}

// accesses changes every access, and its time, on its way to the reference.
func (d *twisted) accesses(change func(driver.Access, driver.Instant) (driver.Access, driver.Instant)) {
	d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
		a, now = change(a, now)
		return d.reference.ReadTouch(ctx, key, known, a, now)
	}
}

// errs changes every error on its way back.
func (d *twisted) errs(change func(key string, err error) error) {
	of := func(key string, err error) error {
		if err != nil {
			err = change(key, err)
		}
		return err
	}
	r := d.reference
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
		e, err := r.Get(ctx, key)
		return e, of(key, err)
	}
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Insert(ctx, key, v, life, now)
		return version, of(key, err)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Replace(ctx, key, v, was, life, now)
		return version, of(key, err)
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Touch(ctx, key, was, life, now)
		return version, of(key, err)
	}
	d.delete = func(ctx context.Context, key string) error { return of(key, r.Delete(ctx, key)) }
}

// contexts changes every context on its way to the reference.
func (d *twisted) contexts(change func(context.Context) context.Context) {
	r := d.reference
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) { return r.Get(change(ctx), key) }
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Insert(change(ctx), key, v, life, now)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Replace(change(ctx), key, v, was, life, now)
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Touch(change(ctx), key, was, life, now)
	}
	d.delete = func(ctx context.Context, key string) error { return r.Delete(change(ctx), key) }
}

// touches calls f with every touch on its way to the reference. f may change the record it was
// planned for and the life. If f returns true, nothing is written and no error is returned.
func (d *twisted) touches(f func(key string, was *driver.Meta, life *driver.Life, now driver.Instant) bool) {
	r := d.reference
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		if f(key, &was, &life, now) {
			return was.Version, nil
		}
		return r.Touch(ctx, key, was, life, now)
	}
}

// upserts changes every life that an upsert has planned. It is called with the store locked.
func (d *twisted) upserts(change func(key string, known, found *driver.Meta, life *driver.Life)) {
	r := d.reference
	d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
		return r.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
			life, err := plan(found)
			if err == nil {
				change(key, known, found, &life)
			}
			return life, err
		}, now)
	}
}

// byNames reports that the writes of those names reach the store's own expiry.
func byNames(names ...string) func(by, key string) bool {
	return func(by, _ string) bool { return slices.Contains(names, by) }
}

// ownExpiry gives the store an expiry of its own beside the one that the driver reports. A
// write moves it only if reaches returns true.
func ownExpiry(d *twisted, reaches func(by, key string) bool) {
	r := d.reference
	var mu sync.Mutex // guards own
	own := make(map[string]driver.Instant)
	set := func(by, key string, l driver.Life, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && reaches(by, key) {
			own[key] = l.ExpiresAt
		}
	}
	read := func(key string, e driver.Entry[Value], err error) (driver.Entry[Value], error) {
		mu.Lock()
		defer mu.Unlock()
		at, ok := own[key]
		switch {
		case err == nil && ok && at != 0 && at <= driver.Floor(time.Now()):
			return driver.Entry[Value]{}, driver.ErrNotFound
		case err == nil && !ok:
			own[key] = e.ExpiresAt // planted
		}
		return e, err
	}
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
		e, err := r.Get(ctx, key)
		return read(key, e, err)
	}
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Insert(ctx, key, v, life, now)
		set("insert", key, life, err)
		return version, err
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Replace(ctx, key, v, was, life, now)
		set("replace", key, life, err)
		return version, err
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Touch(ctx, key, was, life, now)
		by := "touch"
		if was.CreatedAt == 0 {
			by = "adopt"
		}
		set(by, key, life, err)
		return version, err
	}
	d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
		m, err := r.Upsert(ctx, key, v, known, plan, now)
		set("upsert", key, m.Life, err)
		return m, err
	}
	d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
		e, touched, err := r.ReadTouch(ctx, key, known, a, now)
		if touched {
			set("readtouch", key, e.Life, err)
		}
		e, err = read(key, e, err)
		return e, touched && err == nil, err
	}
}

// lives changes every life that is written.
func (d *twisted) lives(change func(driver.Life, driver.Instant) driver.Life) {
	r := d.reference
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Insert(ctx, key, v, change(life, now), now)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Replace(ctx, key, v, was, change(life, now), now)
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Touch(ctx, key, was, change(life, now), now)
	}
}

// values changes every value that is written.
func (d *twisted) values(change func(Value) Value) {
	r := d.reference
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Insert(ctx, key, change(v), life, now)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		return r.Replace(ctx, key, change(v), was, life, now)
	}
}

// entries changes every record that Get returns.
func (d *twisted) entries(change func(*driver.Entry[Value])) {
	r := d.reference
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
		e, err := r.Get(ctx, key)
		if err == nil {
			change(&e)
		}
		return e, err
	}
}

// stored returns what the reference holds under key.
func (d *twisted) stored(key string) (driver.Meta, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rec, ok := d.records[key]
	return rec.meta, ok
}

// slowly is the time between a read and a write in a driver that takes two steps.
func slowly() { time.Sleep(time.Millisecond) }

// lock is a mutex for bubbles of synctest: others may wait for it while its holder sleeps.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock() { l <- struct{}{} }

func (l lock) Unlock() { <-l }
