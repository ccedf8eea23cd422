package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unquoted is a server's error without the part that may quote a command or a script.
type unquoted struct{ err *rueidis.RedisError }

func (e unquoted) Error() string {
	// "ERR unknown command 'EVALSHA', with args beginning with: ..."
	text, _, _ := strings.Cut(e.err.Error(), ", with args")
	text, _, _ = strings.Cut(text, " script: ") // "... script: 305f4f8e, on @user_script:48."
	return text
}

func (e unquoted) Unwrap() error { return e.err }

// refusals are prefixes of errors about credentials and permissions. Source: redis.io, ACL,
// src/server.c; of the last one src/script.c of Redis 7.0.
var refusals = []string{"NOAUTH", "NOPERM", "WRONGPASS", "The user executing the script can't run"}

// failed maps the client's errors to those of the driver contract.
func failed(ctx context.Context, err error) error {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		if strings.Contains(answer.Error(), "WRONGTYPE") {
			return &driver.InvalidError{Field: "record", Value: "of another type than string", Rule: "must be a string", Err: unquoted{answer}}
		}
		if slices.ContainsFunc(refusals, func(code string) bool { return strings.HasPrefix(answer.Error(), code) }) {
			return fmt.Errorf("%w: %w", driver.ErrRefused, unquoted{answer})
		}
		return unquoted{answer}
	}
	return driver.Ended(ctx, err)
}

// unsure is failed for a write. If this or an earlier attempt may have landed, the error matches
// driver.ErrAmbiguous.
func unsure(ctx context.Context, err error, resent bool) error {
	if !resent && answered(err) {
		return failed(ctx, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrAmbiguous, failed(ctx, err))
}

// answered reports whether a command that failed with err was certainly not executed: the server
// said so, or there was no connection to send it on. ErrNoCache means that the connection could not
// be set up.
func answered(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" || errors.Is(err, rueidis.ErrNoCache)
}

// outcome reads the answer of a script that writes: 1 if it wrote, 0 if there is no live record,
// otherwise the meta of the record now stored, which was written or stands in the way. The meta of
// a dead record that was replaced may follow.
func outcome(ctx context.Context, res rueidis.RedisResult, resent bool) (found driver.Meta, err error) {
	message, err := res.ToMessage()
	if err != nil {
		return found, unsure(ctx, err, resent)
	}
	if message.IsInt64() {
		if n, err := message.AsInt64(); err != nil || n == 1 {
			return found, err
		}
		return found, driver.ErrNotFound
	}
	text, err := message.AsBytes()
	if err == nil {
		found, err = parseMeta(text[:min(len(text), metaLen)])
	}
	if replaced, bad := parseMeta(text[min(len(text), metaLen):]); bad == nil {
		driver.Replaced(ctx, replaced)
	}
	if err != nil {
		return found, err
	}
	return found, &driver.ConflictError{Found: found}
}
