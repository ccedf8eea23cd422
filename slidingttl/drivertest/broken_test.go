package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// never is a time at which every record is alive.
const never = driver.Instant(math.MinInt64)

// inPlace is the case for a fault that is a data race with any concurrency: no other case can
// be run on it.
const inPlace = "local/stable"

// broken is a driver with one fault, and the case that must find it.
type broken struct {
	name  string
	want  string
	twist func(d *twisted)
}

var brokens = []broken{
	// Get
	{"reads absent keys as empty records", "get/absent", func(d *twisted) {
		d.swaps("get", driver.ErrNotFound, nil)
	}},
	{"reads the expiry as created_at", "get/meta", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.CreatedAt = e.ExpiresAt })
	}},
	{"reads no version", "get/meta", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.Version = 0 })
	}},
	{"makes up a created_at", "get/foreign", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.CreatedAt = cmp.Or(e.CreatedAt, driver.Floor(time.Now())) })
	}},
	{"makes up an expiry", "get/foreign", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.ExpiresAt = cmp.Or(e.ExpiresAt, driver.MaxInstant) })
	}},

	// Insert
	{"inserts nothing", "get/meta", func(d *twisted) {
		d.on("insert", func(c *call) { c.Entry.Version = 1 })
	}},
	{"inserts over live records", "insert/live", func(d *twisted) {
		d.before("insert", func(c *call) { c.Now = driver.MaxInstant })
	}},
	{"inserts with a conflict that carries nothing", "insert/live", func(d *twisted) {
		d.swaps("insert", driver.ErrConflict, &driver.ConflictError{})
	}},
	{"takes a record for dead a second early", "insert/live-to-the-end", func(d *twisted) {
		d.before("insert", func(c *call) { c.Now = c.Now.Add(time.Second) })
	}},
	{"believes late deletion", "insert/dead", func(d *twisted) {
		d.before("insert", func(c *call) { c.Now = never })
	}},
	{"takes a record for alive at its expiry", "insert/dead", func(d *twisted) {
		d.before("insert", func(c *call) { c.Now-- })
	}},
	{"judges life by its own clock", "insert/dead", func(d *twisted) {
		d.before("insert", func(c *call) { c.Now = driver.Floor(time.Now()) })
	}},
	{"inserts over records without expiry", "insert/foreign", func(d *twisted) {
		d.takesFor("insert", func(c *call, is driver.Meta) {
			if is.ExpiresAt == 0 {
				c.Now = driver.MaxInstant
				_ = d.reference.Delete(c.Ctx, c.Key)
			}
		})
	}},
	{"takes records without created_at for alive", "insert/foreign-dead", func(d *twisted) {
		d.takesFor("insert", func(c *call, is driver.Meta) {
			if is.CreatedAt == 0 {
				c.Now = never
			}
		})
	}},

	// Replace
	{"forgets created_at on replace", "replace/live", func(d *twisted) {
		d.before("replace", func(c *call) { c.Life.CreatedAt = c.Now })
	}},
	{"wipes created_at on replace", "replace/live", func(d *twisted) {
		d.before("replace", func(c *call) { c.Life.CreatedAt = 0 })
	}},
	{"replaces forward only", "replace/earlier-expiry", func(d *twisted) {
		d.before("replace", func(c *call) { c.Life.ExpiresAt = max(c.Life.ExpiresAt, c.Was.ExpiresAt) })
	}},
	{"keeps created_at though told another", "replace/new-generation", func(d *twisted) {
		d.before("replace", func(c *call) { c.Life.CreatedAt = c.Was.CreatedAt })
	}},
	{"compares the lower half of a version", "replace/versions", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if uint32(is.Version) == uint32(c.Was.Version) {
				c.Was.Version = is.Version
			}
		})
	}},
	{"has versions that tell of content only", "replace/version", func(d *twisted) {
		d.on("replace", func(c *call) {
			e, _ := d.reference.Get(c.Ctx, c.Key)
			if e.Value.equal(c.Value) && e.Meta == c.Was && e.Life == c.Life {
				claims(c)
			} else {
				d.do(c)
			}
		})
	}},
	{"creates on replace", "replace/absent", func(d *twisted) {
		d.after("replace", func(c *call) {
			if errors.Is(c.Err, driver.ErrNotFound) {
				c.Now = never
				d.as("insert", c)
			}
		})
	}},
	{"revives on replace", "replace/dead", func(d *twisted) {
		d.before("replace", func(c *call) { c.Now = never })
	}},
	{"finds dead records in a replace's way", "replace/dead-other", func(d *twisted) {
		d.refuses("replace", func(c *call, is driver.Meta) bool { return is != c.Was })
	}},
	{"loses updates: ignores the version", "replace/other-version", func(d *twisted) {
		d.takesFor("replace", func(c *call, is driver.Meta) { c.Was.Version = is.Version })
	}},
	{"replaces with a conflict that carries nothing", "replace/other-version", func(d *twisted) {
		d.swaps("replace", driver.ErrConflict, fmt.Errorf("%w: condition failed", driver.ErrConflict))
	}},
	{"replaces with a conflict that carries no version", "replace/other-version", func(d *twisted) {
		d.after("replace", func(c *call) {
			if conflict, ok := errors.AsType[*driver.ConflictError](c.Err); ok {
				conflict.Found.Version = 0
			}
		})
	}},
	{"undoes touches: ignores the expiry on replace", "replace/other-expiry", func(d *twisted) {
		d.takesFor("replace", func(c *call, is driver.Meta) { c.Was.ExpiresAt = is.ExpiresAt })
	}},
	{"replaces another generation", "replace/other-generation", func(d *twisted) {
		d.takesFor("replace", func(c *call, is driver.Meta) { c.Was.CreatedAt = is.CreatedAt })
	}},
	{"cannot replace what has no created_at", "replace/foreign", func(d *twisted) {
		d.refuses("replace", func(_ *call, is driver.Meta) bool { return is.CreatedAt == 0 })
	}},
	{"replaces whatever has no created_at", "replace/foreign-overwrite", func(d *twisted) { takesForeign(d, "replace") }},

	// Touch
	{"touches nothing", "touch/live", func(d *twisted) { d.on("touch", claims) }},
	{"forgets created_at on touch", "touch/live", func(d *twisted) {
		d.before("touch", func(c *call) { c.Life.CreatedAt = c.Now })
	}},
	{"returns no version from touch", "touch/live", func(d *twisted) {
		d.after("touch", func(c *call) { c.Entry.Version = 0 })
	}},
	{"ignores the version on touch", "touch/other-version", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) { c.Was.Version = is.Version })
	}},
	{"touches forward only", "touch/earlier-expiry", func(d *twisted) {
		d.before("touch", func(c *call) { c.Life.ExpiresAt = max(c.Life.ExpiresAt, c.Was.ExpiresAt) })
	}},
	{"resurrects on touch", "touch/absent", func(d *twisted) {
		d.resurrects(func(*call) bool { return true })
	}},
	{"revives on touch", "touch/dead", func(d *twisted) {
		d.before("touch", func(c *call) { c.Now = never })
	}},
	{"finds dead records in a touch's way", "touch/dead-other", func(d *twisted) {
		d.refuses("touch", func(c *call, is driver.Meta) bool { return is.Life != c.Was.Life })
	}},
	{"shortens on touch: ignores the expiry", "touch/other-expiry", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) { c.Was.ExpiresAt = is.ExpiresAt })
	}},
	{"touches another generation", "touch/other-generation", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if c.Was.CreatedAt != 0 && is.CreatedAt != 0 {
				c.Was.CreatedAt = is.CreatedAt
			}
		})
	}},
	{"compares generations by the second", "touch/other-generation", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if is.CreatedAt/1000 == c.Was.CreatedAt/1000 {
				c.Was.CreatedAt = is.CreatedAt
			}
		})
	}},
	{"adopts with no created_at", "touch/adopts", func(d *twisted) {
		d.before("touch", func(c *call) { c.Life.CreatedAt = c.Was.CreatedAt })
	}},
	{"keeps created_at for ever", "touch/takes-back", func(d *twisted) {
		d.before("touch", func(c *call) { c.Life.CreatedAt = cmp.Or(c.Life.CreatedAt, c.Was.CreatedAt) })
	}},
	{"adopts again and again", "touch/adopts-once", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if c.Was.CreatedAt == 0 {
				c.Was = is
			}
		})
	}},
	{"touches whatever has no created_at", "touch/foreign-overwrite", func(d *twisted) { takesForeign(d, "touch") }},

	// Delete
	{"deletes nothing", "delete/live", func(d *twisted) { d.on("delete", func(*call) {}) }},
	{"deletes the records beside it", "delete/live", func(d *twisted) {
		d.after("delete", func(c *call) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if c.Err == nil {
				clear(d.records)
			}
		})
	}},
	{"deletes its own records only", "delete/foreign", func(d *twisted) {
		d.on("delete", func(c *call) {
			if is, ok := d.stored(c.Key); !ok || is.CreatedAt != 0 {
				d.do(c)
			}
		})
	}},
	{"reports absent keys on delete", "delete/absent", func(d *twisted) {
		d.on("delete", func(c *call) {
			c.Err = driver.ErrNotFound
			if _, ok := d.stored(c.Key); ok {
				d.do(c)
			}
		})
	}},
	{"keeps a deleted key's created_at", "delete/then-insert", func(d *twisted) {
		born := make(map[string]driver.Instant)
		d.locked(new(sync.Mutex), "insert", func(c *call) {
			c.Life.CreatedAt = cmp.Or(born[c.Key], c.Life.CreatedAt)
			born[c.Key] = c.Life.CreatedAt
			d.do(c)
		})
	}},
	{"takes two differences for none on touch", "delete/then-insert", func(d *twisted) {
		d.takesFor("touch", func(c *call, is driver.Meta) {
			if is.Alive(c.Now) && c.Was.CreatedAt != 0 && is.Version == c.Was.Version && is.CreatedAt != c.Was.CreatedAt && is.ExpiresAt != c.Was.ExpiresAt {
				c.Was = is
			}
		})
	}},

	// Lives
	{"changes its resolution", "life/resolution", func(d *twisted) {
		var asked atomic.Bool
		d.step = func() time.Duration {
			if asked.Swap(true) {
				return 2 * d.reference.Step
			}
			return d.reference.Step
		}
	}},
	{"has no resolution", "life/resolution", func(d *twisted) {
		d.step = func() time.Duration { return 0 }
	}},
	{"keeps created_at by the second", "life/created-at", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) { l.CreatedAt -= l.CreatedAt % 1000 })
	}},
	{"rounds down", "life/expiry-exact", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) { l.ExpiresAt -= l.ExpiresAt % 1000 })
	}},
	{"rounds up twice", "life/expiry-exact", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) { l.ExpiresAt = l.ExpiresAt.RoundUp(time.Second) })
	}},
	{"clamps lives to 30 days", "life/far", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) {
			l.ExpiresAt = min(l.ExpiresAt, driver.Floor(time.Now()).Add(30*day))
		})
	}},
	{"keeps instants in 42 bits", "life/farthest", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) { l.ExpiresAt = min(l.ExpiresAt, 1<<42) })
	}},
	{"keeps seconds in 30 bits", "life/far", func(d *twisted) {
		d.lives(func(l *driver.Life, _ driver.Instant) { l.ExpiresAt = min(l.ExpiresAt, 1<<30*1000) })
	}},
	{"counts the time to live from its own now", "life/absolute", func(d *twisted) {
		d.lives(func(l *driver.Life, now driver.Instant) {
			l.ExpiresAt = driver.Floor(time.Now()).Add(l.ExpiresAt.Sub(now))
		})
	}},
	{"counts the time to live from its own now where the caller's clock is behind", "life/absolute", func(d *twisted) {
		d.lives(func(l *driver.Life, now driver.Instant) {
			if own := driver.Floor(time.Now()); now < own {
				l.ExpiresAt = own.Add(l.ExpiresAt.Sub(now))
			}
		})
	}},
	{"turns less than a second into an hour", "life/near", func(d *twisted) {
		d.lives(func(l *driver.Life, now driver.Instant) {
			if l.CreatedAt != 0 && l.ExpiresAt.Sub(now) < time.Second {
				l.ExpiresAt = now.Add(time.Hour)
			}
		})
	}},
	{"deletes a little early", "life/kept-to-the-end", func(d *twisted) {
		d.after("get", func(c *call) {
			if e := c.Entry; c.Err == nil && e.ExpiresAt.Sub(e.CreatedAt) > time.Second && !e.Alive(driver.Floor(time.Now()).Add(10*time.Millisecond)) {
				c.Err = driver.ErrNotFound
			}
		})
	}},
	{"touches a field, not the store's expiry", "life/touch-is-stored", func(d *twisted) {
		ownExpiry(d, byNames("insert", "replace", "adopt"))
	}},
	{"keeps the store's expiry on replace", "life/replace-is-stored", func(d *twisted) {
		ownExpiry(d, byNames("insert", "touch", "adopt"))
	}},
	{"keeps the store's expiry on adoption", "life/adoption-is-stored", func(d *twisted) {
		ownExpiry(d, byNames("insert", "touch", "replace"))
	}},

	// Values
	{"cuts off what is above a megabyte", "value/round-trip", func(d *twisted) {
		d.all(func(c *call) {
			c.Value.Text = c.Value.Text[:min(len(c.Value.Text), 1<<20)]
			d.do(c)
		}, "insert", "replace")
	}},
	{"keeps negative numbers as float64", "value/round-trip", func(d *twisted) {
		d.all(func(c *call) {
			if c.Value.Count < 0 {
				c.Value.Count = int64(float64(c.Value.Count))
			}
			d.do(c)
		}, "insert", "replace")
	}},
	{"merges on replace", "value/overwrite", func(d *twisted) {
		d.before("replace", func(c *call) {
			if e, err := d.reference.Get(c.Ctx, c.Key); err == nil && c.Value.Text == "" {
				c.Value.Text = e.Value.Text
			}
		})
	}},
	{"changes the value it replaces with", "value/untouched", func(d *twisted) {
		d.after("replace", func(c *call) {
			if c.Value.Map != nil {
				c.Value.Map["_id"] = "1"
			}
		})
	}},
	{"shares the value it is given", "value/copied", func(d *twisted) {
		mu := newLock()
		shared := make(map[string]Value)
		d.locked(mu, "insert", func(c *call) {
			if d.do(c); c.Err == nil {
				shared[c.Key] = c.Value
			}
		})
		d.locked(mu, "get", func(c *call) {
			d.do(c)
			if v, ok := shared[c.Key]; ok && c.Entry.Version == 1 {
				c.Entry.Value = v
			}
		})
	}},

	// Keys
	{"takes an empty key", "key/empty", func(d *twisted) {
		d.keys(func(key string) string { return cmp.Or(key, "default") })
	}},
	{"cuts keys short", "key/limit", func(d *twisted) {
		d.keys(func(key string) string { return key[:min(len(key), 250)] })
	}},
	{"takes one byte less than it says", "key/limit", func(d *twisted) {
		d.on("insert", func(c *call) {
			if c.Err = driver.CheckKey(c.Key, 249); c.Err == nil {
				d.do(c)
			}
		})
	}},
	{"trims keys", "key/any-text", func(d *twisted) { d.keys(strings.TrimSpace) }},
	{"folds the case of keys", "key/any-text", func(d *twisted) { d.keys(strings.ToLower) }},
	{"replaces bytes that are not UTF-8", "key/any-bytes", func(d *twisted) {
		d.keys(func(key string) string { return strings.ToValidUTF8(key, "\ufffd") })
	}},
	{"refuses bytes with an error of its own", "key/any-bytes", func(d *twisted) {
		d.on("insert", func(c *call) {
			if c.Err = errors.New("illegal character"); !strings.Contains(c.Key, "\x00") {
				d.do(c)
			}
		})
	}},
	{"names the key in its errors", "key/secret", func(d *twisted) {
		d.errs(func(key string, err error) error {
			if errors.Is(err, driver.ErrInvalid) {
				return err
			}
			return fmt.Errorf("key %q: %w", key, err)
		})
	}},

	// Contexts and faults
	{"ignores contexts", "context/ended-before", func(d *twisted) { d.contexts(context.WithoutCancel) }},
	{"ignores a context that has ended once it has read", "context/ended-before", func(d *twisted) {
		var used atomic.Bool
		d.before("get", func(c *call) {
			if used.Load() {
				c.Ctx = context.WithoutCancel(c.Ctx)
			}
			used.Store(c.Ctx.Err() == nil)
		})
	}},
	{"takes an answer that a context cut short for whole", "context/ends-at-any-step", func(d *twisted) {
		d.on("get multi", func(c *call) {
			ended := c.Ctx.Err() != nil
			if d.do(c); errors.Is(c.Err, context.Canceled) && !ended {
				c.Err = nil
			}
		})
	}},
	{"blocks after the context has ended", "context/ends-meanwhile", func(d *twisted) {
		d.contexts(func(ctx context.Context) context.Context {
			if ctx.Err() != nil {
				return ctx
			}
			return context.WithoutCancel(ctx)
		})
	}},
	{"hides the context's error", "context/ends-meanwhile", func(d *twisted) {
		d.errs(swapped(context.DeadlineExceeded, errors.New("timeout")))
	}},
	{"hides the store's error", "fault/own-error", func(d *twisted) {
		d.errs(swapped(errDown, errors.New("failed")))
	}},
	{"takes a store that is down for empty", "fault/own-error", func(d *twisted) {
		d.errs(swapped(errDown, fmt.Errorf("%w: %w", driver.ErrNotFound, errDown)))
	}},

	// Races: a read and a write with something in between
	{"reads, then inserts", "race/insert", func(d *twisted) {
		d.before("insert", func(c *call) {
			if _, ok := d.stored(c.Key); !ok {
				slowly()
				c.Now = driver.MaxInstant
			}
		})
	}},
	{"reads a dead record, then inserts", "race/insert-dead", func(d *twisted) {
		d.takesFor("insert", func(c *call, is driver.Meta) {
			if !is.Alive(c.Now) {
				slowly()
				c.Now = driver.MaxInstant
			}
		})
	}},
	{"reads, then replaces", "race/replace", func(d *twisted) {
		d.pauses("replace", func(c *call, is driver.Meta) bool { return is == c.Was })
	}},
	{"reads, then touches", "race/touch", func(d *twisted) {
		d.pauses("touch", func(c *call, is driver.Meta) bool { return is == c.Was && c.Was.CreatedAt != 0 })
	}},
	{"reads, then adopts", "race/adopt", func(d *twisted) {
		d.pauses("touch", func(c *call, is driver.Meta) bool { return is.Life == c.Was.Life && c.Was.CreatedAt == 0 })
	}},
	{"touches by reading and writing the record", "race/touch-and-replace", func(d *twisted) {
		d.on("touch", func(c *call) {
			e, err := d.reference.Get(c.Ctx, c.Key)
			if c.Err = err; err != nil {
				return
			}
			if e.Meta != c.Was {
				d.do(c)
				return
			}
			slowly()
			if m, ok := d.stored(c.Key); ok {
				c.Was.Version = m.Version
			}
			if d.do(c); c.Err == nil {
				c.Value, c.Was = e.Value, driver.Meta{Life: c.Life, Version: c.Entry.Version}
				d.as("replace", c)
			}
		})
	}},
	{"reads, then puts", "race/delete", func(d *twisted) {
		d.on("replace", func(c *call) {
			if m, ok := d.stored(c.Key); ok && m == c.Was && m.Alive(c.Now) {
				slowly()
				if _, ok := d.stored(c.Key); !ok {
					c.Op = "insert"
				}
			}
			d.do(c)
		})
	}},

	// Upsert
	{"returns another life than it wrote", "upsert/absent", func(d *twisted) {
		d.after("upsert", func(c *call) { c.Entry.CreatedAt = c.Now - 1 })
	}},
	{"upserts without its plan", "upsert/live", func(d *twisted) {
		d.on("upsert", func(c *call) {
			if c.Life, c.Err = c.Plan(nil); c.Err == nil {
				c.Now = driver.MaxInstant
				d.as("insert", c)
			}
		})
	}},
	{"shows the plan dead records", "upsert/dead", func(d *twisted) {
		d.before("upsert", func(c *call) { c.Now = never })
	}},
	{"believes what its caller remembers", "upsert/remembered-wrong", func(d *twisted) {
		d.plansOver(func(c *call, found *driver.Meta) *driver.Meta {
			if found == nil {
				return nil
			}
			return cmp.Or(c.Known, found)
		})
	}},
	{"wraps the plan's error", "upsert/plan-fails", func(d *twisted) {
		d.after("upsert", func(c *call) {
			if c.Err != nil && c.Ctx.Err() == nil && !errors.Is(c.Err, driver.ErrInvalid) {
				c.Err = fmt.Errorf("plan: %w", c.Err)
			}
		})
	}},
	{"takes records without created_at for absent", "upsert/foreign", func(d *twisted) {
		d.plansOver(func(_ *call, found *driver.Meta) *driver.Meta {
			if found != nil && found.CreatedAt == 0 {
				return nil
			}
			return found
		})
	}},
	{"reads, plans, then puts", "upsert/race", func(d *twisted) { d.on("upsert", d.inTwoSteps) }},
	{"undoes touches on upsert", "upsert/race-touch", func(d *twisted) {
		d.locked(newLock(), "upsert", d.inTwoSteps) // one upsert at a time; other writes do not take it
	}},

	// Overwrite
	{"keeps the created_at of the dead", "overwrite/none", func(d *twisted) {
		d.takesFor("overwrite", func(c *call, is driver.Meta) { c.Life.CreatedAt = cmp.Or(is.CreatedAt, c.Life.CreatedAt) })
	}},
	{"knows no cap", "overwrite/none", func(d *twisted) {
		d.before("overwrite", func(c *call) { c.Access.Most = driver.MaxInstant })
	}},
	{"begins a new life each time", "overwrite/live", func(d *twisted) {
		d.takesFor("overwrite", func(c *call, is driver.Meta) {
			if is.CreatedAt != 0 && is.ExpiresAt != 0 {
				_ = d.reference.Delete(c.Ctx, c.Key)
			}
		})
	}},
	{"brings an expiry down to what a new record would have", "overwrite/forward", func(d *twisted) {
		d.after("overwrite", func(c *call) {
			if c.Err == nil && c.Entry.ExpiresAt > c.Life.ExpiresAt {
				c.Was, c.Life.CreatedAt = c.Entry.Meta, c.Entry.CreatedAt
				d.as("replace", c)
			}
		})
	}},
	{"adopts what it overwrites", "overwrite/foreign", func(d *twisted) {
		d.after("overwrite", func(c *call) {
			if conflict, ok := errors.AsType[*driver.ConflictError](c.Err); ok {
				c.Was = conflict.Found
				d.as("replace", c)
			}
		})
	}},
	{"reads, then overwrites", "overwrite/race", func(d *twisted) {
		d.on("overwrite", func(c *call) {
			c.Plan = c.Access.Overwrite(c.Life, c.Now)
			d.inTwoSteps(c)
		})
	}},

	// GetMulti
	{"reads absent keys as empty records in a batch", "batch/mixed", func(d *twisted) {
		d.after("get multi", func(c *call) {
			for _, k := range c.Keys {
				if _, ok := c.Entries[k]; !ok && c.Err == nil {
					c.Entries[k] = driver.Entry[Value]{}
				}
			}
		})
	}},
	{"reads the first hundred", "batch/many", func(d *twisted) {
		d.before("get multi", func(c *call) { c.Keys = c.Keys[:min(len(c.Keys), 100)] })
	}},
	{"leaves out records without created_at", "batch/foreign", func(d *twisted) {
		d.after("get multi", func(c *call) {
			maps.DeleteFunc(c.Entries, func(_ string, e driver.Entry[Value]) bool { return e.CreatedAt == 0 })
		})
	}},
	{"leaves out keys it cannot take", "batch/invalid-key", func(d *twisted) {
		d.before("get multi", func(c *call) {
			if len(c.Keys) > 1 {
				c.Keys = slices.DeleteFunc(slices.Clone(c.Keys), func(k string) bool { return k == "" })
			}
		})
	}},
	{"fails a whole batch for one key", "batch/invalid-key", func(d *twisted) {
		d.after("get multi", func(c *call) {
			if failed, ok := errors.AsType[driver.KeyErrors](c.Err); ok {
				c.Entries, c.Err = nil, failed[0].Err
			}
		})
	}},
	{"leaves out records it cannot read", "batch/malformed", func(d *twisted) {
		d.after("get multi", func(c *call) {
			if failed, ok := errors.AsType[driver.KeyErrors](c.Err); ok {
				if invalid, ok := errors.AsType[*driver.InvalidError](failed[0]); ok && invalid.Field != "key" {
					c.Err = nil
				}
			}
		})
	}},

	// Latest
	{"shows what was before", "latest/written", func(d *twisted) {
		seen := make(map[string]driver.Entry[Value])
		d.locked(new(sync.Mutex), "latest", func(c *call) {
			e, ok := seen[c.Key]
			if c.Entry = e; ok {
				return
			}
			if d.do(c); c.Err == nil {
				seen[c.Key] = c.Entry
			}
		})
	}},
	{"finds nothing under an empty key", "latest/invalid-key", func(d *twisted) {
		d.after("latest", func(c *call) {
			if c.Key == "" {
				c.Err = driver.ErrNotFound
			}
		})
	}},

	// Remove
	{"removes nothing", "remove/live", func(d *twisted) {
		d.on("remove", func(c *call) {
			e, err := d.reference.Get(c.Ctx, c.Key)
			if c.Err = err; err == nil && (e.Meta != c.Was || !e.Alive(c.Now)) {
				d.do(c)
			}
		})
	}},
	{"removes the dead", "remove/absent", func(d *twisted) {
		d.before("remove", func(c *call) { c.Now = min(c.Now, c.Was.ExpiresAt-1) })
	}},
	{"removes whatever is there", "remove/changed", func(d *twisted) {
		d.takesFor("remove", func(c *call, is driver.Meta) { c.Was = is })
	}},
	{"judges what the caller read", "remove/stale", func(d *twisted) {
		d.on("remove", func(c *call) {
			if c.Err = driver.ErrNotFound; c.Was.Alive(c.Now) {
				d.do(c)
			}
		})
	}},

	// ReadTouch
	{"reads, touches and does not say so", "readtouch/due", func(d *twisted) {
		d.after("read touch", func(c *call) { c.Touched = false })
	}},
	{"touches at every read", "readtouch/not-due", func(d *twisted) {
		d.before("read touch", func(c *call) { c.Access.Keep, c.Now = driver.MaxInstant, 0 })
	}},
	{"reads and touches past the cap", "readtouch/cap", func(d *twisted) {
		d.before("read touch", func(c *call) { c.Access.Most *= 2 })
	}},
	{"reads and does not promote", "readtouch/promote", func(d *twisted) {
		d.before("read touch", func(c *call) { c.Access.Promote = false })
	}},
	{"reads and touches absent keys as empty records", "readtouch/absent", func(d *twisted) { d.swaps("read touch", driver.ErrNotFound, nil) }},
	{"revives what it reads", "readtouch/dead", func(d *twisted) {
		d.before("read touch", func(c *call) { c.Now = never })
	}},
	{"reads and touches what it remembers", "readtouch/remembered-wrong", func(d *twisted) {
		d.on("read touch", func(c *call) {
			known := c.Known
			d.as("get", c)
			e := c.Entry
			if c.Err != nil || known == nil {
				return
			}
			life, due := c.Access.Touch(known.Life)
			if !due || !e.Alive(c.Now) {
				return
			}
			c.Was, c.Life = e.Meta, life
			d.as("touch", c)
			e.Life, e.Version = life, c.Entry.Version
			c.Entry, c.Touched = e, true
		})
	}},
	{"adopts what it reads", "readtouch/foreign", func(d *twisted) {
		d.takesFor("read touch", func(c *call, is driver.Meta) {
			if is.CreatedAt == 0 {
				_, _ = d.reference.Touch(c.Ctx, c.Key, is, driver.Life{CreatedAt: c.Now, ExpiresAt: c.Now + c.Access.Stored}, c.Now)
			}
		})
	}},
	{"reads a value, then touches what is there", "readtouch/race", func(d *twisted) {
		d.readsFirst(func(c *call, read driver.Entry[Value]) {
			d.do(c)
			c.Entry.Value = read.Value
		})
	}},

	// Local
	{"loads another life than it gets", "local/load", func(d *twisted) {
		d.load = func(key string) (*Value, driver.Meta, error) {
			v, m, err := d.loadCopy(key)
			m.CreatedAt++
			return v, m, err
		}
	}},
	{"writes in place", inPlace, func(d *twisted) {
		var mu sync.Mutex
		places := make(map[string]*Value)
		d.load = func(key string) (*Value, driver.Meta, error) {
			v, m, err := d.loadCopy(key)
			if err != nil {
				return v, m, err
			}
			mu.Lock()
			defer mu.Unlock()
			if places[key] == nil {
				places[key] = new(Value)
			}
			*places[key] = *v
			return places[key], m, nil
		}
	}},

	// Slider
	{"slides whatever is stored", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			return is != nil && slideAny(is, loaded, was, to)
		}
	}},
	{"rounds the next instant down", "local/slide", func(d *twisted) {
		d.load, d.slide = d.loadCopy, slideRight
		d.next = func() driver.Instant { return driver.Floor(d.reference.Now()) - 1 }
	}},
	{"slides backwards", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			if slideRight(is, loaded, was, to) {
				return true
			}
			if is == nil || is.meta.Version != loaded.Version || is.meta.ExpiresAt != was || to >= was {
				return false
			}
			is.meta.ExpiresAt = to
			return true
		}
	}},
	{"gives what never expires an expiry", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			if is != nil && was == 0 && is.meta.ExpiresAt == 0 {
				is.meta.ExpiresAt = to
				return true
			}
			return slideRight(is, loaded, was, to)
		}
	}},
	{"slides from any expiry", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			return is != nil && slideRight(is, loaded, is.meta.ExpiresAt, to)
		}
	}},
	{"gives what slides a new version", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			slid := slideRight(is, loaded, was, to)
			if slid {
				is.meta.Version++
			}
			return slid
		}
	}},
	{"claims to slide", "local/slide", func(d *twisted) {
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			return is != nil && slideRight(&record{meta: is.meta}, loaded, was, to)
		}
	}},
	{"slides beside a write", "local/slides", func(d *twisted) {
		var last atomic.Int64 // expiry that a record slid to
		d.load = d.loadCopy
		d.slide = func(is *record, loaded driver.Meta, was, to driver.Instant) bool {
			slid := slideRight(is, loaded, was, to)
			if slid {
				last.Store(int64(to))
			}
			return slid
		}
		d.before("replace", func(c *call) {
			slowly()
			if is, ok := d.stored(c.Key); ok && int64(is.ExpiresAt) == last.Load() {
				c.Was.ExpiresAt = is.ExpiresAt
			}
		})
	}},

	// Clock and Check
	{"revives by an earlier time", "clock/told", func(d *twisted) {
		d.reference.late, d.reference.trusts = true, true
	}},
	{"ends a life by an earlier time", "clock/planned", func(d *twisted) {
		d.reference.plans = true
	}},
	{"goes back in time", "clock/bounds", func(d *twisted) {
		var mu sync.Mutex
		back := time.Duration(0)
		d.now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			back += time.Millisecond
			return time.Now().Add(-back)
		}
	}},
	{"is an hour ahead", "clock/agrees", func(d *twisted) {
		d.now = func() time.Time { return time.Now().Add(time.Hour) }
	}},
	{"never passes its check", "check/healthy", func(d *twisted) {
		d.check = func(context.Context) error { return errors.New("not configured") }
	}},
	{"passes any check", "check/unreachable", func(d *twisted) {
		d.check = func(context.Context) error { return nil }
	}},

	// Scanner
	{"leaves the last of each page out", "scan/all", func(d *twisted) {
		d.pages(func(p *driver.Page) { p.Records = p.Records[:max(0, len(p.Records)-1)] })
	}},
	{"scans records without version", "scan/all", func(d *twisted) {
		d.scanned(func(r *driver.Scanned) { r.Version = 0 })
	}},
	{"invents records", "scan/all", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			if n := len(p.Records); n > 0 {
				p.Records = append(p.Records, p.Records[n-1])
				p.Records[n].Key += "-more"
			}
		})
	}},
	{"leaves the dead out", "scan/all", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			ahead := driver.Floor(time.Now()).Add(80 * time.Minute)
			p.Records = slices.DeleteFunc(p.Records, func(r driver.Scanned) bool { return !r.Alive(ahead) })
		})
	}},
	{"leaves the longest key out", "scan/all", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			p.Records = slices.DeleteFunc(p.Records, func(r driver.Scanned) bool { return len(r.Key) > 200 })
		})
	}},
	{"has a segment twice", "scan/segments", func(d *twisted) {
		d.segment = func(ctx context.Context, n int) ([]driver.Cursor, error) {
			cursors, err := d.reference.Segments(ctx, n)
			if len(cursors) > 1 {
				cursors = append(cursors[:len(cursors)-1], cursors[0])
			}
			return cursors, err
		}
	}},
	{"hides the dead that it holds", "scan/dead", func(d *twisted) {
		d.late = true
		d.pages(func(p *driver.Page) {
			now := driver.Floor(d.now())
			p.Records = slices.DeleteFunc(p.Records, func(r driver.Scanned) bool { return !r.Alive(now) })
		})
	}},
	{"costs less than nothing", "scan/all", func(d *twisted) {
		d.pages(func(p *driver.Page) { p.Cost = math.NaN() })
	}},
	{"loses its first segment", "scan/segments", func(d *twisted) {
		d.segment = func(ctx context.Context, n int) ([]driver.Cursor, error) {
			cursors, err := d.reference.Segments(ctx, n)
			if len(cursors) > 1 {
				cursors = cursors[1:]
			}
			return cursors, err
		}
	}},
	{"has cursors that are good once", "scan/resumed", func(d *twisted) {
		used := d.reference.used
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			d.reference.mu.Lock()
			again := used[from]
			used[from] = strings.Contains(string(from), "many-")
			d.reference.mu.Unlock()
			if again {
				return driver.Page{}, nil
			}
			return d.reference.Scan(ctx, from, limit)
		}
	}},
	{"counts its way through", "scan/meanwhile", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			var at refScan
			if json.Unmarshal([]byte(from), &at) != nil || at.Parts < 1 || limit < 1 {
				return d.reference.Scan(ctx, from, limit)
			}
			done := len(at.After)
			at.After = ""
			p, err := d.reference.Scan(ctx, at.cursor(), 1e6)
			if err != nil {
				return p, err
			}
			p.Records = p.Records[min(done, len(p.Records)):]
			if len(p.Records) > limit {
				p.Records = p.Records[:limit]
				at.After = strings.Repeat("x", done+limit)
				p.Next = at.cursor()
			}
			return p, nil
		}
	}},
	{"scans its own records only", "scan/foreign", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			p.Records = slices.DeleteFunc(p.Records, func(r driver.Scanned) bool { return r.CreatedAt == 0 })
		})
	}},
	{"hides what is malformed", "scan/malformed", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			p.Records = slices.DeleteFunc(p.Records, func(r driver.Scanned) bool { return r.Problem != nil })
		})
	}},
	{"takes what is malformed for foreign", "scan/malformed", func(d *twisted) {
		d.scanned(func(r *driver.Scanned) { r.Problem = nil })
	}},
	{"takes any cursor", "scan/invalid", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			p, err := d.reference.Scan(ctx, from, limit)
			return p, swapped(driver.ErrInvalid, nil)("", err)
		}
	}},
	{"takes a failure for the end of the scan", "scan/error", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			p, err := d.reference.Scan(ctx, from, limit)
			return p, swapped(errDown, nil)("", err)
		}
	}},
	{"scans on without its context", "scan/context", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			return d.reference.Scan(context.WithoutCancel(ctx), from, limit)
		}
	}},

	// RawReader
	{"hands out raw records without version", "raw/record", func(d *twisted) {
		d.raws(func(r *driver.Raw) { r.Version = 0 })
	}},
	{"hands out records without bytes", "raw/record", func(d *twisted) {
		d.raws(func(r *driver.Raw) { r.Value = nil })
	}},
	{"names no fields", "raw/record", func(d *twisted) {
		d.raws(func(r *driver.Raw) { r.Fields = nil })
	}},
	{"hands out absent records as empty ones", "raw/absent", func(d *twisted) {
		d.raw = func(ctx context.Context, key string) (driver.Raw, error) {
			r, err := d.reference.Raw(ctx, key)
			return r, swapped(driver.ErrNotFound, nil)("", err)
		}
	}},
	{"has no problem with what is malformed", "raw/malformed", func(d *twisted) {
		d.raws(func(r *driver.Raw) { r.Problem = nil })
	}},

	// Mender
	{"mends nothing", "mend/mended", func(d *twisted) {
		d.mend = func(ctx context.Context, key string, _ bool) (string, error) {
			return d.reference.Mend(ctx, key, false)
		}
	}},
	{"mends to another life", "mend/mended", func(d *twisted) {
		d.mends(func(rec *record) { rec.meta.CreatedAt++ })
	}},
	{"loses what it mends", "mend/mended", func(d *twisted) {
		d.mends(func(rec *record) { rec.value = "{}" })
	}},
	{"mends unasked", "mend/dry", func(d *twisted) {
		d.mend = func(ctx context.Context, key string, _ bool) (string, error) { return d.reference.Mend(ctx, key, true) }
	}},
	{"mends what is well", "mend/sound", func(d *twisted) {
		d.mended(func(_, _ string, err error) (string, error) {
			if err != nil {
				return "", err
			}
			return marred, nil
		})
	}},
	{"mends by a guess", "mend/doubt", func(d *twisted) {
		d.mended(func(key, fault string, err error) (string, error) {
			if errors.Is(err, driver.ErrInvalid) && key != "" {
				return marred, nil
			}
			return fault, err
		})
	}},
	{"finds nothing wrong with what is absent", "mend/absent", func(d *twisted) {
		d.mended(func(_, fault string, err error) (string, error) {
			return fault, swapped(driver.ErrNotFound, nil)("", err)
		})
	}},
	{"mends without a condition", "mend/race", func(d *twisted) {
		d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
			fault, err := d.reference.Mend(ctx, key, false)
			if err != nil || fault == "" || !apply {
				return fault, err
			}
			slowly()
			_, err = d.reference.Mend(ctx, key, true)
			return fault, err
		}
	}},
	{"retains nothing", "retain/held", func(d *twisted) { d.reference.retain = 0 }},
	{"retains only until a touch", "retain/held", func(d *twisted) {
		d.on("touch", func(c *call) { d.retaining(0).do(c) })
	}},
	{"leaves alone what a touch would end", "store/retire", func(d *twisted) {
		d.on("touch", func(c *call) {
			if claims(c); c.Life.ExpiresAt > c.Now || c.Life.ExpiresAt <= c.Now.Add(-time.Hour) {
				d.do(c)
			}
		})
	}},
	{"deletes what is retired and has no created_at", "retain/retired-foreign", func(d *twisted) {
		d.after("touch", func(c *call) {
			if c.Err == nil && c.Life.CreatedAt == 0 && c.Life.ExpiresAt <= c.Now {
				d.as("delete", c)
			}
		})
	}},
	{"hides the dead after two reads", "store/history", func(d *twisted) {
		reads := make(map[string]int)
		d.locked(newLock(), "get", func(c *call) {
			if d.do(c); c.Err == nil && !c.Entry.Alive(driver.Floor(d.reference.time())) {
				if reads[c.Key]++; reads[c.Key] > 2 {
					c.Err = driver.ErrNotFound
				}
			}
		})
	}},
	{"does not tell what it replaces", "store/replaced", func(d *twisted) {
		d.before("insert", func(c *call) { c.Ctx = driver.WithReplaced(c.Ctx, func(driver.Meta) {}) })
	}},
	{"touches what is dead and retained", "retain/dead", func(d *twisted) {
		d.reference.trusts = true
		d.before("touch", func(c *call) { c.Now = c.Now.Add(-d.reference.retain) })
	}},
	{"shows the store's own expiry", "retain/mixed", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) {
			if e.ExpiresAt != 0 {
				e.ExpiresAt = e.ExpiresAt.Add(d.reference.retain)
			}
		})
	}},
	{"keeps an expiry beside the store's and does not see that it is old", "retain/mixed", func(d *twisted) { expiryBeside(d, func(record) bool { return true }) }},
	{"takes an expiry for old only once it is past the store's", "retain/mixed", func(d *twisted) {
		expiryBeside(d, func(rec record) bool { return rec.beside <= rec.goes })
	}},
	{"leaves the store's expiry where another retained", "retain/mixed-held", func(d *twisted) {
		d.on("touch", func(c *call) {
			var goes driver.Instant
			d.change(c.Key, func(rec *record) { goes = rec.goes })
			if d.do(c); c.Err == nil && goes != c.Was.ExpiresAt && d.retain == 0 {
				d.change(c.Key, func(rec *record) { rec.goes = goes })
			}
		})
	}},
	{"remembers the expiry of what it retains", "retain/foreign", func(d *twisted) {
		mu, own := newLock(), make(map[string]driver.Instant)
		if d.retain == 0 {
			return
		}
		d.locked(mu, "insert", func(c *call) {
			own[c.Key] = c.Life.ExpiresAt
			d.do(c)
		})
		d.locked(mu, "get", func(c *call) {
			d.do(c)
			if at, ok := own[c.Key]; ok && c.Entry.CreatedAt == 0 {
				c.Entry.ExpiresAt = at
			}
		})
	}},
	{"does not say how long it holds", "retain/scan", func(d *twisted) {
		d.scanned(func(r *driver.Scanned) { r.HeldUntil = 0 })
	}},
	{"hands out the store's own expiry", "retain/raw", func(d *twisted) {
		d.raws(func(raw *driver.Raw) {
			if raw.ExpiresAt != 0 {
				raw.ExpiresAt = raw.ExpiresAt.Add(d.reference.retain)
			}
		})
	}},
}

