package sql

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// attempts bounds how often one call is tried again because another write came in between.
const attempts = 16

// tries is how often a call may begin again: in a caller's transaction once, after it has read what
// stands in its way with a lock.
func tries(ctx context.Context) int {
	if client.TxOf(ctx) != nil {
		return 2
	}
	return attempts
}

// busyFor is how long a write is retried if SQLite is busy and has no busy_timeout.
const busyFor = 200 * time.Millisecond

// exec executes a statement and returns the number of rows.
func (t *table) exec(ctx context.Context, k rowKey, statement string, args []any) (n int64, err error) {
	err = t.send(ctx, k, func(on client.Runner) (err error) {
		n, err = on.Exec(ctx, statement, args...)
		return err
	})
	return n, err
}

// send executes a statement on a connection. It retries only if nothing was written: the
// transaction lost to another, or the connection was broken before the statement was sent.
//
// A *sql.DB would do the latter by itself. But its error is the same whether the context ended
// during the wait for a connection or during the statement, and only in the second case may the
// write have landed.
func (t *table) send(ctx context.Context, k rowKey, statement func(client.Runner) error) error {
	if tx := client.TxOf(ctx); tx != nil { // no write is ambiguous before tx is committed
		if err := statement(tx); err != nil {
			return t.failed(ctx, err, k)
		}
		return nil
	}
	err := t.turn.take(ctx)
	if err != nil {
		return t.failed(ctx, err, k)
	}
	defer t.turn.pass()
	began, again := time.Now(), false
	for try := range attempts {
		var conn client.Conn
		if conn, err = t.pool.Conn(ctx); err != nil {
			return t.failed(ctx, err, k)
		}
		err = statement(conn)
		_ = conn.Close()
		if t.dialect.verdict(err) == collided && t.turn != nil {
			if time.Since(began) > busyFor {
				break
			}
			_ = driver.Sleep(ctx, min(time.Millisecond<<try, 50*time.Millisecond))
		} else if t.dialect.verdict(err) == duplicate && t.sql.upserts && t.turn == nil && !again {
			again = true // by another unique index of the key's own row, which others insert: PostgreSQL may look there first
		} else if !t.dialect.verdict(err).again() && !t.unsent(err) {
			break
		}
	}
	if err == nil || t.unsent(err) {
		return err
	}
	return t.lost(ctx, err, k)
}

// conditional executes a write that lands on the live record was during when, or not at all. If it is
// another time, the conflict is with was, and the clock has learned that time. same means that the
// write changes nothing: MySQL then counts no row.
func (t *table) conditional(ctx context.Context, k rowKey, was driver.Meta, when period, now driver.Instant, j judge, same bool, statement string, args []any) error {
	var found driver.Meta
	args = append(args, j.during(when)...)
	for range tries(ctx) {
		if was.Alive(now) {
			n, err := t.exec(ctx, k, statement, args)
			if err != nil || n > 0 {
				return err
			}
		}
		var err error
		if found, err = t.meta(ctx, k); err != nil {
			return err
		}
		if now = max(now, j.now()); !found.Alive(now) {
			return driver.ErrNotFound
		}
		switch {
		case found != was || !when.has(j.now()):
			return &driver.ConflictError{Found: found}
		case same:
			return nil
		} // else it became was only now, or is dying
	}
	return &driver.ConflictError{Found: found}
}

// record returns the row of key, and the arguments for v.
func (d *Driver[T]) record(key string, v T) (k rowKey, values []any, err error) {
	if k, err = d.rowOf(key, d.maxKey); err == nil {
		values, err = d.codec.encode(v)
	}
	if err == nil && d.turn != nil { // SQLite
		err = d.kept(values)
	} else if err == nil {
		err = d.fit(values)
	}
	return k, values, err
}

// Insert implements driver.Driver, with one INSERT. If a record exists, a SELECT follows; on MySQL,
// if that record is dead, also an UPDATE.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, values, err := d.record(key, v)
	if err != nil {
		return 0, err
	}
	version := kit.NewVersion(math.MaxInt64)
	args := append(k.with(instant(life.CreatedAt), instant(life.ExpiresAt), sweepAt(life.ExpiresAt), int64(version)), values...)
	j := d.judge(ctx, now)
	args = append(args, j.born(life.ExpiresAt)...)
	if d.sql.upserts {
		args = append(args, j.by)
	}
	var refusal error
	for range tries(ctx) {
		n, err := d.insert(ctx, k, args)
		switch {
		case err == nil && n > 0:
			return version, nil
		case err != nil && (d.sql.upserts || d.dialect.verdict(err) != duplicate):
			return 0, err // a duplicate, where the key's own is no error: of another unique index
		}
		refusal = err
		found, err := d.meta(ctx, k)
		switch {
		case err != nil && !errors.Is(err, driver.ErrNotFound):
			return 0, err
		case j.late(ctx, life.ExpiresAt, err):
			return 0, driver.ErrLate
		case err != nil:
			continue // deleted meanwhile, or another unique index refused the row
		case found.Alive(j.now()):
			return 0, &driver.ConflictError{Found: found}
		}
		statement, args := d.replace(k, found, life, version, values)
		n, err = d.exec(ctx, k, statement, append(args, j.during(j.until(period{found.ExpiresAt, driver.MaxInstant}, life))...))
		if err != nil || n > 0 {
			return version, err
		}
	}
	if refusal == nil {
		refusal = driver.ErrConflict // written and deleted, again and again
	}
	return 0, refusal
}

