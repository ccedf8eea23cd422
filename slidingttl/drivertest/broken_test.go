package drivertest

import (
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
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			if errors.Is(err, driver.ErrNotFound) {
				err = nil
			}
			return e, err
		}
	}},
	{"reads the expiry as created_at", "get/meta", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.CreatedAt = e.ExpiresAt })
	}},
	{"reads no version", "get/meta", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) { e.Version = 0 })
	}},
	{"makes up a created_at", "get/foreign", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) {
			if e.CreatedAt == 0 {
				e.CreatedAt = driver.Floor(time.Now())
			}
		})
	}},
	{"makes up an expiry", "get/foreign", func(d *twisted) {
		d.entries(func(e *driver.Entry[Value]) {
			if e.ExpiresAt == 0 {
				e.ExpiresAt = driver.MaxInstant
			}
		})
	}},

	// Insert
	{"inserts nothing", "get/meta", func(d *twisted) {
		d.insert = func(context.Context, string, Value, driver.Life, driver.Instant) (driver.Version, error) {
			return 1, nil
		}
	}},
	{"inserts over live records", "insert/live", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, _ driver.Instant) (driver.Version, error) {
			return d.reference.Insert(ctx, key, v, life, driver.MaxInstant)
		}
	}},
	{"inserts with a conflict that carries nothing", "insert/live", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Insert(ctx, key, v, life, now)
			if errors.Is(err, driver.ErrConflict) {
				err = &driver.ConflictError{}
			}
			return version, err
		}
	}},
	{"takes a record for dead a second early", "insert/live-to-the-end", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			return d.reference.Insert(ctx, key, v, life, now.Add(time.Second))
		}
	}},
	{"believes late deletion", "insert/dead", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, _ driver.Instant) (driver.Version, error) {
			return d.reference.Insert(ctx, key, v, life, never)
		}
	}},
	{"takes a record for alive at its expiry", "insert/dead", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			return d.reference.Insert(ctx, key, v, life, now-1)
		}
	}},
	{"judges life by its own clock", "insert/dead", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, _ driver.Instant) (driver.Version, error) {
			return d.reference.Insert(ctx, key, v, life, driver.Floor(time.Now()))
		}
	}},
	{"inserts over records without expiry", "insert/foreign", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.ExpiresAt == 0 {
				now = driver.MaxInstant
				_ = d.reference.Delete(ctx, key)
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"takes records without created_at for alive", "insert/foreign-dead", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt == 0 {
				now = never
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},

	// Replace
	{"forgets created_at on replace", "replace/live", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.CreatedAt = now
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"wipes created_at on replace", "replace/live", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.CreatedAt = 0
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"replaces forward only", "replace/earlier-expiry", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.ExpiresAt = max(life.ExpiresAt, was.ExpiresAt)
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"keeps created_at though told another", "replace/new-generation", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.CreatedAt = was.CreatedAt
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"has versions that tell of content only", "replace/version", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			e, _ := d.reference.Get(ctx, key)
			if e.Value.equal(v) && e.Meta == was && e.Life == life {
				return e.Version, nil
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"creates on replace", "replace/absent", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Replace(ctx, key, v, was, life, now)
			if errors.Is(err, driver.ErrNotFound) {
				return d.reference.Insert(ctx, key, v, life, never)
			}
			return version, err
		}
	}},
	{"revives on replace", "replace/dead", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, _ driver.Instant) (driver.Version, error) {
			return d.reference.Replace(ctx, key, v, was, life, never)
		}
	}},
	{"finds dead records in a replace's way", "replace/dead-other", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m != was {
				return 0, &driver.ConflictError{Found: m}
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"loses updates: ignores the version", "replace/other-version", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok {
				was.Version = m.Version
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"replaces with a conflict that carries nothing", "replace/other-version", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Replace(ctx, key, v, was, life, now)
			if errors.Is(err, driver.ErrConflict) {
				err = fmt.Errorf("%w: condition failed", driver.ErrConflict)
			}
			return version, err
		}
	}},
	{"replaces with a conflict that carries no version", "replace/other-version", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Replace(ctx, key, v, was, life, now)
			var c *driver.ConflictError
			if errors.As(err, &c) {
				c.Found.Version = 0
			}
			return version, err
		}
	}},
	{"undoes touches: ignores the expiry on replace", "replace/other-expiry", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok {
				was.ExpiresAt = m.ExpiresAt
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"replaces another generation", "replace/other-generation", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok {
				was.CreatedAt = m.CreatedAt
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"cannot replace what has no created_at", "replace/foreign", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt == 0 {
				return 0, &driver.ConflictError{Found: m}
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"replaces whatever has no created_at", "replace/foreign-overwrite", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt == 0 {
				was = m
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},

	// Touch
	{"touches nothing", "touch/live", func(d *twisted) {
		d.touch = func(_ context.Context, key string, was driver.Meta, _ driver.Life, _ driver.Instant) (driver.Version, error) {
			return was.Version, nil
		}
	}},
	{"forgets created_at on touch", "touch/live", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.CreatedAt = now
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"returns no version from touch", "touch/live", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			_, err := d.reference.Touch(ctx, key, was, life, now)
			return 0, err
		}
	}},
	{"ignores the version on touch", "touch/other-version", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok {
				was.Version = m.Version
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"touches forward only", "touch/earlier-expiry", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.ExpiresAt = max(life.ExpiresAt, was.ExpiresAt)
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"resurrects on touch", "touch/absent", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Touch(ctx, key, was, life, now)
			if _, ok := d.stored(key); errors.Is(err, driver.ErrNotFound) && !ok {
				return d.reference.Insert(ctx, key, Value{}, life, now)
			}
			return version, err
		}
	}},
	{"revives on touch", "touch/dead", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, _ driver.Instant) (driver.Version, error) {
			return d.reference.Touch(ctx, key, was, life, never)
		}
	}},
	{"finds dead records in a touch's way", "touch/dead-other", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.Life != was.Life {
				return 0, &driver.ConflictError{Found: m}
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"shortens on touch: ignores the expiry", "touch/other-expiry", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok {
				was.ExpiresAt = m.ExpiresAt
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"touches another generation", "touch/other-generation", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && was.CreatedAt != 0 && m.CreatedAt != 0 {
				was.CreatedAt = m.CreatedAt
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"compares generations by the second", "touch/other-generation", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt/1000 == was.CreatedAt/1000 {
				was.CreatedAt = m.CreatedAt
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"adopts with no created_at", "touch/adopts", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			life.CreatedAt = was.CreatedAt
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"keeps created_at for ever", "touch/takes-back", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if life.CreatedAt == 0 {
				life.CreatedAt = was.CreatedAt
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"adopts again and again", "touch/adopts-once", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && was.CreatedAt == 0 {
				was = m
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"touches whatever has no created_at", "touch/foreign-overwrite", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt == 0 {
				was = m
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},

	// Delete
	{"deletes nothing", "delete/live", func(d *twisted) {
		d.delete = func(context.Context, string) error { return nil }
	}},
	{"deletes the records beside it", "delete/live", func(d *twisted) {
		d.delete = func(ctx context.Context, key string) error {
			err := d.reference.Delete(ctx, key)
			d.mu.Lock()
			defer d.mu.Unlock()
			if err == nil {
				clear(d.records)
			}
			return err
		}
	}},
	{"reports absent keys on delete", "delete/absent", func(d *twisted) {
		d.delete = func(ctx context.Context, key string) error {
			if _, ok := d.stored(key); !ok {
				return driver.ErrNotFound
			}
			return d.reference.Delete(ctx, key)
		}
	}},
	{"keeps a deleted key's created_at", "delete/then-insert", func(d *twisted) {
		var mu sync.Mutex
		born := make(map[string]driver.Instant)
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			if c, ok := born[key]; ok {
				life.CreatedAt = c
			}
			born[key] = life.CreatedAt
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"takes two differences for none on touch", "delete/then-insert", func(d *twisted) {
		d.touches(func(key string, was *driver.Meta, _ *driver.Life, now driver.Instant) bool {
			m, ok := d.stored(key)
			if ok && m.Alive(now) && was.CreatedAt != 0 && m.Version == was.Version && m.CreatedAt != was.CreatedAt && m.ExpiresAt != was.ExpiresAt {
				*was = m
			}
			return false
		})
	}},

	// Lives
	{"changes its resolution", "life/resolution", func(d *twisted) {
		var asked atomic.Bool
		d.step = func() time.Duration {
			if asked.Swap(true) {
				return 2 * d.reference.step
			}
			return d.reference.step
		}
	}},
	{"has no resolution", "life/resolution", func(d *twisted) {
		d.step = func() time.Duration { return 0 }
	}},
	{"keeps created_at by the second", "life/created-at", func(d *twisted) {
		d.lives(func(l driver.Life, _ driver.Instant) driver.Life {
			l.CreatedAt -= l.CreatedAt % 1000
			return l
		})
	}},
	{"rounds down", "life/expiry-exact", func(d *twisted) {
		d.lives(func(l driver.Life, _ driver.Instant) driver.Life {
			l.ExpiresAt -= l.ExpiresAt % 1000
			return l
		})
	}},
	{"rounds up twice", "life/expiry-exact", func(d *twisted) {
		d.lives(func(l driver.Life, _ driver.Instant) driver.Life {
			l.ExpiresAt = l.ExpiresAt.RoundUp(time.Second)
			return l
		})
	}},
	{"clamps lives to 30 days", "life/far", func(d *twisted) {
		d.lives(func(l driver.Life, now driver.Instant) driver.Life {
			l.ExpiresAt = min(l.ExpiresAt, driver.Floor(time.Now()).Add(30*day))
			return l
		})
	}},
	{"keeps seconds in 30 bits", "life/far", func(d *twisted) {
		d.lives(func(l driver.Life, _ driver.Instant) driver.Life {
			l.ExpiresAt = min(l.ExpiresAt, 1<<30*1000)
			return l
		})
	}},
	{"counts the time to live from its own now", "life/absolute", func(d *twisted) {
		d.lives(func(l driver.Life, now driver.Instant) driver.Life {
			l.ExpiresAt = driver.Floor(time.Now()).Add(l.ExpiresAt.Sub(now))
			return l
		})
	}},
	{"counts the time to live from its own now where the caller's clock is behind", "life/absolute", func(d *twisted) {
		d.lives(func(l driver.Life, now driver.Instant) driver.Life {
			if own := driver.Floor(time.Now()); now < own {
				l.ExpiresAt = own.Add(l.ExpiresAt.Sub(now))
			}
			return l
		})
	}},
	{"turns less than a second into an hour", "life/near", func(d *twisted) {
		d.lives(func(l driver.Life, now driver.Instant) driver.Life {
			if l.CreatedAt != 0 && l.ExpiresAt.Sub(now) < time.Second {
				l.ExpiresAt = now.Add(time.Hour)
			}
			return l
		})
	}},
	{"deletes a little early", "life/kept-to-the-end", func(d *twisted) {
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			if err == nil && e.ExpiresAt.Sub(e.CreatedAt) > time.Second && !e.Alive(driver.Floor(time.Now()).Add(10*time.Millisecond)) {
				return driver.Entry[Value]{}, driver.ErrNotFound
			}
			return e, err
		}
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
	{"keeps negative numbers as float64", "value/round-trip", func(d *twisted) {
		d.values(func(v Value) Value {
			if v.Count < 0 {
				v.Count = int64(float64(v.Count))
			}
			return v
		})
	}},
	{"merges on replace", "value/overwrite", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if e, err := d.reference.Get(ctx, key); err == nil && v.Text == "" {
				v.Text = e.Value.Text
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"changes the value it replaces with", "value/untouched", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Replace(ctx, key, v, was, life, now)
			if v.Map != nil {
				v.Map["_id"] = "1"
			}
			return version, err
		}
	}},
	{"shares the value it is given", "value/copied", func(d *twisted) {
		var mu sync.Mutex
		shared := make(map[string]Value)
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			version, err := d.reference.Insert(ctx, key, v, life, now)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				shared[key] = v
			}
			return version, err
		}
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if v, ok := shared[key]; ok && e.Version == 1 {
				e.Value = v
			}
			return e, err
		}
	}},

	// Keys
	{"takes an empty key", "key/empty", func(d *twisted) {
		d.keys(func(key string) string {
			if key == "" {
				return "default"
			}
			return key
		})
	}},
	{"cuts keys short", "key/limit", func(d *twisted) {
		d.keys(func(key string) string { return key[:min(len(key), 250)] })
	}},
	{"takes one byte less than it says", "key/limit", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if err := driver.CheckKey(key, 249); err != nil {
				return 0, err
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"trims keys", "key/any-text", func(d *twisted) { d.keys(strings.TrimSpace) }},
	{"folds the case of keys", "key/any-text", func(d *twisted) { d.keys(strings.ToLower) }},
	{"replaces bytes that are not UTF-8", "key/any-bytes", func(d *twisted) {
		d.keys(func(key string) string { return strings.ToValidUTF8(key, "\ufffd") })
	}},
	{"refuses bytes with an error of its own", "key/any-bytes", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if strings.Contains(key, "\x00") {
				return 0, errors.New("illegal character")
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
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
	{"blocks after the context has ended", "context/ends-meanwhile", func(d *twisted) {
		d.contexts(func(ctx context.Context) context.Context {
			if ctx.Err() != nil {
				return ctx
			}
			return context.WithoutCancel(ctx)
		})
	}},
	{"hides the context's error", "context/ends-meanwhile", func(d *twisted) {
		d.errs(func(_ string, err error) error {
			if errors.Is(err, context.DeadlineExceeded) {
				return errors.New("timeout")
			}
			return err
		})
	}},
	{"hides the store's error", "fault/own-error", func(d *twisted) {
		d.errs(func(_ string, err error) error {
			if errors.Is(err, errDown) {
				return fmt.Errorf("failed: %v", err)
			}
			return err
		})
	}},
	{"takes a store that is down for empty", "fault/own-error", func(d *twisted) {
		d.errs(func(_ string, err error) error {
			if errors.Is(err, errDown) {
				return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
			}
			return err
		})
	}},

	// Races: a read and a write with something in between
	{"reads, then inserts", "race/insert", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if _, ok := d.stored(key); ok {
				return d.reference.Insert(ctx, key, v, life, now)
			}
			slowly()
			return d.reference.Insert(ctx, key, v, life, driver.MaxInstant)
		}
	}},
	{"reads a dead record, then inserts", "race/insert-dead", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && !m.Alive(now) {
				slowly()
				now = driver.MaxInstant
			}
			return d.reference.Insert(ctx, key, v, life, now)
		}
	}},
	{"reads, then replaces", "race/replace", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m == was && m.Alive(now) {
				slowly()
				if m, ok := d.stored(key); ok {
					was = m
				}
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},
	{"reads, then touches", "race/touch", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m == was && was.CreatedAt != 0 && m.Alive(now) {
				slowly()
				if m, ok := d.stored(key); ok {
					was = m
				}
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"reads, then adopts", "race/adopt", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m.Life == was.Life && was.CreatedAt == 0 && m.Alive(now) {
				slowly()
				if m, ok := d.stored(key); ok {
					was = m
				}
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"touches by reading and writing the record", "race/touch-and-replace", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			e, err := d.reference.Get(ctx, key)
			if err != nil {
				return 0, err
			}
			if e.Meta != was {
				return d.reference.Touch(ctx, key, was, life, now)
			}
			slowly()
			if m, ok := d.stored(key); ok {
				was.Version = m.Version
			}
			version, err := d.reference.Touch(ctx, key, was, life, now)
			if err != nil {
				return version, err
			}
			return d.reference.Replace(ctx, key, e.Value, driver.Meta{Life: life, Version: version}, life, now)
		}
	}},
	{"reads, then puts", "race/delete", func(d *twisted) {
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if m, ok := d.stored(key); ok && m == was && m.Alive(now) {
				slowly()
				if _, ok := d.stored(key); !ok {
					return d.reference.Insert(ctx, key, v, life, now)
				}
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},

	// Upsert
	{"returns another life than it wrote", "upsert/absent", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			m, err := d.reference.Upsert(ctx, key, v, known, plan, now)
			m.CreatedAt = now - 1
			return m, err
		}
	}},
	{"upserts without its plan", "upsert/live", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			life, err := plan(nil)
			if err != nil {
				return driver.Meta{}, err
			}
			version, err := d.reference.Insert(ctx, key, v, life, driver.MaxInstant)
			return driver.Meta{Life: life, Version: version}, err
		}
	}},
	{"shows the plan dead records", "upsert/dead", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, _ driver.Instant) (driver.Meta, error) {
			return d.reference.Upsert(ctx, key, v, known, plan, never)
		}
	}},
	{"believes what its caller remembers", "upsert/remembered-wrong", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			return d.reference.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
				if found != nil && known != nil {
					found = known
				}
				return plan(found)
			}, now)
		}
	}},
	{"wraps the plan's error", "upsert/plan-fails", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			m, err := d.reference.Upsert(ctx, key, v, known, plan, now)
			if err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrInvalid) {
				err = fmt.Errorf("plan: %w", err)
			}
			return m, err
		}
	}},
	{"takes records without created_at for absent", "upsert/foreign", func(d *twisted) {
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			return d.reference.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
				if found != nil && found.CreatedAt == 0 {
					found = nil
				}
				return plan(found)
			}, now)
		}
	}},
	{"reads, plans, then puts", "upsert/race", func(d *twisted) { d.upsert = upsertInTwoSteps(d) }},
	{"undoes touches on upsert", "upsert/race-touch", func(d *twisted) {
		one := newLock() // one upsert at a time; other writes do not take it
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			one.Lock()
			defer one.Unlock()
			return upsertInTwoSteps(d)(ctx, key, v, known, plan, now)
		}
	}},

	// Overwrite
	{"keeps the created_at of the dead", "overwrite/none", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt != 0 {
				newLife.CreatedAt = m.CreatedAt
			}
			return d.overwriteRight(ctx, key, v, newLife, a, now)
		}
	}},
	{"knows no cap", "overwrite/none", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			a.Most = driver.MaxInstant
			return d.overwriteRight(ctx, key, v, newLife, a, now)
		}
	}},
	{"begins a new life each time", "overwrite/live", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt != 0 && m.ExpiresAt != 0 {
				_ = d.reference.Delete(ctx, key)
			}
			return d.overwriteRight(ctx, key, v, newLife, a, now)
		}
	}},
	{"brings an expiry down to what a new record would have", "overwrite/forward", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			m, err := d.overwriteRight(ctx, key, v, newLife, a, now)
			if err != nil || m.ExpiresAt <= newLife.ExpiresAt {
				return m, err
			}
			life := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: newLife.ExpiresAt}
			version, err := d.reference.Replace(ctx, key, v, m, life, now)
			return driver.Meta{Life: life, Version: version}, err
		}
	}},
	{"adopts what it overwrites", "overwrite/foreign", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			m, err := d.overwriteRight(ctx, key, v, newLife, a, now)
			var conflict *driver.ConflictError
			if errors.As(err, &conflict) {
				version, err := d.reference.Replace(ctx, key, v, conflict.Found, newLife, now)
				return driver.Meta{Life: newLife, Version: version}, err
			}
			return m, err
		}
	}},
	{"reads, then overwrites", "overwrite/race", func(d *twisted) {
		d.overwrite = func(ctx context.Context, key string, v Value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
			return upsertInTwoSteps(d)(ctx, key, v, nil, a.Overwrite(newLife, now), now)
		}
	}},

	// GetMulti
	{"reads absent keys as empty records in a batch", "batch/mixed", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			for _, k := range keys {
				if _, ok := found[k]; !ok && err == nil {
					found[k] = driver.Entry[Value]{}
				}
			}
			return found, err
		}
	}},
	{"reads the first hundred", "batch/many", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			return d.reference.GetMulti(ctx, keys[:min(len(keys), 100)])
		}
	}},
	{"leaves out records without created_at", "batch/foreign", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			for k, e := range found {
				if e.CreatedAt == 0 {
					delete(found, k)
				}
			}
			return found, err
		}
	}},
	{"leaves out keys it cannot take", "batch/invalid-key", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			if len(keys) == 1 {
				return d.reference.GetMulti(ctx, keys)
			}
			return d.reference.GetMulti(ctx, slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" }))
		}
	}},

	{"fails a whole batch for one key", "batch/invalid-key", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			var failed driver.KeyErrors
			if errors.As(err, &failed) {
				return nil, failed[0].Err
			}
			return found, err
		}
	}},
	{"leaves out records it cannot read", "batch/malformed", func(d *twisted) {
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			var failed driver.KeyErrors
			var invalid *driver.InvalidError
			if errors.As(err, &failed) && errors.As(failed[0], &invalid) && invalid.Field != "key" {
				err = nil
			}
			return found, err
		}
	}},

	// Latest
	{"shows what was before", "latest/written", func(d *twisted) {
		seen := make(map[string]driver.Entry[Value])
		var mu sync.Mutex
		d.latest = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			mu.Lock()
			defer mu.Unlock()
			if e, ok := seen[key]; ok {
				return e, nil
			}
			e, err := d.reference.Get(ctx, key)
			if err == nil {
				seen[key] = e
			}
			return e, err
		}
	}},
	{"finds nothing under an empty key", "latest/invalid-key", func(d *twisted) {
		d.latest = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			if key == "" {
				return driver.Entry[Value]{}, driver.ErrNotFound
			}
			return d.reference.Get(ctx, key)
		}
	}},

	// Remove
	{"removes nothing", "remove/live", func(d *twisted) {
		d.remove = func(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
			e, err := d.reference.Get(ctx, key)
			if err == nil && (e.Meta != was || !e.Alive(now)) {
				return d.removeRight(ctx, key, was, now)
			}
			return err
		}
	}},
	{"removes the dead", "remove/absent", func(d *twisted) {
		d.remove = func(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
			return d.removeRight(ctx, key, was, min(now, was.ExpiresAt-1))
		}
	}},
	{"removes whatever is there", "remove/changed", func(d *twisted) {
		d.remove = func(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
			if e, err := d.reference.Get(ctx, key); err == nil {
				was = e.Meta
			}
			return d.removeRight(ctx, key, was, now)
		}
	}},

	// ReadTouch
	{"reads, touches and does not say so", "readtouch/due", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			e, _, err := d.reference.ReadTouch(ctx, key, known, a, now)
			return e, false, err
		}
	}},
	{"touches at every read", "readtouch/not-due", func(d *twisted) {
		d.accesses(func(a driver.Access, _ driver.Instant) (driver.Access, driver.Instant) {
			a.Keep = driver.MaxInstant
			return a, 0
		})
	}},
	{"reads and touches past the cap", "readtouch/cap", func(d *twisted) {
		d.accesses(func(a driver.Access, now driver.Instant) (driver.Access, driver.Instant) {
			a.Most *= 2
			return a, now
		})
	}},
	{"reads and does not promote", "readtouch/promote", func(d *twisted) {
		d.accesses(func(a driver.Access, now driver.Instant) (driver.Access, driver.Instant) {
			a.Promote = false
			return a, now
		})
	}},
	{"reads and touches absent keys as empty records", "readtouch/absent", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			if errors.Is(err, driver.ErrNotFound) {
				err = nil
			}
			return e, touched, err
		}
	}},
	{"revives what it reads", "readtouch/dead", func(d *twisted) {
		d.accesses(func(a driver.Access, _ driver.Instant) (driver.Access, driver.Instant) { return a, never })
	}},
	{"reads and touches what it remembers", "readtouch/remembered-wrong", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			e, err := d.reference.Get(ctx, key)
			if err != nil || known == nil {
				return e, false, err
			}
			life, due := a.Touch(known.Life)
			if !due || !e.Alive(now) {
				return e, false, nil
			}
			e.Version, err = d.reference.Touch(ctx, key, e.Meta, life, now)
			e.Life = life
			return e, true, err
		}
	}},
	{"adopts what it reads", "readtouch/foreign", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			if m, ok := d.stored(key); ok && m.CreatedAt == 0 {
				if _, err := d.reference.Touch(ctx, key, m, driver.Life{CreatedAt: now, ExpiresAt: now + a.Stored}, now); err != nil {
					return driver.Entry[Value]{}, false, err
				}
			}
			return d.reference.ReadTouch(ctx, key, known, a, now)
		}
	}},
	{"reads a value, then touches what is there", "readtouch/race", func(d *twisted) {
		d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			read, err := d.reference.Get(ctx, key)
			if err != nil {
				return read, false, err
			}
			slowly()
			e, touched, err := d.reference.ReadTouch(ctx, key, known, a, now)
			e.Value = read.Value
			return e, touched, err
		}
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
		d.load = d.loadCopy
		d.slide = slideRight
		d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			e, err := d.reference.Get(ctx, key)
			if err == nil && e.Meta == was {
				slowly()
				e, err = d.reference.Get(ctx, key)
				was = e.Meta
			}
			if err != nil {
				return 0, err
			}
			return d.reference.Replace(ctx, key, v, was, life, now)
		}
	}},

	// Clock and Check
	{"revives by an earlier time", "clock/told", func(d *twisted) {
		d.reference.late, d.reference.trusts = true, true
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
		d.pages(func(p *driver.Page) {
			for i := range p.Records {
				p.Records[i].Version = 0
			}
		})
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
		d.pages(func(p *driver.Page) {
			for i := range p.Records {
				p.Records[i].Problem = nil
			}
		})
	}},
	{"takes any cursor", "scan/invalid", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			p, err := d.reference.Scan(ctx, from, limit)
			if errors.Is(err, driver.ErrInvalid) {
				return driver.Page{}, nil
			}
			return p, err
		}
	}},
	{"takes a failure for the end of the scan", "scan/error", func(d *twisted) {
		d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
			p, err := d.reference.Scan(ctx, from, limit)
			if errors.Is(err, errDown) {
				return driver.Page{}, nil
			}
			return p, err
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
			if errors.Is(err, driver.ErrNotFound) {
				return driver.Raw{}, nil
			}
			return r, err
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
		d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
			if _, err := d.reference.Mend(ctx, key, apply); err != nil {
				return "", err
			}
			return marred, nil
		}
	}},
	{"mends by a guess", "mend/doubt", func(d *twisted) {
		d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
			fault, err := d.reference.Mend(ctx, key, apply)
			if errors.Is(err, driver.ErrInvalid) && key != "" {
				return marred, nil
			}
			return fault, err
		}
	}},
	{"finds nothing wrong with what is absent", "mend/absent", func(d *twisted) {
		d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
			fault, err := d.reference.Mend(ctx, key, apply)
			if errors.Is(err, driver.ErrNotFound) {
				return "", nil
			}
			return fault, err
		}
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
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			r := *d.reference
			r.retain = 0
			return r.Touch(ctx, key, was, life, now)
		}
	}},
	{"leaves alone what a touch would end", "store/retire", func(d *twisted) {
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			if life.ExpiresAt <= now && life.ExpiresAt > now.Add(-time.Hour) {
				return was.Version, nil
			}
			return d.reference.Touch(ctx, key, was, life, now)
		}
	}},
	{"hides the dead after two reads", "store/history", func(d *twisted) {
		var mu sync.Mutex
		reads := make(map[string]int)
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := d.reference.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !e.Alive(driver.Floor(d.reference.time())) {
				if reads[key]++; reads[key] > 2 {
					return driver.Entry[Value]{}, driver.ErrNotFound
				}
			}
			return e, err
		}
	}},
	{"does not tell what it replaces", "store/replaced", func(d *twisted) {
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			return d.reference.Insert(driver.WithReplaced(ctx, func(driver.Meta) {}), key, v, life, now)
		}
	}},
	{"touches what is dead and retained", "retain/dead", func(d *twisted) {
		d.reference.trusts = true
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			return d.reference.Touch(ctx, key, was, life, now.Add(-d.reference.retain))
		}
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
		d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
			r := d.reference
			var goes driver.Instant
			r.change(key, func(rec *record) { goes = rec.goes })
			version, err := r.Touch(ctx, key, was, life, now)
			if err == nil && goes != was.ExpiresAt && r.retain == 0 {
				r.change(key, func(rec *record) { rec.goes = goes })
			}
			return version, err
		}
	}},
	{"remembers the expiry of what it retains", "retain/foreign", func(d *twisted) {
		r := d.reference
		var mu sync.Mutex
		own := make(map[string]driver.Instant)
		if r.retain == 0 {
			return
		}
		d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
			mu.Lock()
			defer mu.Unlock()
			own[key] = life.ExpiresAt
			return r.Insert(ctx, key, v, life, now)
		}
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			e, err := r.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if at, ok := own[key]; err == nil && ok && e.CreatedAt == 0 {
				e.ExpiresAt = at
			}
			return e, err
		}
	}},
	{"does not say how long it holds", "retain/scan", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			for i := range p.Records {
				p.Records[i].HeldUntil = 0
			}
		})
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
	note := func(key string, life driver.Life, err error) {
		if err == nil && r.retain > 0 {
			r.change(key, func(rec *record) { rec.beside = life.ExpiresAt })
		}
	}
	d.insert = func(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Insert(ctx, key, v, life, now)
		note(key, life, err)
		return version, err
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Replace(ctx, key, v, was, life, now)
		note(key, life, err)
		return version, err
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
		version, err := r.Touch(ctx, key, was, life, now)
		note(key, life, err)
		return version, err
	}
	d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
		m, err := r.Upsert(ctx, key, v, known, plan, now)
		note(key, m.Life, err)
		return m, err
	}
	d.readTouch = func(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
		e, touched, err := r.ReadTouch(ctx, key, known, a, now)
		if touched {
			note(key, e.Life, err)
		}
		return e, touched, err
	}
	d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
		e, err := r.Get(ctx, key)
		r.change(key, func(rec *record) {
			e.ExpiresAt = rec.goes
			if rec.beside != 0 && counts(*rec) {
				e.ExpiresAt = rec.beside
			}
		})
		return e, err
	}
}

