package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// With Options.LifeTable the expiry of a record stands apart from its value.
//
// The value's item stays a complete record. Its Map RetainedExpiry has a third field, the record's
// generation, a number drawn with each new life. The record's item in the life table, its life item,
// overrides the expiry if it names the same generation and created_at. So an insert, an adoption and
// a new life are one write, and no crash leaves a record without a life. A program that does not know
// the life table and moves ttl removes or invalidates the Map, and so decides again.
//
// The rules, each of which TestSchedules finds necessary:
//
//   - A life item is written by compare-and-swap, for a generation that was read in the value's item
//     after the life item, or whose end would have left a mark in the life item (doubt, ended).
//   - Who deletes a value's item, or takes its generation away, first sets doubt in the life item. A
//     touch that finds it, however old, reads the value's item too. A doubt lasts longer than any call,
//     and its life item longer than the doubt.
//   - An erasure removes the life item of a record that is gone, but not while its doubt lasts. So a touch
//     that finds no life item reads the value's item, unless the record is younger than half of that.
//   - Who moves a life to the value's item, with another generation or none, sets such a doubt too, marked.
//     A touch or overwrite that finds it does the same: one of the two writes of the value fails. Who set
//     the mark takes it back, with the new generation's life in its place, unless it has been set again
//     meanwhile: a doubt set over it has it as well. Else it goes when its time has passed. A mark that was
//     set over a doubt becomes a doubt when it is taken back: there may be a deletion under it.
//   - Who begins a new life over a dead record first ends the old one's life item, for good. One that is
//     marked it marks again instead, for the record may live on in the value's item, and takes that back.
//   - An overwrite first announces its expiry and version in the life item, then writes the value. In
//     between the life item names a version that does not exist, and touches read the value's item. The
//     expiry counts at once. One with an earlier expiry moves the life to the value's item instead: if it
//     is refused, it has ended no life. So does a touch that lowers the expiry beside an announcement.
//   - The value's item is held until after the expiry in the life item, and the life item for longer
//     than the value's item. So no late deletion brings back an older expiry.
//   - A read that gets a life item of a later generation than the value's reads both again, in order.
//
// A stream reports an end when the key may have had other lives since. So a life item also has the
// expiries of the lives before (former).

// generation identifies a record's life in its two items.
type generation uint64

// The version of a new life has its generation in the higher bits, and overwrites keep these.
const generationShift = 33

func generationOf(v driver.Version) generation {
	return generation(v & anyVersion & (maxVersion - 1) >> generationShift)
}

const (
	retainedGeneration = "generation"       // in RetainedExpiry: the generation
	lifeEnded          = "ended"            // in a life item's RetainedExpiry: a new life is about to begin; when this one expired
	lifeAnnounced      = "announced"        // there: the system's time at which an overwrite announced the version, in microseconds
	doubtName          = "slidingttl_doubt" // in a life item: the value's item may have been deleted

	// doubtLasts is longer than any call takes until its last request has landed or never will.
	// DynamoDB refuses a request whose signature is more than some minutes old.
	doubtLasts = time.Hour

	// lifeLasts is how much longer a life item is held than its value's item, so that a Stream finds
	// the expiry of a record that DynamoDB has deleted late.
	lifeLasts = 14 * 24 * time.Hour
)

// lifeItem is an item of Options.LifeTable, parsed and as raw attributes. Its zero value: none.
type lifeItem struct {
	item       map[string]types.AttributeValue
	generation generation // zero: the item only has a doubt
	driver.Life
	version   string         // of the value, as text
	heldUntil driver.Instant // of the value's item, when it was last read
	ttl       driver.Instant // of this item
	ended     bool
	announced uint64 // when an overwrite announced version; zero: no overwrite did
	doubt     uint64 // twice the time in microseconds from newDoubt, and 1 if moving
}

// readLife parses a life item. Whoever took one that cannot be read for none would take its record for
// dead.
func (d *core) readLife(item map[string]types.AttributeValue) (l lifeItem, err error) {
	l.item = item
	if err = l.parse(&d.opts); err != nil {
		err = fmt.Errorf("table %s: %w", d.opts.LifeTable, err)
	}
	return l, err
}

