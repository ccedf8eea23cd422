package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// gated returns option with the client's writes passing a gate.
func gated(g *drivertest.Gate, option rueidis.ClientOption) rueidis.ClientOption {
	dial := option.DialCtxFn
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		server, err := dial(ctx, address, dialer, config)
		if err != nil {
			return nil, err
		}
		return g.Conn(server, func(sent []byte) bool {
			for _, command := range []string{"EVALSHA", "EVAL", "DEL", "UNLINK", "SET"} {
				if bytes.Contains(sent, []byte("\r\n"+command+"\r\n")) {
					return true
				}
			}
			return false
		})
	}
	return option
}

// asking is a client that asks for the server's time on its own connection, so that this does
// not wait for a write that the gate stops.
type asking struct {
	rueidis.Client
	own rueidis.Client
}

func (c asking) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if word := cmd.Commands()[0]; word == "INFO" || word == "TIME" {
		return c.own.Do(ctx, cmd)
	}
	return c.Client.Do(ctx, cmd)
}

// loadHostile writes a record that no driver writes.
func loadHostile(client rueidis.Client, opts redis.Options) func(context.Context, drivertest.HostileRecord) error {
	return func(ctx context.Context, r drivertest.HostileRecord) error {
		key := opts.Prefix + r.Key
		switch {
		case r.Guarded || r.Alien && opts.Prefix == "":
			return errors.ErrUnsupported
		case r.Alien:
			key = r.Key
		}
		encode := json.Marshal
		if opts.Codec != nil {
			encode = opts.Codec.Encode
		}
		value, err := encode(drivertest.Value{Text: strings.Repeat("x", r.Size)})
		if err != nil {
			return err
		}
		text := string(value)
		if r.CreatedAt != 0 {
			text = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", r.CreatedAt, r.ExpiresAt.UnixMilli(), 0, text)
		}
		return client.Do(ctx, client.B().Set().Key(key).Value(text).PxatMillisecondsTimestamp(r.ExpiresAt.UnixMilli()).Build()).Error()
	}
}
