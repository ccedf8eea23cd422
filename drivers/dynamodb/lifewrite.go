package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// updateLife updates the life item under k on a condition, and returns the item before.
func (d *core) updateLife(ctx context.Context, f *attempts, k primaryKey, c condition, update string) (was map[string]types.AttributeValue, err error) {
	in := &dynamodb.UpdateItemInput{
		TableName:                           &d.opts.LifeTable,
		Key:                                 d.attributes(k),
		UpdateExpression:                    &update,
		ExpressionAttributeNames:            d.used(update + c.text),
		ExpressionAttributeValues:           c.values,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValues:                        types.ReturnValueAllOld,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if c.text != "" {
		in.ConditionExpression = &c.text
	}
	out, err := d.client.UpdateItem(ctx, in, f.follow)
	if err == nil {
		d.stats.consumed(&d.stats.TouchUnits, out.ConsumedCapacity)
		return out.Attributes, nil
	}
	item, refusal := refused(err)
	if refusal {
		d.stats.count(&d.stats.Refused)
	}
	return item, err
}

// touchApart is Touch of a record whose life stands apart.
func (d *core) touchApart(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	err := d.moveLife(ctx, f, k, was, life, 0, now)
	if errors.Is(err, errMoving) {
		return d.touchValue(ctx, f, k, was, life, formatOf(was.Version), now)
	}
	if err != nil {
		return 0, err
	}
	if d.holdUntil(life) > d.holdUntil(driver.Life{CreatedAt: life.CreatedAt}) {
		return was.Version &^ heldAsUsual, nil // the value's item is held longer now
	}
	return was.Version, nil
}

// errMoving says that a life item must not be written now: another process may be about to move the life
// to the value's item, or to write a version that must not get a lower expiry.
var errMoving = errors.New("the life moves to the value's item")

// moveLife gives the record was the expiry of life. next is the version that an overwrite is about to
// write, zero for a touch. In the usual case it makes one request, which only sees the life item.
func (d *core) moveLife(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, life driver.Life, next driver.Version, now driver.Instant) error {
	at, version := life.ExpiresAt.RoundUp(time.Second), next
	if next == 0 {
		version = was.Version
	}
	var l lifeItem
	var refusal error
	if was.Alive(now) && was.Version&foreignVersion == 0 && versionOf(was.Version) != nil {
		item, err := d.moveUnseen(ctx, f, k, was, life, next, now)
		if err == nil {
			return nil
		}
		if _, refused := refused(err); !refused {
			return f.Failed(ctx, failed(err))
		}
		refusal = err
		if l, err = d.readLife(item); err != nil {
			return err
		}
	} else {
		var err error
		if l, err = d.lifeOf(ctx, k); err != nil {
			return err
		}
	}
	for range maxSends {
		// Beside a doubt, also one that has run out, only the value's item tells whether the record is there.
		named := l.doubt == 0 && l.generation != 0 && l.generation == generationOf(was.Version) && l.CreatedAt == was.CreatedAt && l.version == plain(versionOf(was.Version))
		// A proxy may send it twice: the version of an overwrite is its own. Of touches that end a life, one is told so.
		landed := (next != 0 || f.Unsure() && life.Alive(now)) && l.CreatedAt == was.CreatedAt && l.ExpiresAt == at && l.version == plain(versionOf(version)) && !l.ended
		switch {
		case landed && l.doubt == 0:
			return nil // it landed, or another touch did the same
		case named && (l.ended || !l.Alive(now)):
			return f.Refused(ctx, kit.Gone, driver.Meta{}, nil, refusal)
		case named && l.ExpiresAt != was.ExpiresAt:
			return f.Refused(ctx, kit.InTheWay, driver.Meta{Life: l.Life, Version: was.Version}, nil, refusal)
		}
		item, s, err := d.valueAfter(ctx, k, l)
		switch {
		case err != nil:
			return f.Failed(ctx, err)
		case len(item) == 0 || s.odd == nil && s.dead(now):
			return f.Refused(ctx, kit.Gone, driver.Meta{}, nil, refusal)
		case s.odd != nil:
			return f.Refused(ctx, kit.Unreadable, s.Meta, s.odd, refusal)
		case landed && s.Meta == driver.Meta{Life: l.Life, Version: was.Version}:
			return nil
		case s.Meta != was || s.generation == 0:
			return f.Refused(ctx, kit.InTheWay, s.Meta, nil, refusal)
		}
		announced := l.of(&s) && l.version != plain(versionOf(s.Version)) && d.recent(l.announced)
		if d.moving(&l) || announced && next == 0 && at < was.ExpiresAt {
			return errMoving
		}
		if s.heldUntil < life.ExpiresAt.Add(d.opts.Retain) {
			if held, err := d.holdLonger(ctx, f, k, &s, life); err != nil {
				return f.Failed(ctx, failed(err))
			} else if !held {
				if l, err = d.lifeOf(ctx, k); err != nil {
					return f.Failed(ctx, err)
				}
				continue
			}
		}
		c, x, held := l.exactly(&d.opts), apartMap(at, s.heldUntil, s.generation), s.heldUntil
		// A version that an overwrite has announced stays: it may be about to write its value.
		stays := next == 0 && announced
		switch {
		case next != 0:
			held = max(held, d.holdUntil(life))
			x.Value[lifeAnnounced] = d.announcing()
		case stays:
			x.Value[lifeAnnounced] = number(strconv.FormatUint(l.announced, 10))
		}
		set := []string{
			"#x = " + c.set(":x", x),
			"#c = " + c.set(":c", text(s.CreatedAt.Time().Format(kit.RFC3339Milli))),
			"#e = " + c.set(":e", seconds(max(l.ttl, d.lifeTTL(held)))),
		}
		var remove []string
		if !stays {
			c.name(version, &set, &remove)
		}
		set = append(set, l.succeeds(&c, &s)...)
		if l.doubt != 0 && !d.doubtful(&l) {
			remove = append(remove, "#d")
		}
		found, err := d.updateLife(ctx, f, k, c, updateOf(set, remove))
		if err == nil {
			return nil
		}
		if _, refused := refused(err); !refused {
			return f.Failed(ctx, failed(err))
		}
		refusal = err
		if l, err = d.readLife(found); err != nil {
			return err
		}
	}
	return f.Refused(ctx, kit.InTheWay, was, nil, refusal)
}

// name adds to an update of a life item that it names the version of a value, which may have none.
func (c *condition) name(v driver.Version, set, remove *[]string) {
	if version := versionOf(v); version != nil {
		*set = append(*set, "#v = "+c.set(":v", version))
	} else {
		*remove = append(*remove, "#v")
	}
}

// announcing is the time of an announcement that is made now.
func (d *core) announcing() types.AttributeValue {
	return number(strconv.FormatInt(d.clock().UnixMicro(), 10))
}

// moveUnseen moves the life of was without a look at the value's item. That is safe if the life item
// has exactly that life, or if there is none and the record is young: the end of a generation leaves a
// mark there, and no erasure can have removed it yet. The other half of doubtLasts is for calls under way.
// Where it is known how long the value's item is held, or about to be, the life item is held longer.
func (d *core) moveUnseen(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, life driver.Life, next driver.Version, now driver.Instant) (map[string]types.AttributeValue, error) {
	var c condition
	at := life.ExpiresAt.RoundUp(time.Second)
	needed := at.Add(d.opts.Retain)
	held := d.holdUntil(driver.Life{CreatedAt: was.CreatedAt})
	known := was.Version&heldAsUsual != 0 && needed <= held
	c.text = "#x.#at = " + c.set(":is_e", seconds(was.ExpiresAt)) +
		" AND #c = " + c.set(":c", text(was.CreatedAt.Time().Format(kit.RFC3339Milli))) +
		" AND #v = " + c.set(":is_v", versionOf(was.Version)) +
		" AND #x.#ttl >= " + c.set(":needed", seconds(needed)) +
		" AND attribute_not_exists(#x.#o) AND attribute_not_exists(#d)"
	least := d.lifeTTL(held)
	if next != 0 {
		least = d.lifeTTL(d.holdUntil(life))
	}
	if known || next != 0 {
		c.text += " AND #e >= " + c.set(":least", seconds(least))
	}
	var set []string
	if known {
		if now.Sub(was.CreatedAt).Abs() < d.doubtLasts/2 {
			c.text = "attribute_not_exists(#k) OR " + c.text
		}
		x := apartMap(at, held, generationOf(was.Version))
		if next != 0 {
			x.Value[lifeAnnounced] = d.announcing()
		}
		set = []string{"#x = " + c.set(":x", x), "#c = :c", "#e = if_not_exists(#e, :least)"}
	} else {
		set = []string{"#x.#at = " + c.set(":e", seconds(at))}
		if next != 0 {
			set = append(set, "#x.#n = "+c.set(":a", d.announcing()))
		}
	}
	version := next
	if next == 0 {
		version = was.Version
	}
	update := updateOf(append(set, "#v = "+c.set(":v", versionOf(version))), nil)
	return d.updateLife(ctx, f, k, c, update)
}

// holdLonger moves the ttl of the value's item behind the life's expiry, at the price of a write of
// the whole item. It reports false if the item is not s any more.
func (d *core) holdLonger(ctx context.Context, f *attempts, k primaryKey, s *stored, life driver.Life) (bool, error) {
	held := d.holdUntil(life)
	m := s.retained.(*types.AttributeValueMemberM)
	at, _ := parseExpiry(retainedAt, m.Value[retainedAt])
	c := over(s, s.Meta, 0)
	update := "SET #e = " + c.set(":e", seconds(held)) + ", #x = " + c.set(":x", apartMap(at, held, s.generation))
	err := d.update(ctx, k, c, update, f.follow)
	if _, refusal := refused(err); refusal {
		d.stats.count(&d.stats.Refused)
		return false, nil
	}
	if err == nil {
		s.heldUntil = held
	}
	return err == nil, err
}

// doubtMark is a doubt that this driver has set.
type doubtMark struct {
	id      uint64
	before  bool     // there was one already
	atValue bool     // the record's life is in the value's item
	over    lifeItem // the life item before
}

// newDoubt draws a doubt within a second from now, so that two calls of one instant do not take each other's
// for their own.
func (d *core) newDoubt() uint64 {
	return 2 * (uint64(d.clock().UnixMicro()) + uint64(d.draw(1<<20-1)))
}

// markTTL is when DynamoDB may remove a life item that has only a doubt: not before the expiry of any
// record that the doubt may be about.
func (d *core) markTTL(l driver.Life) driver.Instant {
	return d.lifeTTL(max(driver.Ceil(d.clock()).Add(d.opts.Hold).RoundUp(time.Second), d.holdUntil(l)))
}

// doubt sets a doubt in the life item of was, whose value's item is about to be deleted or, with moving,
// to get another life. A removal does not mind that the life has been ended already.
func (d *core) doubt(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, moving bool, now driver.Instant) (doubtMark, error) {
	m := doubtMark{id: d.newDoubt()}
	if moving {
		m.id++
	}
	send := func(c condition, ttl string) (lifeItem, error) {
		update := "SET #d = " + c.set(":d", number(strconv.FormatUint(m.id, 10))) + ", #e = " + ttl
		found, err := d.updateLife(ctx, f, k, c, update)
		l, odd := d.readLife(found)
		return l, cmp.Or(odd, err)
	}
	var l lifeItem
	var err error
	if was.Alive(now) && versionOf(was.Version) != nil {
		var c condition
		c.text = "attribute_not_exists(#k) OR #x.#at = " + c.set(":is_e", seconds(was.ExpiresAt)) +
			" AND #c = " + c.set(":c", text(was.CreatedAt.Time().Format(kit.RFC3339Milli))) +
			" AND #v = " + c.set(":is_v", versionOf(was.Version)) + " AND attribute_not_exists(#x.#o) AND attribute_not_exists(#d)"
		if l, err = send(c, "if_not_exists(#e, "+c.set(":e", seconds(d.markTTL(was.Life)))+")"); err == nil {
			m.atValue, m.over = l.generation == 0, l
			return m, nil
		}
	} else if l, err = d.lifeOf(ctx, k); err != nil {
		return m, err
	}
	for range maxSends {
		if _, refused := refused(err); err != nil && !refused {
			return m, f.Failed(ctx, failed(err))
		}
		if l.doubt == m.id { // it landed
			m.atValue, m.over = l.generation == 0 || m.atValue, l
			return m, nil
		}
		item, s, odd := d.valueAfter(ctx, k, l)
		switch {
		case odd != nil:
			return m, f.Failed(ctx, odd)
		case len(item) == 0 || s.odd == nil && (!s.Alive(now) || moving && s.ended()):
			return m, f.Refused(ctx, kit.Gone, driver.Meta{}, nil, err)
		case s.odd != nil:
			return m, f.Refused(ctx, kit.Unreadable, s.Meta, s.odd, err)
		case s.Meta != was:
			return m, f.Refused(ctx, kit.InTheWay, s.Meta, nil, err)
		}
		m.before, m.atValue, m.over = d.doubtful(&l), !l.of(&s), l
		if d.moving(&l) {
			m.id |= 1
		}
		c := l.exactly(&d.opts)
		if l, err = send(c, c.set(":e", seconds(max(l.ttl, d.markTTL(was.Life))))); err == nil {
			return m, nil
		}
	}
	return m, f.Refused(ctx, kit.InTheWay, was, nil, err)
}

// undoubt removes a doubt whose deletion was refused, unless another deletion has one too. A doubt that
// stays costs touches a read of the value, and nothing else.
func (d *core) undoubt(ctx context.Context, f *attempts, k primaryKey, m doubtMark) {
	if m.before || f.Unsure() {
		return
	}
	var c condition
	c.exactly("#d", number(strconv.FormatUint(m.id, 10)))
	_, _ = d.updateLife(ctx, f, k, c, "REMOVE #d")
}

// settle takes the mark m back after the value's item has got another generation, by version, and gives
// the life item its life. Until then touches write the value's item. It does nothing if another process has
// set a doubt meanwhile. Over another doubt it leaves one without a mark: what else was about to move the life
// is refused by the value's item now, but a deletion may still be under way.
func (d *core) settle(ctx context.Context, k primaryKey, m doubtMark, life driver.Life, version driver.Version) {
	if !d.writesApart(life) {
		return
	}
	held := d.holdUntil(life)
	var c condition
	c.exactly("#d", number(strconv.FormatUint(m.id, 10)))
	c.and("#e >= " + c.set(":least", seconds(d.lifeTTL(held))))
	set := []string{
		"#x = " + c.set(":x", apartMap(life.ExpiresAt.RoundUp(time.Second), held, generationOf(version))),
		"#c = " + c.set(":c", text(life.CreatedAt.Time().Format(kit.RFC3339Milli))),
		"#v = " + c.set(":v", versionOf(version)),
	}
	if m.over.CreatedAt != life.CreatedAt { // it has the life before
		set = append(set, m.over.succeeds(&c, &stored{})...)
	}
	var remove []string
	if m.before {
		set = append(set, "#d = "+c.set(":left", number(strconv.FormatUint(m.id&^1, 10))))
	} else {
		remove = []string{"#d"}
	}
	_, _ = d.updateLife(ctx, &attempts{Attempts: kit.Attempts{Named: true}}, k, c, updateOf(set, remove))
}

// doubtAny sets a doubt in the life item, whatever the record is. Of a life item that cannot be read
// nothing else is left: its record is about to go.
func (d *core) doubtAny(ctx context.Context, f *attempts, k primaryKey) error {
	id, ttl := d.newDoubt(), d.markTTL(driver.Life{})
	var remove []string
	var c condition
	c.text = "attribute_not_exists(#d) AND (attribute_not_exists(#e) OR #e <= " + c.set(":e", seconds(ttl)) + ")"
	for sends := 1; ; sends++ {
		set := []string{"#d = " + c.set(":d", number(strconv.FormatUint(id, 10))), "#e = :e"}
		found, err := d.updateLife(ctx, f, k, c, updateOf(set, remove))
		if _, refused := refused(err); err != nil && (!refused || sends == maxSends) {
			return f.Failed(ctx, failed(err))
		}
		l, odd := d.readLife(found)
		if (err == nil || l.doubt == id) && (odd == nil || remove != nil) {
			return nil
		}
		if c = l.exactly(&d.opts); err == nil { // the doubt is set, over what cannot be read
			c = condition{}
			c.exactly("#d", number(strconv.FormatUint(id, 10)))
		}
		remove = nil
		if odd != nil {
			remove = []string{"#x", "#c", "#v", "#b"}
		}
		if odd != nil || d.moving(&l) {
			id |= 1
		}
		c.set(":e", seconds(max(l.ttl, ttl)))
	}
}

// end ends the life of s, a dead record over which a new life is about to begin. Where a life may be about
// to move to the value's item it sets a mark too, which it returns, and ends nothing. It reports false if the life item
// is not the one of s any more.
func (d *core) end(ctx context.Context, k primaryKey, s *stored) (m doubtMark, ended bool, err error) {
	l := &s.life
	if s.ended() {
		return m, true, nil
	}
	c := l.exactly(&d.opts)
	f := attempts{Attempts: kit.Attempts{Named: true}}
	var set, remove []string
	if d.moving(l) {
		m = doubtMark{id: d.newDoubt() | 1, before: true, over: *l}
		set = []string{
			"#d = " + c.set(":d", number(strconv.FormatUint(m.id, 10))),
			"#e = " + c.set(":e", seconds(max(l.ttl, d.markTTL(s.Life)))),
		}
	} else {
		x := apartMap(s.ExpiresAt, s.heldUntil, s.generation)
		x.Value[lifeEnded] = seconds(s.ExpiresAt)
		set = append(l.succeeds(&c, s),
			"#x = "+c.set(":x", x),
			"#c = "+c.set(":c", text(s.CreatedAt.Time().Format(kit.RFC3339Milli))),
			"#e = "+c.set(":e", seconds(max(l.ttl, d.lifeTTL(s.heldUntil)))))
		c.name(s.Version, &set, &remove)
	}
	found, err := d.updateLife(ctx, &f, k, c, updateOf(set, remove))
	if err == nil {
		return m, true, nil
	}
	var refusal *types.ConditionalCheckFailedException
	if !errors.As(err, &refusal) {
		return m, false, err
	}
	is, err := d.readLife(found)
	return m, err == nil && (is.of(s) && is.ended || m.id != 0 && is.doubt == m.id), err
}

// replaceApart is Replace of a record whose life stands apart.
func (d *Driver[T]) replaceApart(ctx context.Context, f *attempts, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return 0, err
	}
	same := life.CreatedAt == was.CreatedAt && d.writesApart(life) && life.ExpiresAt.RoundUp(time.Second) >= was.ExpiresAt
	g := generation(0)
	switch {
	case same && was.Version&heldAsUsual != 0:
		g = generationOf(was.Version)
	case same: // its generation is not in its version
		item, err := d.itemOf(ctx, d.table, k)
		if err != nil {
			return 0, err
		}
		s := d.read(item)
		if g = s.generation; g == 0 {
			same = false // another record, as the condition will find
		}
	}
	put, version, err := d.put(key, v, life, d.format(was, life), g)
	if err != nil {
		return 0, err
	}
	is, m := was, doubtMark{}
	if same {
		err = d.moveLife(ctx, f, k, was, life, version, now)
		if is.ExpiresAt = life.ExpiresAt.RoundUp(time.Second); errors.Is(err, errMoving) {
			same, is = false, was
			put, version, err = d.put(key, v, life, d.format(was, life), 0)
		}
		if err != nil {
			return 0, err
		}
	}
	if !same {
		if m, err = d.doubt(ctx, f, k, was, true, now); err != nil {
			return 0, err
		}
	}
	err = d.conditional(ctx, f, k, func(found *stored) error {
		var c condition
		if found == nil {
			c.apartOnly(was, m.atValue)
			if same {
				c.and("#e <= " + c.set(":ttl", put.Item[d.opts.Expiry]))
			}
		} else {
			c = over(found, was, now)
			if same && found.heldUntil > d.holdUntil(life) { // which no write moves back
				put.Item[d.opts.Expiry] = seconds(found.heldUntil)
				put.Item[d.opts.RetainedExpiry] = apartMap(life.ExpiresAt.RoundUp(time.Second), found.heldUntil, g)
				version &^= heldAsUsual
			}
		}
		return d.sendPut(ctx, f, put, c)
	}, func(found stored) kit.Verdict {
		if found.Version&^(apartBit|heldAsUsual) == version&^(apartBit|heldAsUsual) {
			return kit.Landed
		}
		return found.still(is, now)
	})
	switch {
	case same:
	case err != nil:
		d.undoubt(ctx, f, k, m)
	default:
		d.settle(ctx, k, m, life, version)
	}
	return versionUnless(err, version), err
}

