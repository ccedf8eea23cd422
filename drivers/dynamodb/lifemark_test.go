package dynamodb

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// cutOff makes an overwrite of m, which shortens its life, and is cut off between its two writes.
func (tbl *table[T]) cutOff(t *testing.T, m driver.Meta, now driver.Instant) {
	t.Helper()
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "PutItem" {
			return nil, errors.New("cut off")
		}
		return send()
	})
	if _, err := tbl.Replace(t.Context(), "k", *new(T), m, lasting(5*time.Minute), now); !errors.Is(err, driver.ErrAmbiguous) {
		t.Fatal(err)
	}
	tbl.wire.reset()
}

// The mark of an overwrite that was cut off goes, though Inserts over dead records come more often than it lasts.
func TestMarkGoesThoughInsertsCome(t *testing.T) {
	tbl := open[session](t, apartly())
	now := base
	tbl.clock = func() time.Time { return now.Time() }
	m := tbl.mustInsert(t, "k", session{User: "ann"}, lasting(10*time.Minute), base)
	tbl.cutOff(t, m, base)
	for n := range 6 { // lives of 20 minutes that nobody touches, over five hours
		now = base.Add(time.Duration(n+1) * 50 * time.Minute)
		m = tbl.mustInsert(t, "k", session{User: "ann"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(20 * time.Minute)}, now)
	}
	was := tbl.raw(t, "k")
	tbl.wire.reset()
	now = now.Add(10 * time.Minute)
	tbl.mustTouch(t, "k", m, driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now.Add(20 * time.Minute)}, now)
	if is := tbl.raw(t, "k"); !reflect.DeepEqual(is, was) {
		t.Errorf("five hours after the overwrite, and after no touch, a touch writes the value's item by %v", tbl.wire.counts)
	}
}

// It goes though touches come more often than it lasts: the first one writes the value's item, and the others do not.
func TestMarkGoesThoughTouchesCome(t *testing.T) {
	tbl := open[session](t, apartly())
	now := base
	tbl.clock = func() time.Time { return now.Time() }
	m := tbl.mustInsert(t, "k", session{User: "ann"}, lasting(20*time.Minute), base)
	tbl.cutOff(t, m, base)
	for n := range 12 { // over two hours
		now = base.Add(time.Duration(n+1) * 10 * time.Minute)
		was := tbl.raw(t, "k")
		m = tbl.mustTouch(t, "k", m, lasting(now.Sub(base)+20*time.Minute), now)
		if is := tbl.raw(t, "k"); n > 0 && !reflect.DeepEqual(is, was) {
			t.Errorf("touch %d after the overwrite writes the value's item", n)
		}
	}
	tbl.wire.reset()
	now = now.Add(10 * time.Minute)
	tbl.mustTouch(t, "k", m, lasting(now.Sub(base)+20*time.Minute), now)
	if tbl.wire.counts["UpdateItem"] != 1 || len(tbl.wire.counts) != 1 {
		t.Errorf("two hours after the overwrite a touch makes the requests %v, want one UpdateItem", tbl.wire.counts)
	}
}

// Beside an Insert over a dead record that an overwrite had marked, a touch of the former life does not land, and a
// Delete ends the new one. The former life's touch is of a process whose clock is behind.
func TestInsertOverMark(t *testing.T) {
	for name, marked := range map[string]bool{"not marked": false, "marked": true} {
		dead := func(t *testing.T) (tbl *table[session], m driver.Meta, now driver.Instant) {
			tbl = open[session](t, apartly())
			now = base
			tbl.clock = func() time.Time { return now.Time() }
			m = tbl.mustInsert(t, "k", session{User: "ann"}, lasting(10*time.Minute), base)
			m = tbl.mustTouch(t, "k", m, lasting(12*time.Minute), base.Add(time.Minute)) // so that there is a life item
			if marked {
				tbl.cutOff(t, m, base.Add(time.Minute))
			}
			now = base.Add(12*time.Minute + 5*time.Second)
			return tbl, m, now
		}
		life := func(now driver.Instant, lasts time.Duration) driver.Life {
			return driver.Life{CreatedAt: now, ExpiresAt: now.Add(lasts)}
		}
		t.Run("a touch that is late, "+name, func(t *testing.T) {
			tbl, m, now := dead(t)
			fresh := tbl.mustInsert(t, "k", session{User: "bob"}, life(now, 10*time.Minute), now)
			behind := now.Add(-20 * time.Second)
			other := tbl.like(t, func(*Options) {})
			other.clock = func() time.Time { return behind.Time() }
			if _, err := other.Touch(t.Context(), "k", m, driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: behind.Add(10 * time.Minute)}, behind); err == nil {
				t.Error("a touch of the former life has landed")
			}
			if e, err := tbl.Latest(t.Context(), "k"); err != nil || e.Meta != fresh {
				t.Errorf("the record is %+v, %v; want %+v", e, err, fresh)
			}
		})
		t.Run("a deletion under way, "+name, func(t *testing.T) {
			tbl, _, now := dead(t)
			inserter := tbl.like(t, func(*Options) {})
			inserter.clock = tbl.clock
			var fresh driver.Meta
			tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
				if op == "DeleteItem" {
					fresh = inserter.mustInsert(t, "k", session{User: "bob"}, life(now, 10*time.Minute), now)
					fresh = inserter.mustTouch(t, "k", fresh, life(now, 11*time.Minute), now)
				}
				return send()
			})
			if err := tbl.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			tbl.wire.reset()
			at := now.Add(time.Minute)
			v, err := inserter.Touch(t.Context(), "k", fresh, life(now, 13*time.Minute), at)
			if !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("a touch of the record that was deleted: %v, %v; want ErrNotFound", v, err)
			}
		})
	}
}

// An Upsert by a process that remembers the record as it was before its life stood apart does not adopt it where
// created_at was damaged since.
func TestUpsertOverUnreadableCreatedAt(t *testing.T) {
	for name, av := range map[string]types.AttributeValue{"removed": nil, "text": text("yesterday")} {
		tbl := open[session](t, apartly())
		m := tbl.like(t, inValue).mustInsert(t, "k", session{User: "ann"}, lasting(30*time.Minute), base) // the roll-out's first step
		apart := tbl.mustTouch(t, "k", m, lasting(time.Hour), base)                                       // the second, by another process
		tbl.mustTouch(t, "k", apart, lasting(2*time.Hour), base.Add(time.Minute))
		item := tbl.raw(t, "k")
		if item["created_at"] = av; av == nil {
			delete(item, "created_at")
		}
		tbl.put(t, "k", item)
		now := base.Add(10 * time.Minute)
		_, err := tbl.Upsert(t.Context(), "k", session{User: "eve"}, &m, func(found *driver.Meta) (driver.Life, error) {
			if found == nil || found.CreatedAt == 0 {
				return driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, nil
			}
			return driver.Life{CreatedAt: found.CreatedAt, ExpiresAt: base.Add(2 * time.Hour)}, nil
		}, now)
		if !errors.Is(err, driver.ErrInvalid) {
			e, _ := tbl.Latest(t.Context(), "k")
			t.Errorf("created_at %s: Upsert returns %v; the record, created at 0s and living until 2h, is now %s, created at %v, until %v",
				name, err, e.Value.User, e.CreatedAt.Sub(base), e.ExpiresAt.Sub(base))
		}
	}
}