func (l *lifeItem) parse(o *Options) (err error) {
	if l.ttl, err = parseExpiry(o.Expiry, l.item[o.Expiry]); err != nil {
		return err
	}
	instant := func(into *uint64, name string, in map[string]types.AttributeValue) error {
		if av, ok := in[name]; ok {
			if *into = positive(av); *into == 0 {
				return odd(name, av, "must be a positive whole Number")
			}
		}
		return nil
	}
	if err := instant(&l.doubt, doubtName, l.item); err != nil {
		return err
	}
	retained := l.item[o.RetainedExpiry]
	if retained == nil && l.item[o.CreatedAt] == nil && l.item[o.Version] == nil && l.item[formerName] == nil {
		return nil // it only has a doubt
	}
	m, ok := retained.(*types.AttributeValueMemberM)
	if !ok {
		return odd(o.RetainedExpiry, retained, "must be a Map")
	}
	g := m.Value[retainedGeneration]
	l.generation, l.version = generation(positive(g)), plain(l.item[o.Version])
	var errs [5]error
	l.CreatedAt, _, errs[0] = parseCreated(o.CreatedAt, l.item[o.CreatedAt])
	l.ExpiresAt, errs[1] = parseExpiry(retainedAt, m.Value[retainedAt])
	l.heldUntil, errs[2] = parseExpiry(retainedTTL, m.Value[retainedTTL])
	var expired types.AttributeValue
	if expired, l.ended = m.Value[lifeEnded]; l.ended {
		l.ExpiresAt, errs[3] = parseExpiry(lifeEnded, expired)
	}
	errs[4] = instant(&l.announced, lifeAnnounced, m.Value)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if l.generation == 0 || l.CreatedAt == 0 || l.ExpiresAt == 0 {
		return odd(o.RetainedExpiry, retained, "must have a generation, an expiry and a created_at beside it")
	}
	return nil
}

// positive returns a positive whole Number, and zero for anything else.
func positive(av types.AttributeValue) uint64 {
	n, _ := av.(*types.AttributeValueMemberN)
	if n == nil {
		return 0
	}
	i, _ := strconv.ParseUint(n.Value, 10, 64)
	return i
}

func (l *lifeItem) exists() bool { return len(l.item) > 0 }

// recent reports whether a call that began then may still be under way.
func (d *core) recent(micros uint64) bool {
	return micros != 0 && d.clock().Sub(time.UnixMicro(int64(micros))).Abs() < d.doubtLasts
}

// doubtful reports whether a deletion of the value's item may be under way.
func (d *core) doubtful(l *lifeItem) bool { return d.recent(l.doubt / 2) }

// moving reports whether a life may be about to move to the value's item, without a new generation.
func (d *core) moving(l *lifeItem) bool { return l.doubt%2 == 1 && d.doubtful(l) }

// of reports whether l has the life of s.
func (l *lifeItem) of(s *stored) bool {
	return l.generation != 0 && l.generation == s.generation && l.CreatedAt == s.CreatedAt
}

// exactly is the condition that the life item is l.
func (l *lifeItem) exactly(o *Options) (c condition) {
	if !l.exists() {
		c.text = "attribute_not_exists(#k)"
		return c
	}
	c.text = "attribute_exists(#k)"
	for placeholder, name := range map[string]string{"#c": o.CreatedAt, "#e": o.Expiry, "#v": o.Version, "#x": o.RetainedExpiry, "#d": doubtName} {
		c.exactly(placeholder, l.item[name])
	}
	return c
}

// readApart reads from s what says that its life may be in Options.LifeTable.
func (d *core) readApart(s *stored) error {
	m, _ := s.retained.(*types.AttributeValueMemberM)
	is, ok := m.Value[retainedGeneration]
	switch {
	case !ok:
		return nil
	case s.CreatedAt == 0: // the expiry beside it is that of the last write
		s.unseen = d.unseen(fmt.Sprintf("must have a readable %q beside it", d.opts.CreatedAt))
		return s.unseen
	case d.opts.LifeTable == "":
		s.unseen = d.unseen("must be read with Options.LifeTable, where the record's life may be")
		return nil
	}
	g, err := strconv.ParseUint(plain(is), 10, 64)
	if err != nil || g == 0 {
		s.unseen = odd(d.opts.RetainedExpiry+"."+retainedGeneration, is, "must be a positive whole Number")
		return s.unseen
	}
	s.generation = generation(g)
	s.Version |= apartBit
	if s.Version&foreignVersion == 0 && generationOf(s.Version) == s.generation && s.heldUntil == d.holdUntil(driver.Life{CreatedAt: s.CreatedAt}) {
		s.Version |= heldAsUsual
	}
	return nil
}

