//go:build !race

// The processes of a schedule take turns in one goroutine, so that the race detector would see nothing.

package dynamodb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The explorer plays small programs of two or three processes through every order in which their accesses of
// the two tables can take effect, with crashes, lost answers, resends, clocks apart, stale reads, and
// deletions by TTL in either order. What it plays is the driver's own code over toy tables. Each answer
// must be one that the contract allows.

const (
	toyValues = "values"
	toyLives  = "lives"

	idle = 2 // ticks that an access promises

	never int8 = 99 // the expiry of a record that has none
)

// tickZero is the instant of tick 0. A tick is a second.
const tickZero driver.Instant = 1_700_000_000_000

func instant(tick int8) driver.Instant {
	if tick == never {
		return 0
	}
	return tickZero + driver.Instant(tick)*1000
}

func tickOf(i driver.Instant) int8 {
	if i == 0 {
		return never
	}
	return int8((i - tickZero) / 1000)
}

// born returns the created_at of a life that a call begins.
func (o *call) born() driver.Instant {
	if o.distinct {
		return instant(o.now) + driver.Instant(o.id)
	}
	return instant(o.now)
}

type kind int8

const (
	get      kind = iota
	staleGet      // as a store reads: eventually consistent, and again if that seems dead
	keep          // get, then a touch of what was read
	insert
	upsert
	upsertKnown // over what this process remembers
	update
	shorten // an overwrite that brings an earlier expiry with it, of what was just read
	touch
	lower // a touch to an earlier expiry, of what was just read
	remove
	removeEntry
	retire
	kinds      // the rest is for menus that name it
	foreign    // another program writes the value, with a version of its own
	bare       // another program writes the value, and removes the version
	insertLong // to a later expiry than accesses promise
	reborn     // an overwrite that gives what this process remembers another created_at
	touchLong  // to a later expiry than accesses promise
	erase      // the end of an erasure, which removes the life item of a record that is gone
)

var kindNames = [...]string{"Get", "StaleGet", "GetTouch", "Insert", "Upsert", "UpsertKnown", "Update", "Shorten", "Touch", "Lower", "Delete", "Remove", "Retire", "", "Foreign", "Bare", "InsertLong", "Reborn", "TouchLong", "Erase"}

const long = 6 // ticks that insertLong and touchLong promise

// promises returns for how many ticks a call promises its record.
func (k kind) promises() int8 {
	if k == insertLong || k == touchLong {
		return long
	}
	return idle
}

// known is what a process remembers of a record.
type known struct {
	meta     driver.Meta
	gen, val int8
}

func (m *known) ticks() (c, e int8) { return tickOf(m.meta.CreatedAt), tickOf(m.meta.ExpiresAt) }

// call is one call of a process.
type call struct {
	kind      kind
	id, now   int8
	lifeFirst bool // how the tables serve a batch
	distinct  bool
	m         known
}

// verdict is how a call ends.
type verdict int8

const (
	noAnswer verdict = iota
	done
	none
	exists
	conflict
	gaveUp // it failed, and has not taken effect
	unclear
)

var verdictNames = [...]string{"-", "ok", "none", "exists", "conflict", "gave up", "unclear"}

// ending is a call's answer.
type ending struct {
	v               verdict
	val, c, e, base int8
	m               known
}

// history is the results of a call's accesses so far.
type history struct {
	results []result
	next    map[result]int // numbers of longer histories
}

// abstract is the contract's record.
type abstract struct {
	exists         bool
	gen, c, e, val int8
	lowered        bool // a touch has brought its expiry back, maybe to what it was before another
}

// pending is a call that has not been answered, and what it has done if it has taken effect.
type pending struct {
	on, done     bool
	kind         kind
	id, now      int8
	mGen, mC     int8
	mE, mVal     int8
	v            verdict
	val, c, e, b int8
	gen          int8
}

// configuration is one way to explain all answers so far. It has no padding and no pointers.
type configuration struct {
	a    abstract
	p    [4]pending  // of three processes, and a call that was cut off
	seen [3]abstract // what a, in this tick, was before: for stale reads
}

func (c *configuration) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c))
}

type process struct {
	calls         int8
	busy, crashed bool
	unsure        bool // the access that is next was sent once, without an answer
	op            call
	history       int
	memory        known
}

type state struct {
	items  [2]int // of the value and of the life
	before [2]int // what they were before the last write of this tick; -1: no such write
	p      [3]process
	t      int8
	faults int8
	cfg    int // index in sets
}

type settings struct {
	calls, ticks, faults int
	skew                 int8 // of the others' clock against that of the first
	stale                bool // eventually consistent reads may be one write behind
	refuses              bool // a fault may be a refusal of a write, too
	hold                 int
	longer               int // what the second process has in place of hold; 0: the same
	lifeLasts            int // 0: 3
	menu                 []kind
	menus                [3][]kind // of each process, in place of menu; the third has no other
	mixed                bool      // the second process writes lives to the values' table
	distinct             bool      // no two lives begin in one millisecond
}

type step struct {
	done bool
	out  ending
	next access
}

type explorer struct {
	settings
	items     *interned
	histories []history
	sets      [][]configuration
	setIDs    map[fingerprint]int
	expanded  map[[2]int]int
	replays   map[replayKey]step
	drivers   [3]*Driver[attrs]
	client    *toyClient
	answers   map[string]int

	oneGeneration bool // each life draws the same
}

type replayKey struct {
	p       int
	op      call
	history int
}

func newExplorer(t testing.TB, s settings) *explorer {
	t.Helper()
	x := &explorer{
		settings: s, items: newInterned(), histories: []history{{next: map[result]int{}}},
		setIDs: map[fingerprint]int{}, expanded: map[[2]int]int{}, replays: map[replayKey]step{}, answers: map[string]int{},
	}
	x.client = &toyClient{items: x.items}
	for i := range x.drivers {
		hold := s.hold
		if i == 1 {
			hold = cmp.Or(s.longer, hold)
		}
		d, err := newDriver[attrs](x.client, toyValues, &Options{LifeTable: toyLives, Hold: time.Duration(hold) * time.Second, MaxSkew: time.Second, LifeInValue: s.mixed && i == 1})
		if err != nil {
			t.Fatal(err)
		}
		d.doubtLasts, d.lifeLasts = 3*time.Second, time.Duration(cmp.Or(s.lifeLasts, 3))*time.Second
		x.drivers[i] = d
	}
	return x
}