// touchValue is Touch of a record whose life stands apart, and which is to have it in its own item, for
// good or with another generation.
func (d *core) touchValue(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, life driver.Life, format TimeFormat, now driver.Instant) (driver.Version, error) {
	m, err := d.doubt(ctx, f, k, was, true, now)
	if err != nil {
		return 0, err
	}
	opts, version := d.opts, was.Version&^(apartBit|heldAsUsual)
	if life.CreatedAt == 0 { // back to another program's record
		opts.Retain, version = 0, 0
	}
	var ttl types.AttributeValue
	var beside *types.AttributeValueMemberM
	apart := life.CreatedAt == was.CreatedAt && d.writesApart(life)
	if apart {
		version = d.drawGeneration()
		ttl, beside, version = d.bornApart(life, generationOf(version), version)
	}
	version = marked(version, format)
	err = d.conditional(ctx, f, k, func(found *stored) error {
		var c condition
		if found == nil {
			c.apartOnly(was, m.atValue)
		} else {
			c = over(found, was, now)
		}
		set, remove := opts.move(&c, life.ExpiresAt)
		if apart {
			set, remove = []string{"#e = " + c.set(":e", ttl), "#x = " + c.set(":x", beside), "#v = " + c.set(":v", versionOf(version))}, nil
		}
		if life.CreatedAt == 0 {
			remove = append(remove, "#c", "#v")
		} else if life.CreatedAt != was.CreatedAt {
			set = append(set, "#c = "+c.set(":c", format.written(life.CreatedAt)))
		}
		return d.update(ctx, k, c, updateOf(set, remove), f.follow)
	}, func(found stored) kit.Verdict {
		switch {
		case found.odd != nil:
			return kit.Unreadable
		case apart && found.Version == version, f.Stored(found.Meta, driver.Meta{Life: life, Version: version}, false, now):
			return kit.Landed
		}
		return found.still(was, now)
	})
	if err != nil {
		d.undoubt(ctx, f, k, m)
	} else if apart {
		d.settle(ctx, k, m, life, version)
	}
	return versionUnless(err, version), err
}

// removeApart is Remove of a record whose life stands apart.
func (d *core) removeApart(ctx context.Context, f *attempts, k primaryKey, was driver.Meta, now driver.Instant) error {
	m, err := d.doubt(ctx, f, k, was, false, now)
	if err != nil {
		return err
	}
	err = d.conditional(ctx, f, k, func(found *stored) error {
		var c condition
		if found == nil {
			c.apartOnly(was, m.atValue)
		} else {
			c = over(found, was, now)
		}
		return d.sendDelete(ctx, f, k, c)
	}, func(found stored) kit.Verdict { return kit.Still(found.Meta, was, now) })
	if err != nil {
		d.undoubt(ctx, f, k, m)
	}
	return err
}
