package redis

import (
	"context"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader: one trip. The format is "json", or "bytes" where
// Options.Codec is set.
func (d *Driver[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Raw{}, err
	}
	b, expiry, err := reply(ctx, wire.Answer{Kind: wire.Array, Array: d.client.DoMulti(ctx, []wire.Command{
		{Words: []string{"GET"}, Key: k}, {Words: []string{"PEXPIRETIME"}, Key: k},
	})})
	if err != nil {
		return driver.Raw{}, err
	}
	raw := driver.Raw{Format: "bytes"}
	if _, ok := d.opts.Codec.(kit.JSON); ok {
		raw.Format = "json"
	}
	var own bool
	raw.Meta, raw.Value, own, raw.Problem = split(b)
	if err := want(*expiry, wire.Integer); err != nil {
		return driver.Raw{}, err
	}
	at := min(driver.Instant(max(expiry.Integer, 0)), lastInstant)
	if own {
		raw.Life = earlier(raw.Life, at)
		raw.Fields = map[string]string{"header": string(b[len(mark):min(len(b), headerLen)])}
		return raw, nil
	}
	raw.ExpiresAt = at
	if raw.ExpiresAt != 0 {
		raw.Fields = map[string]string{"PEXPIRETIME": decimal(raw.ExpiresAt)}
	}
	return raw, nil
}

// earlier returns l, which a header tells, with an earlier expiry that another program gave the key: the server
// deletes it then.
func earlier(l driver.Life, at driver.Instant) driver.Life {
	if at != 0 && at < l.ExpiresAt {
		l.ExpiresAt = at
	}
	return l
}