func (x *explorer) skewOf(p int) int8 {
	if p == 0 {
		return 0
	}
	return x.skew
}

type yield struct{}

// replay runs a call of process p up to its first access that history does not answer.
func (x *explorer) replay(p int, op call, h int) (s step) {
	key := replayKey{p, op, h}
	if s, ok := x.replays[key]; ok {
		return s
	}
	results, now, drawn := x.histories[h].results, op.now, driver.Version(0)
	d := x.drivers[p]
	d.clock = func() time.Time { return instant(now).Time() }
	d.draw = func(most driver.Version) driver.Version {
		drawn++
		v := driver.Version(op.id)*16 + drawn
		if most == maxVersion-1 { // of a new generation
			g := op.id
			if x.oneGeneration {
				g = 1
			}
			v |= driver.Version(g) << generationShift
		}
		return v
	}
	x.client.lifeFirst = op.lifeFirst
	x.client.late = func(ctx context.Context) int {
		if end, ok := ctx.Deadline(); ok {
			return int(op.now) + int((time.Until(end)+time.Second/2)/time.Second)
		}
		return 0
	}
	x.client.do = func(a access) result {
		if len(results) == 0 {
			s.next = a
			panic(yield{})
		}
		r := results[0]
		results, now = results[1:], r.now
		return r
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(yield); !ok {
				panic(r)
			}
		}
		x.replays[key] = s
	}()
	s.out, s.done = play(d, op), true
	return s
}

// run executes a call at once, on the tables alone.
func (x *explorer) run(items *[2]int, op call) ending {
	h := 0
	for {
		s := x.replay(0, op, h)
		if s.done {
			return s.out
		}
		h = x.longer(h, x.land(items, s.next, op.now))
	}
}

// cutOff executes a call up to its first write of the value.
func (x *explorer) cutOff(items *[2]int, op call) {
	for h := 0; ; {
		s := x.replay(0, op, h)
		if s.done || s.next.write != nil && !s.next.life {
			return
		}
		h = x.longer(h, x.land(items, s.next, op.now))
	}
}

// land executes an access.
func (x *explorer) land(items *[2]int, a access, now int8) result {
	place := 0
	if a.life {
		place = 1
	}
	r := result{item: items[place], ok: true, now: now}
	if a.write != nil {
		var after attrs
		if after, r.ok = a.write(x.items.items[r.item]); r.ok {
			items[place] = x.items.id(after)
		}
	}
	return r
}

func (x *explorer) longer(h int, r result) int {
	next, ok := x.histories[h].next[r]
	if !ok {
		next = len(x.histories)
		x.histories = append(x.histories, history{append(slices.Clone(x.histories[h].results), r), map[result]int{}})
		x.histories[h].next[r] = next
	}
	return next
}

const toyKey = "k"

func valueOf(id int8) attrs { return attrs{"val": number(fmt.Sprint(id))} }

func idOf(v attrs) (id int8) {
	_, _ = fmt.Sscan(plain(v["val"]), &id)
	return id
}

// knownOf is what a process remembers of a record whose value is from the call val.
func knownOf(m driver.Meta, val int8) known {
	k := known{meta: m, val: val}
	if born := int8(m.CreatedAt % 1000); born != 0 {
		k.gen = born
	} else if m.CreatedAt != 0 {
		k.gen = int8(generationOf(m.Version))
	}
	return k
}

func failureOf(err error) ending {
	switch {
	case errors.Is(err, driver.ErrAmbiguous):
		return ending{v: unclear}
	case errors.Is(err, driver.ErrNotFound):
		return ending{v: none}
	case errors.Is(err, driver.ErrConflict):
		return ending{v: conflict}
	}
	return ending{v: gaveUp}
}

