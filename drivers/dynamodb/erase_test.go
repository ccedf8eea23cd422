package dynamodb

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// An erasure says that the life table keeps the keys of what is gone.
func TestEraseNamesLifeTable(t *testing.T) {
	tbl := open[session](t, apartly())
	now := driver.Floor(time.Now())
	l := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}
	v, err := tbl.Insert(t.Context(), "user:42:a", session{User: "42"}, l, now)
	if err != nil {
		t.Fatal(err)
	}
	tbl.mustTouch(t, "user:42:a", driver.Meta{Life: l, Version: v}, driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt.Add(time.Hour)}, now)
	r, err := upkeep.Erase[session](t.Context(), tbl.Driver, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Apply: true}, Prefix: "user:42:"})
	if err != nil || r.Erased != 1 || r.Missed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := tbl.Raw(t.Context(), "user:42:a"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("the record: %v", err)
	}
	if held := tbl.lifeItemOf(t, "user:42:a") != nil; held != (len(r.Left) == 1 && strings.Contains(r.Left[0], tbl.opts.LifeTable)) {
		t.Errorf("it is held: %v, and the report says %q", held, r.Left)
	}
	without := open[session](t, nil)
	if left := without.Scrub(t.Context(), nil); left != nil {
		t.Errorf("without a life table: %q", left)
	}
}
