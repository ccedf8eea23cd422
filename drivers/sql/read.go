package sql

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one SELECT.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	k, err := d.rowOf(key, d.maxKey)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	if !d.clock.Due() {
		return d.read(ctx, k, d.sql.get, k.columns, nil)
	}
	var millis int64
	sent := time.Now()
	e, err := d.read(ctx, k, d.sql.getTimed, k.columns, []any{&millis})
	if millis != 0 {
		d.observe(sent, millis)
	} else if err == driver.ErrNotFound {
		_, _ = d.ask(ctx) // no row carried the time, and the next read that asks is a second away
	}
	return e, err
}

// read runs a statement that returns first, then the row of a record.
func (d *Driver[T]) read(ctx context.Context, k rowKey, statement string, args, first []any) (driver.Entry[T], error) {
	var l life
	var s scanned[T]
	if err := d.row(ctx, k, statement, args, append(append(first, l.dest()...), d.codec.dest(&s)...)); err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(&l, &s)
}

// entry returns the scanned record.
func (d *Driver[T]) entry(l *life, s *scanned[T]) (driver.Entry[T], error) {
	if err := d.odd(l); err != nil {
		return driver.Entry[T]{}, err
	}
	v, err := d.codec.decode(s)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return driver.Entry[T]{Value: v, Meta: l.meta()}, nil
}

// meta reads a record without its value.
func (t *table) meta(ctx context.Context, k rowKey) (driver.Meta, error) {
	var l life
	var millis int64
	sent := time.Now()
	err := t.row(ctx, k, t.sql.meta, k.columns, append([]any{&millis}, l.dest()...))
	if millis != 0 {
		t.observe(sent, millis)
	}
	if err != nil {
		return driver.Meta{}, err
	}
	return l.meta(), t.odd(&l)
}

// batchSize is the most keys in one SELECT of GetMulti.
const batchSize = 512

// GetMulti implements driver.BatchGetter, with one SELECT for each 512 keys.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	place := make(map[string]int, len(keys))
	var failed driver.KeyErrors
	var rows []rowKey
	for i, key := range driver.Distinct(keys) {
		place[key] = i
		k, err := d.rowOf(key, d.maxKey)
		if err != nil {
			failed = append(failed, &driver.KeyError{Index: i, Err: err})
			continue
		}
		rows = append(rows, k)
	}
	for batch := range slices.Chunk(rows, batchSize) {
		before := failed
		add := func(key string, e driver.Entry[T], err error) {
			i, asked := place[key]
			switch {
			case !asked: // the column's collation takes two keys for one
			case err != nil:
				failed = append(failed, &driver.KeyError{Index: i, Err: err})
			default:
				found[key] = e
			}
		}
		var err error
		for range attempts {
			failed = before
			if err = d.batch(ctx, batch, false, add); !d.readLost(ctx, err) {
				break
			}
		}
		if d.dialect.verdict(err) == impossible && len(batch) > 1 && client.TxOf(ctx) == nil { // for one key
			err = d.singly(ctx, batch, add)
		}
		if err != nil {
			return found, d.failed(ctx, err, batch...)
		}
	}
	return found, failed.Err()
}

// singly is batch with a SELECT for each row.
func (d *Driver[T]) singly(ctx context.Context, keys []rowKey, add func(key string, e driver.Entry[T], err error)) error {
	for _, k := range keys {
		e, err := d.read(ctx, k, d.sql.get, k.columns, nil)
		if err != nil && !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
		if !errors.Is(err, driver.ErrNotFound) {
			add(k.key, e, err)
		}
	}
	return nil
}

// batch reads rows, locked in ctx's transaction or as latest does, and calls add for each.
func (d *Driver[T]) batch(ctx context.Context, keys []rowKey, locked bool, add func(key string, e driver.Entry[T], err error)) error {
	list, args := d.keyList(keys)
	query, dies := d.dialect.bind(d.sql.getMulti+list), never
	var first []any
	var err error
	if locked {
		query += d.sql.locks
	} else if query, first, err = d.latest(ctx, query, &dies); err != nil {
		return err
	}
	var millis int64
	sent := time.Now()
	rows, err := d.reader(ctx).Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	dead := make(map[string]bool) // which are read again as they are now
	for rows.Next() {
		key := newScannedKey(len(d.key.Columns))
		var l life
		var s scanned[T]
		unknown := millis == 0
		shape := rows.Scan(slices.Concat(first, []any{&millis}, key.dest(), l.dest(), d.codec.dest(&s))...)
		if unknown && millis != 0 {
			d.observe(sent, millis)
		}
		if dies <= int64(driver.Floor(d.Now())) {
			dead[d.key.Join(key.texts)] = true
			continue
		}
		e, err := d.entry(&l, &s)
		if shape != nil {
			err = misshapen(shape)
		}
		add(d.key.Join(key.texts), e, err)
	}
	if err := rows.Err(); err != nil || len(dead) == 0 {
		return err
	}
	return d.batch(ctx, slices.DeleteFunc(slices.Clone(keys), func(k rowKey) bool { return !dead[k.key] }), true, add)
}

// ReadTouch implements driver.ReadToucher, by an UPDATE that returns the row. If no touch
// was due, a SELECT follows. On MySQL, where no UPDATE returns a row, it is a read and then
// a touch.
func (d *Driver[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	due := known == nil
	if !due {
		_, due = a.Touch(known.Life)
	}
	timed := d.clock.Known() // so that now is the database's
	if d.sql.readTouch == "" || !due || !timed || driver.MayUndo(ctx) || !d.slots().TryAcquire() {
		e, err := d.Get(ctx, key)
		life, due := a.Touch(e.Life)
		if err != nil || !due || !e.Alive(now) || d.sql.readTouch != "" || !timed {
			return e, false, err // the caller touches it, by the database's clock
		}
		version, terr := d.Touch(ctx, key, e.Meta, life, now)
		if terr != nil {
			return e, false, nil // the caller touches it
		}
		e.Meta = driver.Meta{Life: life, Version: version}
		return e, true, nil
	}
	defer d.slots().Release()
	k, err := d.rowOf(key, d.maxKey)
	if err != nil {
		return driver.Entry[T]{}, false, err
	}
	keep, to, room, most := until(a)
	args := append([]any{to, room, most}, k.columns...)
	args = append(args, int64(now), keep, room, most, d.judge(ctx, now).by)
	var l life
	var s scanned[T]
	var millis int64
	if err := d.turn.take(ctx); err != nil {
		return driver.Entry[T]{}, false, d.failed(ctx, err, k)
	}
	sent := time.Now()
	found, err := func() (bool, error) {
		defer d.turn.pass()
		return firstRow(ctx, d.reads, d.sql.readTouch, args, append(append([]any{&millis}, l.dest()...), d.codec.dest(&s)...))
	}()
	switch {
	case err != nil && d.dialect.verdict(err) == unknown:
		return driver.Entry[T]{}, false, d.lost(ctx, err, k)
	case err != nil, !found:
		e, err := d.Get(ctx, key)
		return e, false, err
	}
	if millis != 0 && d.clock.Due() {
		d.observe(sent, millis)
	}
	e, err := d.entry(&l, &s)
	return e, err == nil, err
}

// until returns how far an access keeps a record, the expiry it writes before the cap applies, and
// the arguments of the cap.
func until(a driver.Access) (keep, to, room, most int64) {
	k, stored := a.Until()
	return int64(k), int64(stored), int64(math.MaxInt64 - a.Most), int64(a.Most)
}