// play makes a call as the core does.
func play(d *Driver[attrs], op call) ending {
	ctx, now := context.Background(), instant(op.now)
	fresh := driver.Life{CreatedAt: op.born(), ExpiresAt: instant(op.now + op.kind.promises())}
	kept := func(l driver.Life) driver.Life {
		if l.CreatedAt == 0 {
			return fresh
		}
		l.ExpiresAt = max(l.ExpiresAt, fresh.ExpiresAt)
		return l
	}
	wrote := func(m driver.Meta, base int8) ending {
		c, e := tickOf(m.CreatedAt), tickOf(m.ExpiresAt)
		return ending{v: done, val: op.id, c: c, e: e, base: base, m: knownOf(m, op.id)}
	}
	read := func(e driver.Entry[attrs]) ending {
		m := knownOf(e.Meta, idOf(e.Value))
		c, at := m.ticks()
		if e.CreatedAt == 0 {
			c = 0
		}
		return ending{v: done, val: m.val, c: c, e: at, m: m}
	}
	touched := func(m known) ending {
		for range 4 {
			life := kept(m.meta.Life)
			if life == m.meta.Life {
				c, e := m.ticks()
				return ending{v: done, c: c, e: e, m: m}
			}
			version, err := d.Touch(ctx, toyKey, m.meta, life, now)
			var met *driver.ConflictError
			switch {
			case err == nil:
				is := knownOf(driver.Meta{Life: life, Version: version}, m.val)
				c, e := is.ticks()
				return ending{v: done, c: c, e: e, m: is}
			case errors.As(err, &met) && met.Found.CreatedAt == m.meta.CreatedAt && met.Found.Version == m.meta.Version && met.Found.Alive(now):
				m.meta = met.Found
			case errors.As(err, &met):
				return ending{v: gaveUp} // another record, or another value: the core reads again
			default:
				return failureOf(err)
			}
		}
		return ending{v: gaveUp}
	}
	switch op.kind {
	case get, staleGet:
		e, err := d.get(ctx, toyKey, op.kind == get)
		if op.kind == staleGet && err == nil && !e.Alive(now) {
			e, err = d.Latest(ctx, toyKey)
		}
		if err != nil {
			return failureOf(err)
		}
		if !e.Alive(now) {
			return ending{v: none}
		}
		return read(e)
	case keep:
		e, err := d.Latest(ctx, toyKey)
		if err != nil {
			return failureOf(err)
		}
		if !e.Alive(now) {
			return ending{v: none}
		}
		out := read(e)
		t := touched(out.m)
		switch t.v {
		case done:
			out.c, out.e, out.m = t.c, t.e, t.m
			return out
		case none:
			return ending{v: gaveUp} // another record is there, or none: the core reads again
		}
		return t
	case foreign, bare:
		update, condition := "SET #val = :val, #v = :v", "attribute_exists(#k)"
		values := attrs{":val": number(fmt.Sprint(op.id)), ":v": number(fmt.Sprint(70 + op.id))}
		if op.kind == bare { // not twice: nobody could tell the two values apart
			update, condition = "SET #val = :val REMOVE #v", "attribute_exists(#v)"
			delete(values, ":v")
		}
		_, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(toyValues), Key: attrs{"pk": text(toyKey)}, UpdateExpression: &update, ConditionExpression: &condition,
			ExpressionAttributeNames: map[string]string{"#k": "pk", "#val": "val", "#v": versionName}, ExpressionAttributeValues: values,
		})
		switch _, refusal := refused(err); {
		case errors.Is(err, errLostAnswer):
			return ending{v: unclear}
		case refusal && op.kind == foreign:
			return ending{v: none}
		case err != nil:
			return ending{v: gaveUp}
		}
		return ending{v: done}
	case insert, insertLong:
		version, err := d.Insert(ctx, toyKey, valueOf(op.id), fresh, now)
		var met *driver.ConflictError
		switch {
		case errors.As(err, &met) && !met.Found.Alive(now):
			return ending{v: gaveUp} // it lost too many races: the core plans it again
		case errors.Is(err, driver.ErrConflict):
			return ending{v: exists}
		}
		if err != nil {
			return failureOf(err)
		}
		return wrote(driver.Meta{Life: fresh, Version: version}, 0)
	case upsert, upsertKnown:
		var m *driver.Meta
		if op.kind == upsertKnown {
			m = &op.m.meta
		}
		is, err := driver.Upsert(ctx, d, toyKey, valueOf(op.id), m, func(found *driver.Meta) (driver.Life, error) {
			if found == nil {
				return fresh, nil
			}
			return kept(found.Life), nil
		}, now)
		if errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrNotFound) {
			return ending{v: gaveUp}
		}
		if err != nil {
			return failureOf(err)
		}
		return wrote(is, 0)
	case update:
		for range 3 {
			e, err := d.Latest(ctx, toyKey)
			if err != nil {
				return failureOf(err)
			}
			if !e.Alive(now) {
				return ending{v: none}
			}
			life := kept(e.Life)
			version, err := d.Replace(ctx, toyKey, valueOf(op.id), e.Meta, life, now)
			switch {
			case err == nil:
				return wrote(driver.Meta{Life: life, Version: version}, idOf(e.Value))
			case !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound):
				return failureOf(err)
			}
		}
		return ending{v: gaveUp}
	case shorten:
		e, err := d.Latest(ctx, toyKey)
		if err != nil {
			return failureOf(err)
		}
		life := driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: instant(op.now + 1)}
		switch {
		case !e.Alive(now):
			return ending{v: none}
		case e.CreatedAt == 0 || e.ExpiresAt <= life.ExpiresAt:
			return ending{v: gaveUp}
		}
		version, err := d.Replace(ctx, toyKey, valueOf(op.id), e.Meta, life, now)
		switch {
		case errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrNotFound):
			return ending{v: gaveUp}
		case err != nil:
			return failureOf(err)
		}
		return wrote(driver.Meta{Life: life, Version: version}, idOf(e.Value))
	case reborn:
		version, err := d.Replace(ctx, toyKey, valueOf(op.id), op.m.meta, fresh, now)
		if err != nil {
			return failureOf(err)
		}
		return wrote(driver.Meta{Life: fresh, Version: version}, op.m.val)
	case touch, touchLong:
		out := touched(op.m)
		if life := kept(op.m.meta.Life); life == op.m.meta.Life {
			return ending{v: gaveUp} // not due: nothing was asked
		}
		return out
	case lower:
		life := driver.Life{CreatedAt: op.m.meta.CreatedAt, ExpiresAt: instant(op.now + 1)}
		if op.m.meta.ExpiresAt <= life.ExpiresAt || op.m.meta.CreatedAt == 0 {
			return ending{v: gaveUp}
		}
		version, err := d.Touch(ctx, toyKey, op.m.meta, life, now)
		if errors.Is(err, driver.ErrConflict) {
			return ending{v: gaveUp}
		}
		if err != nil {
			return failureOf(err)
		}
		is := knownOf(driver.Meta{Life: life, Version: version}, op.m.val)
		c, e := is.ticks()
		return ending{v: done, c: c, e: e, m: is}
	case remove:
		if err := d.Delete(ctx, toyKey); err != nil {
			return failureOf(err)
		}
		return ending{v: done}
	case erase:
		if _, _, err := d.EraseEnded(ctx, driver.Erasure{Keys: []string{toyKey}}, true); err != nil {
			return failureOf(err)
		}
		return ending{v: done}
	case removeEntry:
		if err := d.Remove(ctx, toyKey, op.m.meta, now); err != nil {
			return failureOf(err)
		}
		return ending{v: done}
	case retire:
		for range 4 {
			e, err := d.Latest(ctx, toyKey)
			if err != nil {
				return failureOf(err)
			}
			if !e.Alive(now) {
				return ending{v: none}
			}
			life := driver.Life{CreatedAt: cmp.Or(e.CreatedAt, op.born()), ExpiresAt: instant(op.now - 1)} // E = now - MaxSkew
			_, err = d.Touch(ctx, toyKey, e.Meta, life, now)
			if err == nil {
				return ending{v: done}
			}
			if !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound) {
				return failureOf(err)
			}
		}
		return ending{v: gaveUp}
	}
	panic("unknown call")
}

// effect is what the contract allows a call to do: the record after it, and its answer.
type effect struct {
	a abstract
	o ending
}