// upsertInTwoSteps reads and then writes without a condition.
func upsertInTwoSteps(d *twisted) upsertFunc {
	return func(ctx context.Context, key string, v Value, _ *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
		if err := ctx.Err(); err != nil {
			return driver.Meta{}, err
		}
		var found *driver.Meta
		if m, ok := d.stored(key); ok && m.Alive(now) {
			found = &m
		}
		life, err := plan(found)
		if err != nil {
			return driver.Meta{}, err
		}
		slowly()
		r := d.reference
		if err := r.begin(ctx, key); err != nil {
			return driver.Meta{}, err
		}
		defer r.mu.Unlock()
		return driver.Meta{Life: life, Version: r.put(key, v, life, r.records[key].meta.Version)}, nil
	}
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
	isLocal := twist(newReference())
	b.twist(isLocal)
	lacks := remote
	switch {
	case isLocal.load != nil:
		lacks = nil
	case isLocal.clockless:
		lacks = noClock
	}
	return harness(func(r *reference) driver.Driver[Value] {
		d := twist(r)
		b.twist(d)
		switch {
		case d.slide != nil:
			return &slider{local: local{d}, loaded: make(map[*atomic.Int64]driver.Meta)}
		case d.load != nil:
			return local{d}
		case d.latest != nil:
			return latest{d}
		case d.remove != nil:
			return remover{d}
		case d.overwrite != nil:
			return overwriter{d}
		case d.clockless:
			return clockless{d, d}
		}
		return d
	}, lacks)
}
