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

// unquoted is an error of the server without what its text may quote of a command or tell of a
// script.
type unquoted struct{ err *rueidis.RedisError }

func (e unquoted) Error() string {
	// "ERR unknown command 'EVALSHA', with args beginning with: ..."
	text, _, _ := strings.Cut(e.err.Error(), ", with args")
	text, _, _ = strings.Cut(text, " script: ") // "... script: 305f4f8e, on @user_script:48."
	return text
}

func (e unquoted) Unwrap() error { return e.err }

// refusals begin the errors about who asks. Source: redis.io, ACL, src/server.c, and of the last
// src/script.c of Redis 7.0.
var refusals = []string{"NOAUTH", "NOPERM", "WRONGPASS", "The user executing the script can't run"}

// failed gives an error of the client the form that the contract asks for.
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

// unsure is failed for a write: it tells of one that may have landed, by this attempt or by one
// before it.
func unsure(ctx context.Context, err error, resent bool) error {
	if !resent && answered(err) {
		return failed(ctx, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrAmbiguous, failed(ctx, err))
}

// answered reports whether a command that failed with err is sure not to have been
// carried out: the server has said so, or there was no connection to send it by. ErrNoCache
// is one that could not be set up.
func answered(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" || errors.Is(err, rueidis.ErrNoCache)
}

// outcome is the answer of a script that writes: 1 if it has, 0 if there is no live
// record, and otherwise the meta of the one that it left, which is in the way or was written, with
// behind it that of a dead one that was replaced.
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
