package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// storeBrokens have faults that only cases above the store notice. Many show only when a record
// is a minute old, was read several times or is one of many, like the bugs of a cache, a counter
// or a bounded table.
var storeBrokens = []broken{
	// Lives
	{"cuts upserts off at 29 days", "store/exact", func(d *twisted) { d.cutUpserts(29 * day) }},
	{"cuts upserts off at 31 days", "store/slack", func(d *twisted) { d.cutUpserts(31 * day) }},
	{"has a replica that the fifth read after a touch goes to", "store/same-step", func(d *twisted) {
		type touched struct {
			before, after driver.Life
			reads         int
		}
		mu := newLock()
		last := make(map[string]*touched)
		if d.retain > 0 {
			return
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Touch(ctx, key, was, life, now)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				last[key] = &touched{before: was.Life, after: life}
			}
			return version, err
		}
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if t := last[key]; t != nil && err == nil && e.Life == t.after {
				if t.reads++; t.reads == 5 {
					e.Life = t.before
				}
			}
			return e, err
		}
	}},
	{"takes 25 touches of a key", "store/not-due", func(d *twisted) {
		mu := newLock()
		touches := make(map[string]int)
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if touches[key] == 25 {
				return was.Version, nil
			}
			version, err := d.reference.Touch(ctx, key, was, life, now)
			if err == nil {
				touches[key]++
			}
			return version, err
		}
	}},
	{"moves a field, not the store's expiry, by a read that touches", "store/kept-alive", func(d *twisted) {
		if d.retain == 0 {
			ownExpiry(d, byNames("insert", "replace", "touch", "adopt", "upsert"))
		}
	}},
	{"moves the store's own expiry by one touch of each key", "store/cap-in-time", func(d *twisted) {
		if d.retain > 0 {
			return
		}
		touched := make(map[string]bool) // guarded by ownExpiry's lock
		ownExpiry(d, func(by, key string) bool {
			if by != "touch" && by != "readtouch" {
				return true
			}
			again := touched[key]
			touched[key] = true
			return !again
		})
	}},
	{"starts no generation that ends before the one there", "store/cap", func(d *twisted) {
		d.upserts(func(_ string, _, found *driver.Meta, life *driver.Life) {
			if found != nil && found.CreatedAt != 0 && life.CreatedAt != found.CreatedAt {
				life.ExpiresAt = max(life.ExpiresAt, found.ExpiresAt)
			}
		})
	}},
	{"finds what it upserted in an insert's way when it is dead", "store/late-deletion", func(d *twisted) {
		mu := newLock()
		upserted := make(map[string]bool)
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			mu.Lock()
			defer mu.Unlock()
			upserted[key] = true
			return d.reference.Upsert(ctx, key, v, known, plan, now)
		}
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := d.stored(key); ok && upserted[key] && !m.Alive(now) {
				return 0, &driver.ConflictError{Found: m}
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"moves created_at by the second upsert that is remembered right", "store/created-at-kept", func(d *twisted) {
		right := make(map[string]int) // guarded by the store's lock
		d.upserts(func(key string, known, found *driver.Meta, life *driver.Life) {
			if known != nil && found != nil && *known == *found {
				if right[key]++; right[key] == 2 {
					life.CreatedAt++
				}
			}
		})
	}},
	{"touches the record upserted last, if it has the same life", "store/promote", func(d *twisted) {
		mu := newLock()
		last := ""
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			mu.Lock()
			defer mu.Unlock()
			last = key
			return d.reference.Upsert(ctx, key, v, known, plan, now)
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := d.stored(last); ok && m.Life == was.Life {
				key, was = last, m
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"brings no expiry down once time has passed", "store/tightened", func(d *twisted) {
		d.touches(func(_ string, was *driver.Meta, life *driver.Life, now driver.Instant) bool {
			if now > was.CreatedAt && was.CreatedAt != 0 {
				life.ExpiresAt = max(life.ExpiresAt, was.ExpiresAt)
			}
			return false
		})
	}},
	{"gives a key to a newer record in the last second of the one there", "store/insert", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.ExpiresAt != 0 && m.ExpiresAt.Sub(now) < time.Second && life.CreatedAt > m.CreatedAt {
				now = driver.MaxInstant
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"counts the cap of what it promotes from the read", "store/touch", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			if m, ok := d.stored(key); ok && a.Promote && m.CreatedAt != 0 {
				a.Most += now - m.CreatedAt
			}
			return d.reference.ReadTouch(ctx, key, known, a, now)
		}
	}},
	{"resurrects on touch what is a minute old", "store/touch-entry", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Touch(ctx, key, was, life, now)
			if _, ok := d.stored(key); errors.Is(err, driver.ErrNotFound) && !ok && aged(was, now) {
				return d.reference.Insert(ctx, key, Value{}, life, now)
			}
			return version, err
		}
	}},
	{"loses the touch of a key while it touches another", "store/get-multi", func(d *twisted) {
		mu := newLock()
		busy := make(map[string]int)
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			lost := len(busy) > 0 && busy[key] == 0
			busy[key]++
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if busy[key]--; busy[key] == 0 {
					delete(busy, key)
				}
			}()
			time.Sleep(time.Microsecond) // less than any case waits for
			if lost {
				return was.Version, nil
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"has a clock that stops after four seconds", "store/driver-clock", func(d *twisted) {
		d.reference.late = true
		end := d.reference.time().Add(4 * time.Second)
		d.now = func() time.Time {
			if now := d.reference.time(); now.Before(end) {
				return now
			}
			return end
		}
	}},

	// Touches that are overtaken
	{"brings back by a touch what it deleted a minute after it began", "store/delete-during-touch", func(d *twisted) {
		mu := newLock()
		deleted := make(map[string]driver.Meta)
		d.delete = func(ctx context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := d.stored(key); ok {
				deleted[key] = m
			}
			return d.reference.Delete(ctx, key)
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Touch(ctx, key, was, life, now)
			mu.Lock()
			defer mu.Unlock()
			if _, there := d.stored(key); errors.Is(err, driver.ErrNotFound) && !there && deleted[key] == was && aged(was, now) {
				return d.reference.Insert(ctx, key, Value{}, life, now)
			}
			return version, err
		}
	}},
	{"takes what expires sooner for what was there before", "store/new-life-during-touch", func(d *twisted) {
		d.touches(func(key string, was *driver.Meta, _ *driver.Life, now driver.Instant) bool {
			m, ok := d.stored(key)
			if ok && m.CreatedAt != 0 && was.CreatedAt != 0 && m.Version == was.Version && m.ExpiresAt < was.ExpiresAt && m.Alive(now) {
				*was = m
			}
			return false
		})
	}},
	{"touches a record after a conflict only when it is read again", "store/overwritten-during-touch", func(d *twisted) {
		mu := newLock()
		conflicts := make(map[string]bool)
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := d.stored(key); ok && conflicts[key] {
				return 0, &driver.ConflictError{Found: m}
			}
			version, err := d.reference.Touch(ctx, key, was, life, now)
			conflicts[key] = errors.Is(err, driver.ErrConflict) && aged(was, now)
			return version, err
		}
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			mu.Lock()
			defer mu.Unlock()
			conflicts[key] = false
			return d.reference.Get(ctx, key)
		}
	}},
	{"compares no expiry on touch once a record is a minute old", "store/touched-during-touch", func(d *twisted) {
		d.touches(func(key string, was *driver.Meta, _ *driver.Life, now driver.Instant) bool {
			if m, ok := d.stored(key); ok && aged(*was, now) {
				was.ExpiresAt = m.ExpiresAt
			}
			return false
		})
	}},
	{"believes what its caller remembers once it is a minute old", "store/upsert-during-upsert", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			return d.reference.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
				if found != nil && known != nil && aged(*known, now) && known.Alive(now) {
					found = known
				}
				return plan(found)
			}, now)
		}
	}},
	{"ties a key to the context of who read it first", "store/one-touch", func(d *twisted) {
		mu := newLock()
		first := make(map[string]context.Context)
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && first[key] == nil {
				first[key] = ctx
			}
			return e, err
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			if c := first[key]; c != nil {
				ctx = c
			}
			mu.Unlock()
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"loses the touch that comes after five reads", "store/touch-fails", func(d *twisted) {
		mu := newLock()
		reads := make(map[string]int)
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			mu.Lock()
			defer mu.Unlock()
			reads[key]++
			return d.reference.Get(ctx, key)
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if reads[key] == 5 {
				return was.Version, nil
			}
			reads[key] = 0
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"touches the first 16 keys that were upserted", "store/background", func(d *twisted) {
		mu := newLock()
		keys := make(map[string]int)
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := keys[key]; !ok {
				keys[key] = len(keys)
			}
			return d.reference.Upsert(ctx, key, v, known, plan, now)
		}
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if keys[key] >= 16 {
				return was.Version, nil
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"shows another version by the third read after an upsert", "store/close-gives-up", func(d *twisted) {
		mu := newLock()
		reads := make(map[string]int)
		if d.retain > 0 {
			return
		}
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			mu.Lock()
			defer mu.Unlock()
			reads[key] = 0
			return d.reference.Upsert(ctx, key, v, known, plan, now)
		}
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			delete(reads, key)
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if n, ok := reads[key]; ok && err == nil {
				if reads[key]++; n == 2 {
					e.Version++
				}
			}
			return e, err
		}
	}},
	{"moves an expiry that a remembered upsert leaves where it is", "store/two-clocks", func(d *twisted) {
		d.upserts(func(_ string, known, found *driver.Meta, life *driver.Life) {
			if known != nil && found != nil && *known == *found && *life == found.Life {
				life.ExpiresAt = life.ExpiresAt.Add(d.reference.step)
			}
		})
	}},

	// Races
	{"writes the value back by a read that touches", "store/update-race", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			slowly() // so that reads have a turn
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			read, err := d.reference.Get(ctx, key)
			if err != nil {
				return read, false, err
			}
			slowly()
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			if err != nil || !touched {
				return e, touched, err
			}
			if version, err := d.reference.Replace(ctx, key, read.Value, e.Meta, e.Life, now); err == nil {
				e.Value, e.Version = read.Value, version
			}
			return e, touched, nil
		}
	}},
	{"reads, then replaces by another generation", "store/insert-race", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m == was && m.Alive(now) && life.CreatedAt != was.CreatedAt {
				slowly()
				if m, ok := d.stored(key); ok {
					was = m
				}
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"reads, then puts by a read that touches", "store/delete-race", func(d *twisted) {
		d.delete = func(ctx context.Context, key string) error {
			time.Sleep(time.Microsecond) // so that reads have a turn
			return d.reference.Delete(ctx, key)
		}
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			read, err := d.reference.Get(ctx, key)
			if err != nil {
				return read, false, err
			}
			slowly()
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			if errors.Is(err, driver.ErrNotFound) {
				life, _ := a.Touch(read.Life)
				read.Life = life
				read.Version, err = d.reference.Insert(ctx, key, read.Value, life, now)
				return read, err == nil, err
			}
			return e, touched, err
		}
	}},

	// Foreign records
	{"upserts over foreign records though the plan fails", "store/foreign-read-only", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			m, err := d.reference.Upsert(ctx, key, v, known, plan, now)
			if was, ok := d.stored(key); ok && err != nil && !errors.Is(err, driver.ErrConflict) && ctx.Err() == nil && was.CreatedAt == 0 {
				_ = d.reference.plant(ctx, key, v, was.Life)
			}
			return m, err
		}
	}},
	{"makes up a created_at in a batch of one", "store/foreign-reject", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			for key, e := range found {
				if e.CreatedAt == 0 && len(keys) == 1 {
					e.CreatedAt = driver.Floor(d.reference.time())
					found[key] = e
				}
			}
			return found, err
		}
	}},
	{"touches no record that it has adopted", "store/adopts", func(d *twisted) {
		mu := newLock()
		adopted, back := make(map[string]bool), make(map[string]bool)
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := d.stored(key); ok && m == was && adopted[key] && life.CreatedAt != 0 {
				return was.Version, nil
			}
			back[key] = back[key] || life.CreatedAt == 0
			version, err := d.reference.Touch(ctx, key, was, life, now)
			adopted[key] = !back[key] && (adopted[key] || err == nil && was.CreatedAt == 0)
			return version, err
		}
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if adopted[key] {
				e, err := d.reference.Get(ctx, key)
				return e, false, err
			}
			return d.reference.ReadTouch(ctx, key, known, a, now)
		}
	}},
	{"counts a new life from the end of a foreign one", "store/foreign-dead", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			was, ok := d.stored(key)
			return d.reference.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
				life, err := plan(found)
				if ok && was.CreatedAt == 0 && was.ExpiresAt != 0 && !was.Alive(now) {
					life.CreatedAt = was.ExpiresAt
				}
				return life, err
			}, now)
		}
	}},

	// Errors
	{"finds nothing under a bad key by a read that touches", "store/bad-key", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			if errors.Is(err, driver.ErrInvalid) {
				err = driver.ErrNotFound
			}
			return e, touched, err
		}
	}},
	{"takes a store that is down for empty by a read that touches", "store/down", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			if errors.Is(err, errDown) {
				err = driver.ErrNotFound
			}
			return e, touched, err
		}
	}},
	{"does not look on touch at contexts that have more than a second", "store/hangs", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if at, ok := ctx.Deadline(); ctx.Err() == nil && (!ok || time.Until(at) > time.Second) {
				ctx = context.WithoutCancel(ctx)
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
}

// aged reports whether the record was m is a minute old.
func aged(m driver.Meta, now driver.Instant) bool {
	return m.CreatedAt != 0 && now.Sub(m.CreatedAt) >= time.Minute
}

// cutUpserts has no upsert write a life of more than d.
func (d *twisted) cutUpserts(most time.Duration) {
	d.upserts(func(_ string, _, _ *driver.Meta, life *driver.Life) {
		life.ExpiresAt = min(life.ExpiresAt, life.CreatedAt.Add(most))
	})
}