// expiryBeside makes d read the expiry that a retaining driver keeps beside the store's own, as
// long as counts allows, and otherwise the store's own.
func expiryBeside(d *twisted, counts func(record) bool) {
	r := d.reference
	d.writes(func(_ string, c *call) {
		if r.retain > 0 {
			r.change(c.Key, func(rec *record) { rec.beside = c.Entry.ExpiresAt })
		}
	})
	d.after("get", func(c *call) {
		r.change(c.Key, func(rec *record) {
			c.Entry.ExpiresAt = rec.goes
			if rec.beside != 0 && counts(*rec) {
				c.Entry.ExpiresAt = rec.beside
			}
		})
	})
}

// allBrokens are the broken drivers.
func allBrokens() []broken { return slices.Concat(brokens, storeBrokens, worldBrokens) }

// Each broken driver fails the case that is named for its fault, and each case is named for one.
// The nightly test runs the whole suite on each.
func TestBroken(t *testing.T) {
	all := make(map[string]testCase)
	for _, c := range cases() {
		all[c.name] = c
	}
	idle := maps.Clone(all)
	for _, b := range allBrokens() {
		c, ok := all[b.want]
		if !ok {
			t.Errorf("%q is to fail %s, which is no case", b.name, b.want)
			continue
		}
		delete(idle, b.want)
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			h := b.harness()
			failures := h.failures(t, c)
			if len(failures) == 0 {
				t.Fatalf("%s passes", b.want)
			}
			t.Logf("%s: %s", b.want, failures[0])
		})
	}
	for name := range idle {
		if !strings.HasPrefix(name, "harness") { // TestHarness has those
			t.Errorf("no broken driver is to fail %s", name)
		}
	}
}

// harness opens backends with the broken driver.
func (b *broken) harness() Harness {
	is := twist(newReference())
	b.twist(is)
	lacks := remote
	switch {
	case is.load != nil:
		lacks = nil
	case is.clockless:
		lacks = noClock
	}
	return harness(func(r *reference) driver.Driver[Value] {
		d := twist(r)
		b.twist(d)
		return d.driver()
	}, lacks)
}
