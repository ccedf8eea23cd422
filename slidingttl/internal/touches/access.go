package touches

import (
	"cmp"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
)

// Access is an access to a live record that found a touch due.
type Access struct {
	Key     string
	Was     driver.Meta    // the record that was read
	Before  driver.Life    // the life that a save overwrote and the record keeps, as far as Rules allow
	Rules   *rules.Rules   // the record's rules
	At      driver.Instant // time of the access, rounded up: its promise counts from here
	DueFrom driver.Instant // At plus the store's share of the slack: a touch is due if the promise from here is not kept
	Birth   driver.Instant // created_at for a record that has none
	Since   uint64         // the memo's clock before the record was read
	Exact   bool           // only for this version, if the record has no created_at
	Saved   bool           // the record was just saved: one without created_at is new, and not adopted, and with Promote this is no read
}

// keeps reports whether m, of the same generation, lasts as long as a promises.
func (a *Access) keeps(m driver.Meta) bool {
	return !a.Rules.Due(m.Life, a.DueFrom) && !restores(m.Life, a.Before)
}

// unlike reports whether the record that a has read may be another one than the one that a touch has found like it: a
// save that wipes the life of a record without created_at leaves what looks the same.
func (a *Access) unlike() bool { return a.Was.CreatedAt == 0 && !a.Exact }

// restores reports whether a touch puts back the expiry of before, the life that the record had until
// a save wiped it and left l: others may rely on it.
func restores(l, before driver.Life) bool {
	return before.CreatedAt != 0 && l.ExpiresAt < before.ExpiresAt && (l.CreatedAt == 0 || l.CreatedAt == before.CreatedAt)
}

// lowers reports whether a's touch lowers the expiry.
func (a *Access) lowers() bool { return a.keeps(a.Was) }

// alive reports whether a promises anything. A read has found its record alive, and an entry may have died since.
func (a *Access) alive() bool { return !a.Exact || a.Was.Alive(a.Birth) }

// dies is when the record dies without a's touch.
func (a *Access) dies() driver.Instant {
	if a.Was.ExpiresAt == 0 {
		return driver.MaxInstant
	}
	return a.Was.ExpiresAt
}

// promised is when the record dies by the promise of an access at at. Never: it is past its cap, or its rules are not
// known.
func (a *Access) promised(at driver.Instant) driver.Instant {
	if a.Rules == nil {
		return driver.MaxInstant
	}
	if dies := a.Rules.Deadline(cmp.Or(a.Was.CreatedAt, a.Birth), at); dies > at {
		return dies
	}
	return driver.MaxInstant
}

// left is the time until the record dies without a's touch; the longest Duration if it never does.
func (a *Access) left(now driver.Instant) time.Duration { return a.dies().Sub(now) }

// merge makes t serve later as well. The later access's promise covers both. If only one of the two
// lowers the expiry, the record is read again. A life that a save carries over stays with the Meta
// of what it saved, and a read among them stays a read.
func (t *touch) merge(later Access) {
	t.readFirst = t.readFirst || t.lowers() != later.lowers()
	later.Key = t.Key
	first := t.Access
	if later.At >= t.At {
		t.Access, t.came = later, time.Now()
	} else {
		first = later
	}
	outlived := t.Saved && t.Rules.Cap(first.Before.CreatedAt) <= t.At // so that the save begins a life
	if first.Was == t.Was && t.Before.CreatedAt == 0 && !outlived {
		t.Before = first.Before
	}
	if promised := t.promised(later.At); t.dies() < promised { // else it adopts or lowers, and is late by the first access
		t.by = promised
	}
	t.Exact, t.Saved = t.Exact && first.Exact, t.Saved && first.Saved
}

// Outcome is a touch's result.
type Outcome struct {
	Was      driver.Meta    // the record it was planned for
	Replaced driver.Meta    // the record it replaced; zero: it was not written
	Meta     driver.Meta    // the record stored after it
	Cap      driver.Instant // that record's cap
	Err      error
	result   Result
	tried    bool // the touch was sent
	again    bool // it failed, and is tried again
}

// Broke reports whether a promise was broken. A record that is gone needs no touch, unless it died first, and one
// that is locked gets it later.
func (o *Outcome) Broke() bool {
	return o.result == Shed || o.Err != nil && !o.lost() && !errors.Is(o.Err, driver.ErrLocked)
}

func (o *Outcome) lost() bool { return o.Err == ErrGone || o.Err == ErrReplaced }

// failed reports whether the touch failed and may succeed later.
func (o *Outcome) failed() bool {
	return o.Broke() && !errors.Is(o.Err, driver.ErrInvalid) && !errors.Is(o.Err, ErrClosed)
}

// serves reports whether a touch that ended with o did what a needs: it was for a's life, and a has
// read either the record that it was planned for or the one that it replaced. What a has read else
// may last longer than what this touch wrote, and what is to be lowered may still have to be.
func (o *Outcome) serves(a *Access) bool {
	switch {
	case o.result == none:
		return false
	case o.lost(): // the next record may look like one without created_at: a version may be a hash of the content
		return o.Was == a.Was && a.Was.CreatedAt != 0
	case o.Err != nil:
		return sameLife(o.Was, a.Was)
	case o.Meta.CreatedAt != a.Was.CreatedAt && a.Was.CreatedAt != 0:
		return false
	}
	return (o.Was == a.Was || o.Replaced == a.Was) && a.keeps(o.Meta) && a.Rules.Alive(o.Meta.Life, a.At) && !a.lowers()
}

// sameLife reports whether a and b are of one life. Of records without created_at only the version
// tells, and without that the expiry.
func sameLife(a, b driver.Meta) bool {
	if a.CreatedAt != 0 || b.CreatedAt != 0 {
		return a.CreatedAt == b.CreatedAt
	}
	return a.Version == b.Version && (a.Version != 0 || a == b)
}
