package redis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one GET, and a second trip for another program's
// record.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	res := d.send(ctx, d.get(k))
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) && ctx.Err() == nil {
		res = d.client.Do(ctx, again(d.get(k)))
	}
	e, _, err := d.entry(ctx, res)
	if err == errForeign {
		e, _, err = d.entry(ctx, d.eval(ctx, readScript, k))
	}
	return e, err
}

// get builds a GET that the client does not know as read-only, so that SendToReplicas does not
// apply.
func (d *Driver[T]) get(key string) rueidis.Completed {
	return d.client.B().Arbitrary("GET").Keys(key).Build()
}

// again lets the client retry a command. The client may still be writing the command that it
// retries, so it must not reuse its memory (Pin), which costs allocations.
func again(cmd rueidis.Completed) rueidis.Completed { return cmd.ToRetryable().Pin() }

// errForeign means that a string without a header was read without its expiry.
var errForeign = errors.New("no header")

// entry returns the record in the answer of a GET or a reading script, and whether the script
// touched it.
func (d *Driver[T]) entry(ctx context.Context, res rueidis.RedisResult) (e driver.Entry[T], touched bool, err error) {
	b, expiry, err := reply(ctx, res)
	if err != nil {
		return e, false, err
	}
	var value []byte
	var own bool
	if e.Meta, value, own, err = split(b); err != nil {
		return e, false, err
	}
	switch {
	case expiry != nil && own:
		var at []byte
		if at, err = expiry.AsBytes(); err == nil {
			n, _ := number(at, 10)
			e.ExpiresAt, touched = driver.Instant(n), true
		}
	case expiry != nil:
		var at int64
		if at, err = expiry.AsInt64(); err == nil {
			e.ExpiresAt = driver.Instant(max(at, 0))
		}
	case !own:
		err = errForeign
	}
	if err != nil {
		return e, false, err
	}
	return e, touched, d.decode(value, &e.Value)
}

// reply returns the string in an answer, and the expiry if the answer has one.
func reply(ctx context.Context, res rueidis.RedisResult) (b []byte, expiry *rueidis.RedisMessage, err error) {
	message, err := res.ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil, nil, driver.ErrNotFound
	}
	if err != nil {
		return nil, nil, failed(ctx, err)
	}
	if message.IsArray() {
		pair, err := message.ToArray()
		if err != nil || len(pair) != 2 {
			return nil, nil, errors.Join(errors.New("the answer is not a pair"), err)
		}
		message, expiry = pair[0], &pair[1]
	}
	b, err = message.AsBytes()
	return b, expiry, err
}