// allowed returns what the contract lets a call do at t, by its process's clock, to a.
func allowed(a abstract, o pending, t int8) (all []effect) {
	add := func(a abstract, v verdict) { all = append(all, effect{a, ending{v: v}}) }
	alive := a.exists && a.e > o.now // by the call's own time
	dead := !a.exists || a.e <= t
	promised := o.now + o.kind.promises()
	fresh := abstract{exists: true, gen: o.id, c: o.now, e: promised, val: o.id}
	same := alive && a.gen == o.mGen && a.c == o.mC
	stale := dead || a.gen != o.mGen || a.c != o.mC || o.mE <= o.now
	kept := func() abstract {
		n := a
		if n.c == 0 {
			n.c, n.gen, n.e = o.now, o.id, promised
		}
		n.e = max(n.e, promised)
		return n
	}
	told := func(n abstract, base int8) {
		all = append(all, effect{n, ending{v: done, val: n.val, c: n.c, e: n.e, base: base, m: known{gen: n.gen}}})
	}
	switch o.kind {
	case get, staleGet:
		if alive {
			told(a, 0)
		}
		if dead {
			add(a, none)
		}
	case keep:
		if alive {
			told(kept(), 0)
		}
		if dead {
			add(a, none)
		}
	case insert:
		if dead {
			told(fresh, 0)
		}
		if alive {
			add(a, exists)
		}
	case upsert, upsertKnown:
		if dead {
			told(fresh, 0)
		}
		if alive {
			n := kept()
			n.val = o.id
			told(n, 0)
		}
	case update:
		if alive {
			n := kept()
			n.val = o.id
			told(n, a.val)
		}
		if dead {
			add(a, none)
		}
	case shorten:
		if alive && a.c != 0 && a.e > o.now+1 {
			n := a
			n.e, n.val = o.now+1, o.id
			told(n, a.val)
		}
		if dead {
			add(a, none)
		}
	case touch, touchLong:
		if same {
			n := kept()
			all = append(all, effect{n, ending{v: done, c: n.c, e: n.e, m: known{gen: n.gen}}})
		}
		if stale {
			add(a, none)
		}
	case lower:
		if same && a.e == o.mE {
			n := a
			n.e, n.lowered = o.now+1, true
			all = append(all, effect{n, ending{v: done, c: n.c, e: n.e, m: known{gen: n.gen}}})
		}
		if same && a.e == o.now+1 { // another call did the same
			all = append(all, effect{a, ending{v: done, c: a.c, e: a.e, m: known{gen: a.gen}}})
		}
		if stale {
			add(a, none)
		}
	case foreign, bare:
		if a.exists {
			n := a
			n.val = o.id
			add(n, done)
		}
		if dead {
			add(a, done)
			add(a, none)
		}
	case remove:
		add(abstract{}, done)
	case erase:
		add(a, done)
	case removeEntry:
		// Also over a record that a concurrent call has just ended: both say that they ended it.
		if a.exists && a.gen == o.mGen && a.c == o.mC && a.val == o.mVal {
			add(abstract{}, done)
		}
		if same && (a.val != o.mVal || a.e != o.mE || a.lowered) {
			add(a, conflict)
		}
		if stale {
			add(a, none)
			add(a, conflict)
		}
	case retire:
		if alive {
			n := a
			if n.c == 0 {
				n.c, n.gen = o.now, o.id
			}
			n.e = o.now - 1
			add(n, done)
		}
		if a.exists && a.e == o.now-1 {
			add(a, done) // another call did the same
		}
		if dead {
			add(a, none)
		}
	}
	return all
}

// expand adds every configuration in which more of the pending calls have taken effect.
func (x *explorer) expand(set int, t int8) int {
	key := [2]int{set, int(t)}
	if known, ok := x.expanded[key]; ok {
		return known
	}
	cfg := slices.Clone(x.sets[set])
	seen := map[configuration]bool{}
	for _, c := range cfg {
		seen[c] = true
	}
	add := func(n configuration, was abstract, by kind) {
		if x.stale && n.a != was && !slices.Contains(n.seen[:], was) {
			n.seen[2], n.seen[1], n.seen[0] = n.seen[1], n.seen[0], was
		}
		// A read may return a value with a later expiry of the same generation.
		for p := range n.p {
			d := &n.p[p]
			if d.done && d.gen != 0 && n.a.exists && d.gen == n.a.gen {
				d.e = max(d.e, n.a.e)
			}
			// One beside an overwrite may have the expiry before it, and then finds no touch due.
			if by == shorten && d.on && !d.done && was.exists && (d.kind == get || d.kind == staleGet || d.kind == keep && was.e >= d.now+idle) {
				if d.gen != was.gen {
					d.gen, d.e = was.gen, 0
				}
				d.e = max(d.e, was.e)
			}
		}
		if !seen[n] {
			seen[n] = true
			cfg = append(cfg, n)
		}
	}
	for i := 0; i < len(cfg); i++ {
		for p := range cfg[i].p {
			pd := cfg[i].p[p]
			if !pd.on || pd.done {
				continue
			}
			skew := int8(0)
			if p < 3 {
				skew = x.skewOf(p)
			} else {
				skew = max(x.skew, 0) // a call that was cut off may be of any
			}
			inserts := pd.kind == insert || pd.kind == upsert || pd.kind == upsertKnown
			was := cfg[i].a
			// One that begins a new life ends a dead record first: a clock that is behind sees that.
			if inserts && was.exists && was.e <= t+skew {
				n := cfg[i]
				n.a = abstract{}
				add(n, was, pd.kind)
			}
			// An overwrite may touch the record before it writes the value.
			if (pd.kind == upsert || pd.kind == upsertKnown || pd.kind == update) && was.exists && was.c != 0 && was.e > pd.now && was.e < pd.now+idle {
				n := cfg[i]
				n.a.e = pd.now + idle
				add(n, was, pd.kind)
			}
			from := []abstract{was}
			if pd.kind == staleGet {
				from = append(from, cfg[i].seen[:]...)
				for _, a := range from { // its two items need not be equally stale
					for _, other := range from {
						if a.exists && other.exists && a.gen == other.gen {
							a.e = max(a.e, other.e)
						}
					}
					from = append(from, a)
				}
			}
			if pd.gen != 0 && pd.gen == was.gen && pd.e > was.e { // a read beside an overwrite
				a := was
				a.e = pd.e
				from = append(from, a)
			}
			for j, a := range from {
				for _, e := range allowed(a, pd, t+skew) {
					n := cfg[i]
					if j == 0 {
						n.a = e.a
					}
					q, before := &n.p[p], pd
					q.done, q.v, q.val, q.c, q.e, q.b, q.gen = true, e.o.v, e.o.val, e.o.c, e.o.e, e.o.base, e.o.m.gen
					if before.gen == q.gen && pd.kind != keep {
						q.e = max(q.e, before.e)
					}
					if p == 3 {
						n.p[p] = pending{}
					}
					add(n, was, pd.kind)
				}
			}
		}
	}
	id := x.setOf(cfg)
	x.expanded[key] = id
	return id
}

