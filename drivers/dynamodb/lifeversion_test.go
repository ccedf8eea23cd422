package dynamodb

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A version that another program has removed is none, as without a life table, and a number of its own is
// touched with one request.
func TestLifeTableVersionOfAnother(t *testing.T) {
	for _, version := range []types.AttributeValue{nil, &types.AttributeValueMemberNULL{Value: true}, number("77"), text("v1")} {
		tbl := open[session](t, apartly())
		retouched := func(key string) (m driver.Meta) {
			_, item := tbl.touchedForAnHour(t, key, session{User: "ann"})
			if delete(item, versionName); version != nil {
				item[versionName] = version
			}
			tbl.put(t, key, item)
			m = tbl.mustGet(t, key).Meta
			for i := range 3 {
				tbl.wire.reset()
				m = tbl.mustTouch(t, key, m, lasting(time.Duration(i+2)*time.Hour), base)
				if _, whole := version.(*types.AttributeValueMemberN); whole && i > 0 {
					tbl.wire.want(t, "touched again", "UpdateItem")
				}
				tbl.wantMeta(t, "touched", key, m)
			}
			return m
		}
		m := retouched("replaced")
		var err error
		m.ExpiresAt = base.Add(20 * time.Hour)
		if m.Version, err = tbl.Replace(t.Context(), "replaced", session{User: "bob"}, tbl.mustGet(t, "replaced").Meta, m.Life, base); err != nil {
			t.Fatalf("%T: Replace: %v", version, err)
		}
		tbl.wantMeta(t, "replaced", "replaced", m)
		if err := tbl.Remove(t.Context(), "removed", retouched("removed"), base); err != nil {
			t.Errorf("%T: Remove: %v", version, err)
		}
		m = retouched("moved")
		moved := tbl.like(t, inValue)
		m = moved.mustTouch(t, "moved", m, lasting(9*time.Hour), base)
		if e := moved.mustGet(t, "moved"); e.Life != m.Life {
			t.Errorf("%T: moved to the value: %+v", version, e.Life)
		}
		now := retouched("dead").ExpiresAt.Add(time.Minute)
		m = tbl.mustInsert(t, "dead", session{User: "eve"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute)}, now)
		tbl.wantMeta(t, "over a dead one", "dead", m)
	}
}