// unseen is the problem of a record whose life was not read.
func (d *core) unseen(rule string) error {
	return &driver.InvalidError{Field: fmt.Sprintf("attribute %q", d.opts.RetainedExpiry), Value: "with a generation", Rule: rule}
}

// with sets the life of s to that in l, if l has it.
func (s *stored) with(l lifeItem) {
	if s.life = l; l.of(s) {
		s.ExpiresAt = l.ExpiresAt
	}
}

// ended reports whether a new life is about to begin over s, which is dead by any clock.
func (s *stored) ended() bool { return s.life.ended && s.life.of(s) }

// dead reports whether s is dead for every process from now on.
func (s *stored) dead(now driver.Instant) bool { return !s.Alive(now) || s.ended() }

// still is kit.Still of a write that needs was alive.
func (s *stored) still(was driver.Meta, now driver.Instant) kit.Verdict {
	if s.ended() {
		return kit.Gone
	}
	return kit.Still(s.Meta, was, now)
}

// holdUntil returns until when a value's item is held whose life stands apart.
func (d *core) holdUntil(l driver.Life) driver.Instant {
	o := &d.opts
	return min(max(l.CreatedAt.Add(o.Hold), l.ExpiresAt.Add(o.Retain)).RoundUp(time.Second), latest)
}

// lifeTTL returns until when a life item is held whose value's item is held until then.
func (d *core) lifeTTL(held driver.Instant) driver.Instant { return min(held.Add(d.lifeLasts), latest) }

// writesApart reports whether a record of this life is written with its life apart.
func (d *core) writesApart(l driver.Life) bool {
	return d.opts.LifeTable != "" && !d.opts.LifeInValue && l.CreatedAt != 0 && l.ExpiresAt != 0
}

// bornApart returns the attributes Expiry and RetainedExpiry of a value's item, and what its version
// becomes.
func (d *core) bornApart(l driver.Life, g generation, v driver.Version) (ttl types.AttributeValue, beside *types.AttributeValueMemberM, version driver.Version) {
	held := d.holdUntil(l)
	beside = apartMap(l.ExpiresAt.RoundUp(time.Second), held, g)
	if v |= apartBit; held == d.holdUntil(driver.Life{CreatedAt: l.CreatedAt}) {
		v |= heldAsUsual
	}
	return seconds(held), beside, v
}

func apartMap(at, ttl driver.Instant, g generation) *types.AttributeValueMemberM {
	m := retained(at, ttl).(*types.AttributeValueMemberM)
	m.Value[retainedGeneration] = number(strconv.FormatUint(uint64(g), 10))
	return m
}

// drawGeneration draws the version of a new life.
func (d *core) drawGeneration() (v driver.Version) {
	for generationOf(v) == 0 {
		v = d.draw(maxVersion - 1)
	}
	return v
}

// drawVersion draws the version of another value of the same life.
func (d *core) drawVersion(g generation) driver.Version {
	return driver.Version(g)<<generationShift | d.draw(1<<generationShift-1)
}

// apartOnly adds that the value's item is was, which stands apart. Its expiry is in the life table,
// or in the item itself with atValue.
func (c *condition) apartOnly(was driver.Meta, atValue bool) {
	c.and("attribute_exists(#x.#g) AND " + retaining)
	c.exactly("#v", versionOf(was.Version))
	if atValue {
		c.and("#x.#at = " + c.set(":is_e", seconds(was.ExpiresAt)))
	}
}

// older reports whether l, which is not of s, is of an earlier generation or of none.
func (d *core) older(l *lifeItem, s *stored) bool {
	return l.generation == 0 || l.CreatedAt.Add(d.opts.MaxSkew) < s.CreatedAt
}

// both reads the record's two items with one BatchGetItem.
func (d *core) both(ctx context.Context, k primaryKey, consistent bool) (item map[string]types.AttributeValue, s stored, err error) {
	var life map[string]types.AttributeValue
	_, err = d.batches(ctx, []primaryKey{k}, []string{d.table, d.opts.LifeTable}, consistent, func(ofLife bool, of map[string]types.AttributeValue) {
		if ofLife {
			life = of
		} else {
			item = of
		}
	})
	if err != nil {
		return nil, s, err
	}
	return d.join(ctx, k, item, life)
}