func (x *explorer) setOf(cfg []configuration) int {
	slices.SortFunc(cfg, func(a, b configuration) int { return bytes.Compare(a.bytes(), b.bytes()) })
	var m fingerprint
	for i, seed := range seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for j := range cfg {
			h.Write(cfg[j].bytes())
		}
		m[i] = h.Sum64()
	}
	id, ok := x.setIDs[m]
	if !ok {
		id = len(x.sets)
		x.setIDs[m] = id
		x.sets = append(x.sets, slices.Clip(cfg))
	}
	return id
}

// respond keeps the configurations that explain the answer of process p; none: -1.
func (x *explorer) respond(set, p int, out ending) int {
	seen := map[configuration]bool{}
	var kept []configuration
	for _, c := range x.sets[set] {
		n, pd := c, c.p[p]
		switch {
		case out.v == unclear && !pd.done:
			n.p[3] = pd
		case out.v == unclear:
		case out.v == gaveUp:
			if pd.done && pd.v == done && pd.kind != get && pd.kind != staleGet {
				continue
			}
		case !pd.done || pd.v != out.v || pd.val != out.val || pd.c != out.c || pd.b != out.base || out.e > pd.e:
			continue
		}
		n.p[p] = pending{}
		if !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return -1
	}
	return x.setOf(kept)
}

// edge is how a state was reached, and what the tables held in it.
type edge struct {
	from  int
	what  unique.Handle[string]
	items [2]int
}

// fingerprint stands for a value, of which it is a hash: two of a billion values have the same by a chance of 1 in 10^20.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf[V comparable](v V) fingerprint {
	return fingerprint{maphash.Comparable(seeds[0], v), maphash.Comparable(seeds[1], v)}
}

// explore plays all schedules from s. It returns the number of states, and the schedule of a violation. It holds
// whole the states that are to be expanded, and of others their fingerprints.
func (x *explorer) explore(s state) (states int, violation []string) {
	seen := map[fingerprint]struct{}{fingerprintOf(s): {}}
	edges := []edge{{-1, unique.Make(""), s.items}}
	trace := func(i int, s state, last string) (all []string) {
		all = []string{last, "value " + x.show(s.items[0]), "life " + x.show(s.items[1]), fmt.Sprintf("the record could be %+v", x.sets[s.cfg][0].a)}
		for ; i > 0; i = edges[i].from {
			e := &edges[i]
			all = append([]string{e.what.Value() + "\t| " + x.show(e.items[0]) + " | " + x.show(e.items[1])}, all...)
		}
		return all
	}
	expanded := 0
	for wave, next := []state{s}, []state(nil); len(wave) > 0; wave, next = next, wave[:0] {
		for _, s := range wave {
			push := func(n state, what string) {
				n.cfg = x.expand(n.cfg, n.t)
				m := fingerprintOf(n)
				if _, ok := seen[m]; !ok {
					seen[m] = struct{}{}
					next = append(next, n)
					edges = append(edges, edge{expanded, unique.Make(what), n.items})
				}
			}
			if bad := x.successors(s, push); bad != "" {
				return expanded, trace(expanded, s, bad)
			}
			expanded++
		}
	}
	return expanded, nil
}

// successors pushes what can come after s. It returns what an answer was that the contract cannot explain.
func (x *explorer) successors(s state, push func(state, string)) (violation string) {
	// Time passes. No call lasts longer than two ticks.
	if int(s.t) < x.ticks && !slices.ContainsFunc(s.p[:], func(p process) bool { return p.busy && s.t-p.op.now >= 2 }) {
		n := s
		n.t++
		n.before = [2]int{-1, -1}
		n.cfg = x.forget(n.cfg)
		push(n, "a tick")
	}
	// TTL.
	for place, item := range s.items {
		if ttl, _ := parseExpiry("ttl", x.items.items[item]["ttl"]); item != 0 && ttl != 0 && ttl <= instant(s.t) {
			n := s
			n.items[place], n.before[place] = 0, -1
			push(n, "TTL deletes "+[]string{"the value", "the life"}[place])
		}
	}
	for p := range s.p {
		if bad := x.advance(s, p, push); bad != "" {
			return bad
		}
	}
	return ""
}

func (x *explorer) show(item int) string {
	if item == 0 {
		return "-"
	}
	all := x.items.items[item]
	var words []string
	add := func(name string, av types.AttributeValue) {
		if av != nil {
			words = append(words, name+"="+strings.TrimSuffix(strings.TrimPrefix(plain(av), "17000000"), ".000Z"))
		}
	}
	add("val", all["val"])
	add("C", all["created_at"])
	add("v", all[versionName])
	add("ttl", all["ttl"])
	if m, ok := all["slidingttl_expiry"].(*types.AttributeValueMemberM); ok {
		add("E", m.Value["at"])
		add("held", m.Value["ttl"])
		add("g", m.Value[retainedGeneration])
		if m.Value[lifeEnded] != nil {
			words = append(words, "ended")
		}
	}
	add("doubt", all[doubtName])
	return strings.Join(words, " ")
}

