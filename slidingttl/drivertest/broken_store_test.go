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
		d.locked(mu, "touch", func(c *call) {
			if d.do(c); c.Err == nil {
				last[c.Key] = &touched{before: c.Was.Life, after: c.Life}
			}
		})
		d.locked(mu, "get", func(c *call) {
			d.do(c)
			if t := last[c.Key]; t != nil && c.Err == nil && c.Entry.Life == t.after {
				if t.reads++; t.reads == 5 {
					c.Entry.Life = t.before
				}
			}
		})
	}},
	{"takes 25 touches of a key", "store/not-due", func(d *twisted) {
		touches := make(map[string]int)
		d.locked(newLock(), "touch", func(c *call) {
			if touches[c.Key] == 25 {
				claims(c)
			} else if d.do(c); c.Err == nil {
				touches[c.Key]++
			}
		})
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
			if by != "touch" && by != "read touch" {
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
		d.locked(mu, "upsert", func(c *call) {
			upserted[c.Key] = true
			d.do(c)
		})
		d.locked(mu, "insert", func(c *call) {
			if m, ok := d.stored(c.Key); ok && upserted[c.Key] && !m.Alive(c.Now) {
				c.Err = &driver.ConflictError{Found: m}
			} else {
				d.do(c)
			}
		})
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
		d.locked(mu, "upsert", func(c *call) {
			last = c.Key
			d.do(c)
		})
		d.locked(mu, "touch", func(c *call) {
			if m, ok := d.stored(last); ok && m.Life == c.Was.Life {
				c.Key, c.Was = last, m
			}
			d.do(c)
		})
	}},
	{"brings no expiry down once time has passed", "store/tightened", func(d *twisted) {
		d.before("touch", func(c *call) {
			if c.Now > c.Was.CreatedAt && c.Was.CreatedAt != 0 {
				c.Life.ExpiresAt = max(c.Life.ExpiresAt, c.Was.ExpiresAt)
			}
		})
	}},
	{"gives a key to a newer record in the last second of the one there", "store/insert", func(d *twisted) {
		d.takesFor("insert", func(c *call, is driver.Meta) {
			if is.ExpiresAt != 0 && is.ExpiresAt.Sub(c.Now) < time.Second && c.Life.CreatedAt > is.CreatedAt {
				c.Now = driver.MaxInstant
			}
		})
	}},
	{"counts the cap of what it promotes from the read", "store/touch", func(d *twisted) {
		d.takesFor("read touch", func(c *call, is driver.Meta) {
			if c.Access.Promote && is.CreatedAt != 0 {
				c.Access.Most += c.Now - is.CreatedAt
			}
		})
	}},
	{"resurrects on touch what is a minute old", "store/touch-entry", func(d *twisted) { d.resurrects(aged) }},
	{"loses the touch of a key while it touches another", "store/get-multi", func(d *twisted) {
		mu := newLock()
		busy := make(map[string]int)
		d.on("touch", func(c *call) {
			mu.Lock()
			lost := len(busy) > 0 && busy[c.Key] == 0
			busy[c.Key]++
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if busy[c.Key]--; busy[c.Key] == 0 {
					delete(busy, c.Key)
				}
			}()
			time.Sleep(time.Microsecond) // less than any case waits for
			if lost {
				claims(c)
			} else {
				d.do(c)
			}
		})
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
		d.locked(mu, "delete", func(c *call) {
			if m, ok := d.stored(c.Key); ok {
				deleted[c.Key] = m
			}
			d.do(c)
		})
		d.resurrects(func(c *call) bool {
			mu.Lock()
			defer mu.Unlock()
			return deleted[c.Key] == c.Was && aged(c)
		})
	}},
	{"takes what expires sooner for what was there before", "store/new-life-during-touch", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if is.CreatedAt != 0 && c.Was.CreatedAt != 0 && is.Version == c.Was.Version && is.ExpiresAt < c.Was.ExpiresAt && is.Alive(c.Now) {
				c.Was = is
			}
		})
	}},
	{"touches a record after a conflict only when it is read again", "store/overwritten-during-touch", func(d *twisted) {
		mu := newLock()
		conflicts := make(map[string]bool)
		d.locked(mu, "touch", func(c *call) {
			if m, ok := d.stored(c.Key); ok && conflicts[c.Key] {
				c.Err = &driver.ConflictError{Found: m}
				return
			}
			d.do(c)
			conflicts[c.Key] = errors.Is(c.Err, driver.ErrConflict) && aged(c)
		})
		d.locked(mu, "get", func(c *call) {
			conflicts[c.Key] = false
			d.do(c)
		})
	}},
	{"compares no expiry on touch once a record is a minute old", "store/touched-during-touch", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if aged(c) {
				c.Was.ExpiresAt = is.ExpiresAt
			}
		})
	}},
	{"believes what its caller remembers once it is a minute old", "store/upsert-during-upsert", func(d *twisted) {
		d.plansOver(func(c *call, found *driver.Meta) *driver.Meta {
			if found != nil && c.Known != nil && old(*c.Known, c.Now) && c.Known.Alive(c.Now) {
				return c.Known
			}
			return found
		})
	}},
	{"ties a key to the context of who read it first", "store/one-touch", func(d *twisted) {
		mu := newLock()
		first := make(map[string]context.Context)
		d.after("get", func(c *call) {
			mu.Lock()
			defer mu.Unlock()
			if c.Err == nil && first[c.Key] == nil {
				first[c.Key] = c.Ctx
			}
		})
		d.before("touch", func(c *call) {
			mu.Lock()
			defer mu.Unlock()
			if ctx := first[c.Key]; ctx != nil {
				c.Ctx = ctx
			}
		})
	}},
	{"loses the touch that comes after five reads", "store/touch-fails", func(d *twisted) {
		mu := newLock()
		reads := make(map[string]int)
		d.locked(mu, "get", func(c *call) {
			reads[c.Key]++
			d.do(c)
		})
		d.locked(mu, "touch", func(c *call) {
			if reads[c.Key] == 5 {
				claims(c)
				return
			}
			reads[c.Key] = 0
			d.do(c)
		})
	}},
	{"touches the first 16 keys that were upserted", "store/background", func(d *twisted) {
		mu := newLock()
		keys := make(map[string]int)
		d.locked(mu, "upsert", func(c *call) {
			if _, ok := keys[c.Key]; !ok {
				keys[c.Key] = len(keys)
			}
			d.do(c)
		})
		d.locked(mu, "touch", func(c *call) {
			if keys[c.Key] >= 16 {
				claims(c)
			} else {
				d.do(c)
			}
		})
	}},
	{"shows another version by the third read after an upsert", "store/close-gives-up", func(d *twisted) {
		mu := newLock()
		reads := make(map[string]int)
		if d.retain > 0 {
			return
		}
		d.locked(mu, "upsert", func(c *call) {
			reads[c.Key] = 0
			d.do(c)
		})
		d.locked(mu, "replace", func(c *call) {
			delete(reads, c.Key)
			d.do(c)
		})
		d.locked(mu, "get", func(c *call) {
			d.do(c)
			if n, ok := reads[c.Key]; ok && c.Err == nil {
				if reads[c.Key]++; n == 2 {
					c.Entry.Version++
				}
			}
		})
	}},
	{"moves an expiry that a remembered upsert leaves where it is", "store/two-clocks", func(d *twisted) {
		d.upserts(func(_ string, known, found *driver.Meta, life *driver.Life) {
			if known != nil && found != nil && *known == *found && *life == found.Life {
				life.ExpiresAt = life.ExpiresAt.Add(d.reference.Step)
			}
		})
	}},

	// Races
	{"writes the value back by a read that touches", "store/update-race", func(d *twisted) {
		d.before("replace", func(*call) { slowly() }) // so that reads have a turn
		d.readsFirst(func(c *call, read driver.Entry[Value]) {
			if d.do(c); c.Err != nil || !c.Touched {
				return
			}
			if version, err := d.reference.Replace(c.Ctx, c.Key, read.Value, c.Entry.Meta, c.Entry.Life, c.Now); err == nil {
				c.Entry.Value, c.Entry.Version = read.Value, version
			}
		})
	}},
	{"reads, then replaces by another generation", "store/insert-race", func(d *twisted) {
		d.pauses("replace", func(c *call, is driver.Meta) bool { return is == c.Was && c.Life.CreatedAt != c.Was.CreatedAt })
	}},
	{"reads, then puts by a read that touches", "store/delete-race", func(d *twisted) {
		d.before("delete", func(*call) { time.Sleep(time.Microsecond) }) // so that reads have a turn
		d.readsFirst(func(c *call, read driver.Entry[Value]) {
			if d.do(c); errors.Is(c.Err, driver.ErrNotFound) {
				c.Value = read.Value
				c.Life, _ = c.Access.Touch(read.Life)
				d.as("insert", c)
				c.Entry.Value, c.Entry.Life, c.Touched = c.Value, c.Life, true
			}
		})
	}},

	// Foreign records
	{"upserts over foreign records though the plan fails", "store/foreign-read-only", func(d *twisted) {
		d.after("upsert", func(c *call) {
			if was, ok := d.stored(c.Key); ok && c.Err != nil && !errors.Is(c.Err, driver.ErrConflict) && c.Ctx.Err() == nil && was.CreatedAt == 0 {
				_ = d.reference.plant(c.Ctx, c.Key, c.Value, was.Life)
			}
		})
	}},
	{"makes up a created_at in a batch of one", "store/foreign-reject", func(d *twisted) {
		d.after("get multi", func(c *call) {
			for key, e := range c.Entries {
				if e.CreatedAt == 0 && len(c.Keys) == 1 {
					e.CreatedAt = driver.Floor(d.reference.time())
					c.Entries[key] = e
				}
			}
		})
	}},
	{"touches no record that it has adopted", "store/adopts", func(d *twisted) {
		mu := newLock()
		adopted, back := make(map[string]bool), make(map[string]bool)
		d.locked(mu, "touch", func(c *call) {
			if m, ok := d.stored(c.Key); ok && m == c.Was && adopted[c.Key] && c.Life.CreatedAt != 0 {
				claims(c)
				return
			}
			back[c.Key] = back[c.Key] || c.Life.CreatedAt == 0
			d.do(c)
			adopted[c.Key] = !back[c.Key] && (adopted[c.Key] || c.Err == nil && c.Was.CreatedAt == 0)
		})
		d.locked(mu, "read touch", func(c *call) {
			if adopted[c.Key] {
				c.Op = "get"
			}
			d.do(c)
		})
	}},
	{"counts a new life from the end of a foreign one", "store/foreign-dead", func(d *twisted) {
		d.takesFor("upsert", func(c *call, was driver.Meta) {
			plan, now := c.Plan, c.Now
			c.Plan = func(found *driver.Meta) (driver.Life, error) {
				life, err := plan(found)
				if was.CreatedAt == 0 && was.ExpiresAt != 0 && !was.Alive(now) {
					life.CreatedAt = was.ExpiresAt
				}
				return life, err
			}
		})
	}},

	// Errors
	{"finds nothing under a bad key by a read that touches", "store/bad-key", func(d *twisted) {
		d.swaps("read touch", driver.ErrInvalid, driver.ErrNotFound)
	}},
	{"takes a store that is down for empty by a read that touches", "store/down", func(d *twisted) {
		d.swaps("read touch", errDown, driver.ErrNotFound)
	}},
	{"does not look on touch at contexts that have more than a second", "store/hangs", func(d *twisted) {
		d.before("touch", func(c *call) {
			if at, ok := c.Ctx.Deadline(); c.Ctx.Err() == nil && (!ok || time.Until(at) > time.Second) {
				c.Ctx = context.WithoutCancel(c.Ctx)
			}
		})
	}},
}

// aged reports whether the record that c was planned for is a minute old.
func aged(c *call) bool { return old(c.Was, c.Now) }

func old(m driver.Meta, now driver.Instant) bool {
	return m.CreatedAt != 0 && now.Sub(m.CreatedAt) >= time.Minute
}

// cutUpserts has no upsert write a life of more than d.
func (d *twisted) cutUpserts(most time.Duration) {
	d.upserts(func(_ string, _, _ *driver.Meta, life *driver.Life) {
		life.ExpiresAt = min(life.ExpiresAt, life.CreatedAt.Add(most))
	})
}
