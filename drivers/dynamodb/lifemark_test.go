package dynamodb

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The mark of an overwrite that was cut off goes, though Inserts over dead records come more often than it lasts.
func TestMarkGoesThoughInsertsCome(t *testing.T) {
	tbl := open[session](t, apartly())
	now := base
	tbl.clock = func() time.Time { return now.Time() }
	m := tbl.mustInsert(t, "k", session{User: "ann"}, lasting(10*time.Minute), base)
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "PutItem" {
			return nil, errors.New("cut off")
		}
		return send()
	})
	if _, err := tbl.Replace(t.Context(), "k", session{User: "guest"}, m, lasting(5*time.Minute), base); !errors.Is(err, driver.ErrAmbiguous) {
		t.Fatal(err)
	}
	tbl.wire.reset()
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