// forget drops what stale reads could return before this tick.
func (x *explorer) forget(set int) int {
	if !x.stale {
		return set
	}
	seen := map[configuration]bool{}
	var kept []configuration
	for _, c := range x.sets[set] {
		c.seen = [3]abstract{}
		if !seen[c] {
			seen[c] = true
			kept = append(kept, c)
		}
	}
	return x.setOf(kept)
}

// advance pushes what process p can do next. It returns what an answer was that the contract cannot
// explain.
func (x *explorer) advance(s state, p int, push func(state, string)) (violation string) {
	is := &s.p[p]
	who := fmt.Sprintf("P%d ", p+1)
	skew := x.skewOf(p)
	switch {
	case is.crashed:
		return ""
	case !is.busy:
		if int(is.calls) >= x.calls {
			return ""
		}
		menu := x.menu
		if menu == nil || p == 2 {
			menu = x.menus[p]
		}
		for _, k := range menu {
			remembers := k == touch || k == touchLong || k == removeEntry || k == lower || k == upsertKnown
			if remembers && is.memory.meta == (driver.Meta{}) || k == bare && is.calls > 0 { // whoever removes it twice hides a write
				continue
			}
			for _, lifeFirst := range []bool{false, true} {
				if lifeFirst && k != get && k != staleGet && k != keep && k != update && k != shorten && k != retire {
					continue
				}
				n := s
				q := &n.p[p]
				q.calls++
				q.busy, q.unsure, q.history = true, false, 0
				q.op = call{kind: k, id: int8(3*(p+1)) + q.calls, now: s.t + skew, lifeFirst: lifeFirst, distinct: x.distinct}
				if remembers {
					q.op.m = q.memory
				}
				c, e := q.op.m.ticks()
				if q.op.m.meta.CreatedAt == 0 {
					c = 0
				}
				cfg := slices.Clone(x.sets[s.cfg])
				for j := range cfg {
					cfg[j].p[p] = pending{on: true, kind: k, id: q.op.id, now: q.op.now, mGen: q.op.m.gen, mC: c, mE: e, mVal: q.op.m.val}
				}
				n.cfg = x.setOf(cfg)
				push(n, fmt.Sprint(who, "calls ", kindNames[k], " at ", q.op.now))
			}
		}
		return ""
	}
	next := x.replay(p, is.op, is.history)
	if next.done {
		out := next.out
		x.answers[kindNames[is.op.kind]+" "+verdictNames[out.v]]++
		n := s
		q := &n.p[p]
		if out.v == done && out.m.meta != (driver.Meta{}) {
			q.memory = out.m
		} // else it is kept: the worst that a caller can do
		q.busy, q.history, q.op = false, 0, call{}
		what := fmt.Sprintf("%s%s answers %s val=%d C=%d E=%d base=%d", who, kindNames[is.op.kind], verdictNames[out.v], out.val, out.c, out.e, out.base)
		if n.cfg = x.respond(s.cfg, p, out); n.cfg < 0 {
			return what + "   <== the contract cannot explain this"
		}
		push(n, what)
		return ""
	}
	a := next.next
	place := 0
	if a.life {
		place = 1
	}
	what := who + kindNames[is.op.kind] + map[bool]string{false: " reads ", true: " writes "}[a.write != nil] + []string{"the value", "the life"}[place]
	late := a.late != 0 && int(s.t+skew) >= a.late
	answer := func(n state, r result, what string) {
		q := &n.p[p]
		r.unsure, q.unsure = q.unsure, false
		q.history = x.longer(q.history, r)
		push(n, what)
	}
	land := func(n *state) result {
		was := n.items[place]
		r := x.land(&n.items, a, n.t+skew)
		if n.items[place] != was && x.stale {
			n.before[place] = was
		}
		return r
	}
	lost := result{lost: true, now: s.t + skew}
	if late {
		answer(s, lost, what+": not sent, its record's life has ended")
	} else {
		n := s
		answer(n, land(&n), what)
	}
	if late {
		return ""
	}
	if a.write == nil && x.stale && !a.strong && s.before[place] >= 0 {
		n := s
		answer(n, result{item: s.before[place], ok: true, now: s.t + skew}, what+", as it was")
	}
	if int(s.faults) >= x.faults {
		return ""
	}
	n := s // a crash before this access; one after it is a crash before the next
	n.faults++
	n.p[p].crashed, n.p[p].history, n.p[p].memory, n.p[p].op, n.p[p].busy = true, 0, known{}, call{}, false
	if n.cfg = x.respond(s.cfg, p, ending{v: unclear}); n.cfg >= 0 {
		push(n, who+"dies")
	}
	if a.write == nil {
		return ""
	}
	for _, lands := range []bool{true, false} {
		n := s
		n.faults++
		if lands {
			land(&n)
		}
		how := fmt.Sprint(what, ": no answer, landed: ", lands)
		if a.named && !is.unsure {
			n := n
			n.p[p].unsure = true
			push(n, how+", and will send it again")
		}
		answer(n, lost, how)
	}
	if x.refuses {
		n := s
		n.faults++
		answer(n, result{refused: true, now: s.t + skew}, what+": refused")
	}
	return ""
}

// start is where schedules begin.
type start struct {
	name string
	at   int8 // tick
	make func(x *explorer, items *[2]int) (abstract, known)
}

func born(x *explorer, items *[2]int, at int8) known {
	return x.run(items, call{kind: insert, id: 1, now: at, distinct: x.distinct}).m
}