// insert executes the INSERT, and learns the database's time where that returns it.
func (t *table) insert(ctx context.Context, k rowKey, args []any) (n int64, err error) {
	if !t.sql.upserts {
		return t.exec(ctx, k, t.sql.insert, args)
	}
	return n, t.send(ctx, k, func(on client.Runner) error {
		var millis int64
		sent := time.Now()
		found, err := firstRow(ctx, on, t.sql.insert, args, []any{&millis})
		if found && err == nil {
			n = 1
			t.observe(sent, millis)
		}
		return err
	})
}

// Replace implements driver.Driver, with one UPDATE.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, values, err := d.record(key, v)
	if err != nil {
		return 0, err
	}
	version, j := kit.NewVersion(math.MaxInt64), d.judge(ctx, now)
	statement, args := d.replace(k, was, life, version, values)
	if err := d.conditional(ctx, k, was, j.until(alive(was.ExpiresAt), life), now, j, false, statement, args); err != nil {
		return 0, err
	}
	return version, nil
}

// replace is the statement for that. Until Check has looked for unique columns among the values, all are
// taken for such where they are several.
func (t *table) replace(k rowKey, was driver.Meta, life driver.Life, version driver.Version, values []any) (statement string, args []any) {
	keyed := t.keyed.Load()
	by := keyed == nil && !t.json && len(t.values) > 0 || keyed != nil && *keyed
	args = append(t.lifeArgs(life), int64(version))
	switch kept := life.CreatedAt == was.CreatedAt; {
	case kept && by:
		statement, args = t.sql.replaceBy, args[1:]
	case kept:
		statement, args = t.sql.replace, args[1:]
	case by:
		statement = t.sql.renewBy
	default:
		statement = t.sql.renew
	}
	return statement, slices.Concat(args, values, k.columns, is(was))
}

// lifeArgs returns the arguments that set a life.
func (t *table) lifeArgs(life driver.Life) []any {
	args := []any{instant(life.CreatedAt), instant(life.ExpiresAt), sweepAt(life.ExpiresAt)}
	if none := t.none.Load(); none != nil {
		for i := range none {
			if args[i] == nil {
				args[i] = none[i]
			}
		}
	}
	return args
}

// Touch implements driver.Driver, with one UPDATE. It keeps the version. A touch that moves the
// expiry forward does not write sweep_at, so it updates no index.
func (t *table) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := t.rowOf(key, t.maxKey)
	if err != nil {
		return 0, err
	}
	statement, args := t.sql.forward, []any{instant(life.ExpiresAt)}
	if client.TxOf(ctx) != nil {
		statement = t.sql.forwardIn
	}
	switch keyed := t.keyed.Load(); {
	case life.CreatedAt != was.CreatedAt && keyed != nil && *keyed:
		statement, args = t.sql.touchBy, t.lifeArgs(life)
	case life.CreatedAt != was.CreatedAt:
		statement, args = t.sql.touch, t.lifeArgs(life)
	case was.ExpiresAt == 0 || life.ExpiresAt < was.ExpiresAt: // names no more columns: a trigger has the row locked by them
		statement, args = t.sql.lower, []any{instant(life.ExpiresAt), sweepAt(life.ExpiresAt)}
	}
	args = append(append(args, k.columns...), is(was)...)
	if client.TxOf(ctx) == nil { // which has its connection
		if err := t.slots().Acquire(ctx); err != nil {
			return 0, t.failed(ctx, err, k)
		}
		defer t.slots().Release()
	}
	j, when := t.judge(ctx, now), alive(was.ExpiresAt)
	if life.Alive(now) {
		when = j.until(when, life)
	} else { // it is to be over by the database's time too
		when.from = life.ExpiresAt
	}
	if err := t.conditional(ctx, k, was, when, now, j, life == was.Life, statement, args); err != nil {
		return 0, err
	}
	return was.Version, nil
}

// Remove implements driver.Remover, with one DELETE.
func (t *table) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := t.rowOf(key, t.maxKey)
	if err != nil {
		return err
	}
	return t.conditional(ctx, k, was, alive(was.ExpiresAt), now, t.judgePast(ctx, now), false, t.sql.remove, k.with(is(was)...))
}

// Delete implements driver.Driver, with one DELETE on no condition.
func (t *table) Delete(ctx context.Context, key string) error {
	k, err := t.rowOf(key, t.maxKey)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, k, t.sql.delete, k.columns)
	return err
}
