package dynamodb

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// An overwrite that brings an earlier expiry leaves a record whose touches and reads cost what they cost
// before, also after one that was refused, and whose expiry another program's version does not change.
func TestLifeTableShortened(t *testing.T) {
	for _, refusedFirst := range []bool{false, true} {
		for _, touched := range []bool{false, true} {
			tbl := open[session](t, apartly())
			m := tbl.mustInsert(t, "k", session{User: "member"}, lasting(2*time.Hour), base)
			if touched {
				m = tbl.mustTouch(t, "k", m, lasting(10*time.Hour), base)
			}
			shorten := func() (err error) {
				is := driver.Meta{Life: lasting(10 * time.Minute)}
				if is.Version, err = tbl.Replace(t.Context(), "k", session{User: "guest"}, m, is.Life, base); err == nil {
					m = is
				}
				return err
			}
			if refusedFirst {
				tbl.wire.between(refuse("PutItem"))
				if err := shorten(); !errors.Is(err, driver.ErrRefused) {
					t.Fatal(err)
				}
				tbl.wantMeta(t, "refused", "k", m)
			}
			tbl.wire.reset()
			if err := shorten(); err != nil {
				t.Fatal(err)
			}
			requests := []string{"UpdateItem", "PutItem", "UpdateItem"}
			if refusedFirst && !touched { // the life item has no life yet
				requests = append(requests, "GetItem", "UpdateItem")
			}
			tbl.wire.want(t, "an overwrite that shortens", requests...)
			tbl.wantMeta(t, "shortened", "k", m)
			tbl.wire.want(t, "a read", "BatchGetItem")
			m = tbl.mustTouch(t, "k", m, lasting(12*time.Minute), base)
			tbl.wire.want(t, "a touch", "UpdateItem")
			item := tbl.raw(t, "k")
			for _, version := range []types.AttributeValue{number("77"), nil} {
				if delete(item, versionName); version != nil {
					item[versionName] = version
				}
				tbl.put(t, "k", item)
				if e := tbl.mustGet(t, "k"); e.Life != m.Life {
					t.Errorf("after another program's version it reads as %+v; want %+v", e.Life, m.Life)
				}
			}
		}
	}
}

// Two processes with different Holds, each of which is long enough for its own policy.
func TestLifeTableTwoHolds(t *testing.T) {
	const day = 24 * time.Hour
	long := open[session](t, &Options{LifeTable: "of its own", Hold: 90 * day})
	short := long.like(t, func(o *Options) { o.Hold = 7 * day })
	for name, at := range map[string]time.Duration{"retired": -time.Second, "touched": 40 * day} {
		long.mustInsert(t, name, session{}, lasting(30*day), base)
		m := short.mustTouch(t, name, short.mustGet(t, name).Meta, lasting(at), base)
		if e := long.mustGet(t, name); e.Life != m.Life {
			t.Errorf("%s: it reads as %+v", name, e.Life)
		}
		held, _ := parseExpiry("ttl", long.raw(t, name)["ttl"])
		if ttl, err := parseExpiry("ttl", long.lifeItemOf(t, name)["ttl"]); err != nil || ttl < held.Add(lifeLasts) {
			t.Errorf("%s: the life item is held until %v, the value until %v; %v", name, ttl.Time(), held.Time(), err)
		}
	}
}
