package touches

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A deletion concerns the accesses of its key that began before.
func TestDeletionConcernsEarlierAccesses(t *testing.T) {
	f := newFixture(Config{})
	before := f.Memo.Clock()
	f.Deleted(t.Context(), "k", f.Deletes("k"), true, false)
	deleted, gone := f.DeletedSince("k", before)
	if later, _ := f.DeletedSince("k", f.Memo.Clock()); !deleted || !gone || later {
		t.Error("it concerns the wrong accesses of its key")
	}
	for i := range 100 * len(f.deletions) { // some have its place
		if deleted, _ := f.DeletedSince(fmt.Sprint(i), before); deleted {
			t.Errorf("it concerns key %d", i)
		}
	}
}

// An access is before a deletion if it read its record before that began, however short the time between.
func TestDeletionTellsEarlierAccesses(t *testing.T) {
	f := newFixture(Config{})
	before := Access{Since: f.Memo.Clock()}
	d := f.Deletes("k")
	after := Access{Since: f.Memo.Clock()}
	if !d.before(&before) || d.before(&after) {
		t.Errorf("the access before it is before it: %v, the one after it: %v", d.before(&before), d.before(&after))
	}
}

// What waits for a touch whose record was deleted meanwhile serves the accesses of that one too: the deletion may be
// rolled back.
func TestNextTouchServesAnOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{})
		m := driver.Meta{Life: driver.Life{ExpiresAt: driver.Floor(time.Now()).Add(50 * time.Second)}, Version: 1}
		f.stored.Store(&m)
		f.down.Store(true)
		f.slow.Store(true)
		access := func(exact bool) {
			var a Access
			if !f.Due(&a, time.Now(), "k", m, minute, driver.Life{}, f.Memo.Clock()) {
				t.Error("no touch is due")
			}
			a.Exact = exact
			f.TouchOrQueue(t.Context(), &a, f.Late(), false)
		}
		go access(false)
		synctest.Wait()
		go access(true)
		synctest.Wait()
		f.Deleted(driver.WithUndo(t.Context()), "k", f.Deletes("k"), false, false)
		time.Sleep(30 * time.Millisecond) // the first one has failed
		f.lock()
		if n := f.keys["k"].running; n == nil || n.Exact {
			t.Errorf("what runs is %+v", n)
		}
		f.unlock()
		f.down.Store(false)
		time.Sleep(time.Minute)
	})
}