var starts = []start{
	{"empty", 1, func(*explorer, *[2]int) (abstract, known) { return abstract{}, known{} }},
	{"live, never touched", 1, func(x *explorer, items *[2]int) (abstract, known) {
		return abstract{true, 1, 1, 3, 1, false}, born(x, items, 1)
	}},
	{"live, touched", 2, func(x *explorer, items *[2]int) (abstract, known) {
		m := x.run(items, call{kind: touch, id: 2, now: 2, m: born(x, items, 1)}).m
		return abstract{true, 1, 1, 4, 1, false}, m
	}},
	{"dying, touched", 2, func(x *explorer, items *[2]int) (abstract, known) {
		m := x.run(items, call{kind: touch, id: 2, now: 2, m: born(x, items, 1)}).m
		m = x.run(items, call{kind: lower, id: 2, now: 2, m: m}).m
		return abstract{true, 1, 1, 3, 1, false}, m
	}},
	{"of another program", 1, func(x *explorer, items *[2]int) (abstract, known) {
		items[0] = x.items.id(attrs{"pk": text(toyKey), "val": number("1")})
		return abstract{true, 0, 0, never, 1, false}, known{}
	}},
	{"deleted", 2, func(x *explorer, items *[2]int) (abstract, known) {
		m := x.run(items, call{kind: touch, id: 2, now: 2, m: born(x, items, 1)}).m
		x.run(items, call{kind: remove, id: 2, now: 2})
		return abstract{}, m
	}},
	{"deleted long ago", 5, func(x *explorer, items *[2]int) (abstract, known) { // so that its doubt has run out before the expiries that are known
		m := x.run(items, call{kind: insertLong, id: 1, now: 0, distinct: x.distinct}).m
		x.run(items, call{kind: touchLong, id: 2, now: 1, m: m})
		x.run(items, call{kind: remove, id: 2, now: 1})
		return abstract{}, m
	}},
	{"after an old life", 1, func(x *explorer, items *[2]int) (abstract, known) { // whose life item is still there
		m := x.run(items, call{kind: insert, id: 2, now: -8, distinct: x.distinct}).m
		x.run(items, call{kind: touch, id: 3, now: -7, m: m})
		items[0] = 0
		return abstract{true, 1, 1, 3, 1, false}, born(x, items, 1)
	}},
	{"live for long", 1, func(x *explorer, items *[2]int) (abstract, known) {
		return abstract{true, 1, 1, 1 + long, 1, false}, x.run(items, call{kind: insertLong, id: 1, now: 1, distinct: x.distinct}).m
	}},
	{"dying, marked", 2, func(x *explorer, items *[2]int) (abstract, known) { // by an overwrite that was cut off before it wrote the value
		m := x.run(items, call{kind: touch, id: 2, now: 2, m: born(x, items, 1)}).m
		m = x.run(items, call{kind: lower, id: 2, now: 2, m: m}).m
		x.cutOff(items, call{kind: reborn, id: 3, now: 2, m: m})
		return abstract{true, 1, 1, 3, 1, false}, m
	}},
	{"in the value", 1, func(x *explorer, items *[2]int) (abstract, known) {
		x.drivers[0].opts.LifeInValue = true
		defer func() {
			x.drivers[0].opts.LifeInValue = false
			clear(x.replays)
		}()
		return abstract{true, 1, 1, 3, 1, false}, born(x, items, 1)
	}},
}

// schedules explores s from the starts of that name, or from all.
func schedules(t testing.TB, s settings, from string, broken ...func(*explorer)) (states int, violation []string) {
	t.Helper()
	for _, b := range starts {
		if from != "" && b.name != from {
			continue
		}
		// A life that changes its table draws its generation anew, and so may one that two overwrites shorten,
		// or a touch beside one. Another program's version has none.
		s, menus := s, slices.Concat(s.menu, s.menus[0], s.menus[1], s.menus[2])
		s.distinct = s.distinct || s.mixed || b.name == "in the value" || b.name == "dying, marked" || slices.ContainsFunc(menus, func(k kind) bool { return k == shorten || k == foreign || k == bare })
		x := newExplorer(t, s)
		for _, b := range broken {
			b(x)
		}
		first := state{t: b.at, before: [2]int{-1, -1}}
		a, m := b.make(x, &first.items)
		x.ticks = int(b.at) + s.ticks
		for i := range first.p {
			first.p[i].memory = m
		}
		first.cfg = x.setOf([]configuration{{a: a}})
		n, bad := x.explore(first)
		states += n
		t.Logf("%-22s %8d states, answers %v", b.name, n, x.answers)
		if bad != nil {
			return states, append([]string{b.name}, bad...)
		}
	}
	return states, nil
}

func all() (menu []kind) {
	for k := range kinds {
		if k != staleGet && k != shorten {
			menu = append(menu, k)
		}
	}
	return menu
}

// part is a menu that is explored from some starts.
type part struct {
	name string
	settings
	from string // name of a start; empty: all
}

