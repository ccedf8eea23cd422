package redis

import (
	"context"

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
	b, expiry, err := reply(ctx, d.eval(ctx, readScript, k))
	if err != nil {
		return driver.Raw{}, err
	}
	raw := driver.Raw{Format: "bytes"}
	if _, ok := d.opts.Codec.(kit.JSON); ok {
		raw.Format = "json"
	}
	var own bool
	raw.Meta, raw.Value, own, raw.Problem = split(b)
	if own {
		raw.Fields = map[string]string{"header": string(b[len(mark):min(len(b), headerLen)])}
		return raw, nil
	}
	if err := expiry.want(Integer); err != nil {
		return driver.Raw{}, err
	}
	raw.ExpiresAt = driver.Instant(max(expiry.Integer, 0))
	if raw.ExpiresAt != 0 {
		raw.Fields = map[string]string{"PEXPIRETIME": decimal(raw.ExpiresAt)}
	}
	return raw, nil
}