// join reads a record's two items, which were read together, and reads them again if they do not
// belong together.
func (d *core) join(ctx context.Context, k primaryKey, item, life map[string]types.AttributeValue) (_ map[string]types.AttributeValue, s stored, err error) {
	if len(item) == 0 {
		return nil, s, driver.ErrNotFound
	}
	s = d.read(item)
	if s.generation == 0 {
		return item, s, nil
	}
	l, err := d.readLife(life)
	if err != nil {
		return nil, s, err
	}
	if l.exists() && !l.of(&s) && !d.older(&l, &s) {
		item, s, err = d.ordered(ctx, k)
		if err == nil && len(item) == 0 {
			err = driver.ErrNotFound
		}
		return item, s, err
	}
	s.with(l)
	return item, s, nil
}

// ordered reads the life item, then the value's item, both strongly consistent. A life item that is
// not of the value is of an earlier generation then.
func (d *core) ordered(ctx context.Context, k primaryKey) (item map[string]types.AttributeValue, s stored, err error) {
	l, err := d.lifeOf(ctx, k)
	if err != nil {
		return nil, s, err
	}
	return d.valueAfter(ctx, k, l)
}

// valueAfter reads the value's item, after l.
func (d *core) valueAfter(ctx context.Context, k primaryKey, l lifeItem) (item map[string]types.AttributeValue, s stored, err error) {
	item, err = d.itemOf(ctx, d.table, k)
	if err != nil || len(item) == 0 {
		return nil, s, err
	}
	s = d.read(item)
	s.with(l)
	return item, s, nil
}

// lifeOf reads a life item, strongly consistent.
func (d *core) lifeOf(ctx context.Context, k primaryKey) (lifeItem, error) {
	item, err := d.itemOf(ctx, d.opts.LifeTable, k)
	if err != nil {
		return lifeItem{}, err
	}
	return d.readLife(item)
}

func (d *core) itemOf(ctx context.Context, table string, k primaryKey) (map[string]types.AttributeValue, error) {
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &table, Key: d.attributes(k), ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return nil, failed(err)
	}
	d.stats.consumed(&d.stats.ReadUnits, out.ConsumedCapacity)
	return out.Item, nil
}

// livesOf reads the life items of those items whose lives stand apart, and returns what that cost.
func (d *core) livesOf(ctx context.Context, items []map[string]types.AttributeValue, consistent bool) (lives map[primaryKey]map[string]types.AttributeValue, cost float64, err error) {
	if d.opts.LifeTable == "" {
		return nil, 0, nil
	}
	var keys []primaryKey
	seen := make(map[primaryKey]bool)
	for _, item := range items {
		if s := d.read(item); s.generation != 0 {
			if k := d.keyOf(item); !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return nil, 0, nil
	}
	var mu sync.Mutex // guards lives
	lives = make(map[primaryKey]map[string]types.AttributeValue, len(keys))
	_, err = d.batches(ctx, keys, []string{d.opts.LifeTable}, consistent, func(_ bool, item map[string]types.AttributeValue) {
		mu.Lock()
		defer mu.Unlock()
		lives[d.keyOf(item)] = item
	})
	unit := 0.5 // an item of at most 4 KB, eventually consistent
	if consistent {
		unit = 1
	}
	return lives, unit * float64(len(keys)), err
}

// heldAfter returns until when Options.Retain wants s to be held, zero if no longer than it lives.
func (d *core) heldAfter(s stored) driver.Instant {
	if until := min(s.ExpiresAt.Add(d.opts.Retain).RoundUp(time.Second), s.heldUntil); until > s.ExpiresAt {
		return until
	}
	return 0
}

// current completes s, an item that a write has met, by its life. ErrNotFound: it has gone since.
func (d *core) current(ctx context.Context, k primaryKey, s stored) (stored, error) {
	if s.generation == 0 {
		return s, nil
	}
	l, err := d.lifeOf(ctx, k)
	if err != nil {
		return s, err
	}
	if l.exists() && !l.of(&s) && !d.older(&l, &s) {
		item, s, err := d.valueAfter(ctx, k, l)
		if err == nil && len(item) == 0 {
			err = driver.ErrNotFound
		}
		return s, err
	}
	s.with(l)
	return s, nil
}

// tableName returns the name of a table that is given by its name or ARN.
func tableName(table string) string {
	return table[strings.LastIndex(table, "/")+1:]
}