// gateParts takes the gate some 20 s; nightParts is set at night.
var gateParts = []part{
	{"all calls, one fault", settings{calls: 1, faults: 1, hold: 3, menu: all()}, "live, touched"},
	{"all calls, a tick", settings{calls: 1, ticks: 1, hold: 3, menu: all()}, "dying, touched"},
	{"of another program", settings{calls: 1, faults: 1, hold: 3, menu: all()}, "of another program"},
	{"lives in the value, too", settings{calls: 1, faults: 1, hold: 3, mixed: true, menu: all()}, "live, never touched"},
	{"stale reads", settings{calls: 2, hold: 3, stale: true, menu: []kind{staleGet, touch, retire, insert}}, "live, touched"},
	{"an overwrite that shortens", settings{calls: 2, ticks: 1, faults: 1, refuses: true, hold: 3, menus: [3][]kind{{shorten, get}, {touch}}}, "live, touched"},
	{"a retirement beside an overwrite that shortens", settings{calls: 2, ticks: 1, skew: 1, hold: 3, menus: [3][]kind{{shorten, get}, {retire, get}}}, "live, never touched"},
	{"a lowering touch beside an overwrite", settings{calls: 2, hold: 3, distinct: true, menus: [3][]kind{{lower, get}, {upsertKnown, removeEntry}}}, "live, touched"},
	{"a lowering touch beside an overwrite that shortens", settings{calls: 2, hold: 3, menus: [3][]kind{{lower, get}, {shorten}}}, "live, touched"},
	{"a touch beside an overwrite that shortens", settings{calls: 2, ticks: 1, hold: 3, menus: [3][]kind{{keep, removeEntry, get}, {shorten}}}, "live, touched"},
	{"stale reads beside an overwrite that shortens", settings{calls: 2, ticks: 1, hold: 3, stale: true, menus: [3][]kind{{shorten, retire}, {staleGet}}}, "live, touched"},
	{"an insert that loses its races", settings{calls: 1, ticks: 1, skew: 1, hold: 3, menus: [3][]kind{{upsertKnown}, {insert}}}, "after an old life"},
	{"a deletion that is cut off beside a life that moves", settings{calls: 2, faults: 1, hold: 3, mixed: true, menus: [3][]kind{{remove, retire}, {update, lower, get}}}, "live, touched"},
	{"two deletions at once, then a touch", settings{calls: 2, hold: 3, menus: [3][]kind{{remove, lower}, {removeEntry}}}, "live, touched"},
	{"a life that moves after an old one", settings{calls: 2, hold: 3, mixed: true, menus: [3][]kind{{lower, get}, {update}}}, "after an old life"},
	{"a short hold", settings{calls: 2, ticks: 2, hold: 1, menu: []kind{get, keep}}, "live, never touched"},
	{"another program's versions", settings{calls: 2, hold: 3, menus: [3][]kind{{touch, update, removeEntry, retire}, {foreign, bare, get}}}, "live, touched"},
	{"another program's version, a fault", settings{calls: 2, faults: 1, refuses: true, hold: 3, menus: [3][]kind{{update, keep}, {bare, keep}}}, "live, never touched"},
	{"another program's version after an overwrite that shortens", settings{calls: 2, ticks: 1, hold: 3, menus: [3][]kind{{shorten, keep}, {foreign, bare, get}}}, "live, touched"},
	{"an insert over a shortened record that goes", settings{calls: 2, ticks: 1, faults: 1, hold: 3, menus: [3][]kind{{shorten, removeEntry}, {insert}}}, "live, touched"},
	{"a shorter hold", settings{calls: 2, ticks: 5, hold: 8, longer: 1, lifeLasts: 1, menus: [3][]kind{{get}, {retire}}}, "live for long"},
	{"another program's version of a dead record", settings{calls: 2, ticks: 2, hold: 3, menus: [3][]kind{{bare, get}, {insert, touch}}}, "dying, touched"},
	{"an insert after an overwrite that was cut off, beside a clock that is behind", settings{calls: 2, ticks: 1, skew: 1, hold: 3, menus: [3][]kind{{touch, get}, {insert, touch}}}, "dying, marked"},
	{"an insert after an overwrite that was cut off, beside a deletion", settings{calls: 3, skew: 1, hold: 3, menus: [3][]kind{{remove, get}, {insert, lower, touch}}}, "dying, marked"},
	{"a touch beside one to the same expiry and a deletion", settings{calls: 2, ticks: 1, faults: 1, hold: 3, menus: [3][]kind{{touch}, {touch, remove}}}, "live, touched"},
	{"a lowering touch beside another and a deletion", settings{calls: 2, faults: 1, hold: 3, menus: [3][]kind{{lower}, {lower, remove}}}, "live, touched"},
	{"all calls and an erasure, a fault, after a doubt has run out", settings{calls: 1, faults: 1, hold: 9, menu: append(all(), erase)}, "deleted long ago"},
	{"a first touch beside a deletion and its erasure", settings{calls: 2, ticks: 5, hold: 9, menus: [3][]kind{{remove, erase}, {touch}}}, "live for long"},
	{"a read and an insert beside a life that moves", settings{calls: 1, ticks: 1, skew: -1, hold: 3, mixed: true, menus: [3][]kind{{insert}, {touch}, {get}}}, "dying, touched"},
}

var nightParts []part

func TestSchedules(t *testing.T) {
	for _, p := range append(gateParts, nightParts...) {
		t.Run(p.name, func(t *testing.T) {
			states, bad := schedules(t, p.settings, p.from)
			t.Logf("%d states", states)
			if bad != nil {
				t.Errorf("a schedule that breaks the contract:\n%s", strings.Join(bad, "\n"))
			}
		})
	}
}

// The explorer finds what is wrong with a protocol that lacks one of its rules.
func TestSchedulesOfBrokenRules(t *testing.T) {
	each := func(set func(*Driver[attrs])) func(*explorer) {
		return func(x *explorer) {
			for _, d := range x.drivers {
				set(d)
			}
		}
	}
	for name, c := range map[string]struct {
		settings
		from   string
		broken func(*explorer)
	}{
		"no doubt before a deletion": {
			settings{calls: 2, ticks: 1, hold: 3, menu: []kind{get, touch, remove}}, "live, touched",
			func(x *explorer) {
				x.client.skip = func(update string, _ attrs) bool { return strings.HasPrefix(update, "SET #d = ") }
			},
		},
		"a doubt that is shorter than a call": {
			settings{calls: 2, ticks: 1, hold: 3, menu: []kind{get, touch, remove}}, "live, touched",
			each(func(d *Driver[attrs]) { d.doubtLasts = 0 }),
		},
		"a new life before the old one has ended": {
			settings{calls: 2, ticks: 2, skew: 1, hold: 3, menu: []kind{get, touch, insert}}, "dying, touched",
			func(x *explorer) {
				x.client.skip = func(_ string, values attrs) bool {
					m, ok := values[":x"].(*types.AttributeValueMemberM)
					return ok && m.Value[lifeEnded] != nil
				}
			},
		},
		"no second read": {
			settings{calls: 3, hold: 3, menu: []kind{get, retire, insert, touch}}, "live, never touched",
			each(func(d *Driver[attrs]) { d.opts.MaxSkew = -time.Hour }),
		},
		"a generation that two lives have": {
			settings{calls: 3, hold: 3, menu: []kind{get, retire, insert}}, "live, never touched",
			func(x *explorer) { x.oneGeneration = true },
		},
		"a life item that is held for less than its value": {
			settings{calls: 2, ticks: 3, hold: 3, menu: []kind{get, retire}}, "live, never touched",
			each(func(d *Driver[attrs]) { d.lifeLasts = -3 * time.Second }),
		},
		"a value that is not held for its life item": {
			settings{calls: 2, ticks: 3, hold: 1, menu: []kind{get, keep}}, "live, never touched",
			func(x *explorer) {
				x.client.skip = func(update string, _ attrs) bool { return strings.HasPrefix(update, "SET #e = ") }
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			states, bad := schedules(t, c.settings, c.from, c.broken)
			if bad == nil {
				t.Errorf("%d states, and no schedule that breaks the contract", states)
			} else {
				t.Log(strings.Join(bad, "\n"))
			}
		})
	}
}
