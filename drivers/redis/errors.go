package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unquoted is a server's error without the part that may quote a command or a script.
type unquoted struct{ err error }

func (e unquoted) Error() string {
	// "ERR unknown command 'EVALSHA', with args beginning with: ..."
	text, _, _ := strings.Cut(strings.TrimPrefix(e.err.Error(), "ERR "), ", with args")
	if at, _, ok := strings.Cut(text, ", on @user_script"); ok { // "... script: 305f4f8e, on @user_script:48."
		text = at[:max(strings.LastIndex(at, " script: "), 0)]
	}
	return text
}

func (e unquoted) Unwrap() error { return e.err }

// refusals are beginnings of errors about credentials and permissions. Source: redis.io, ACL,
// src/server.c; of the last two src/script.c, of Redis 7.0, and of Redis 7.2 and Valkey.
var refusals = []string{"NOAUTH", "NOPERM", "WRONGPASS", "The user executing the script can't", "ACL failure in"}

// redirects reports whether a node answers that another one has the key.
func redirects(a wire.Answer) bool {
	return a.Kind == wire.Refused && (strings.HasPrefix(a.Err.Error(), "MOVED ") || strings.HasPrefix(a.Err.Error(), "ASK "))
}

var errAnswer = errors.New("an answer of another kind")

// failed maps an answer that is none to the errors of the driver contract.
func failed(ctx context.Context, a wire.Answer) error {
	if a.Kind != wire.Refused {
		if a.Err == nil {
			return errAnswer
		}
		return kit.Ended(ctx, a.Err)
	}
	err := unquoted{a.Err}
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGTYPE"):
		return &driver.InvalidError{Field: "record", Value: "of another type than string", Rule: "must be a string", Err: err}
	case slices.ContainsFunc(refusals, func(begin string) bool { return strings.HasPrefix(text, begin) }):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// outcome reads the answer of a script that writes and was sent at sent: 1 if it wrote, 0 if there
// is no live record, else the meta of the record now stored. If that was written, the server's time
// follows, and the meta of a dead record that was replaced. An array with that time alone: by it a life
// that was to last had ended, or one that was to be over had not.
func (d *Driver[T]) outcome(ctx context.Context, sent time.Time, a wire.Answer) (found driver.Meta, err error) {
	observe := func(at []byte) {
		if ms, ok := number(at, 10); ok && len(at) == instantLen {
			d.clock.Observe(kit.ServerTime{Sent: sent, Got: time.Now(), At: driver.Instant(ms).Time(), Step: time.Millisecond})
		}
	}
	switch {
	case a.Kind == wire.Failed:
		return found, fmt.Errorf("%w: %w", driver.ErrAmbiguous, failed(ctx, a))
	case a.Kind == wire.Integer && a.Integer == 1:
		return found, nil
	case a.Kind == wire.Integer:
		return found, driver.ErrNotFound
	case a.Kind == wire.Array && len(a.Array) == 1: // the life is to be planned again
		observe(a.Array[0].String)
		return found, driver.ErrLate
	case a.Kind != wire.String:
		return found, failed(ctx, a)
	}
	text := a.String
	if found, err = parseMeta(text[:min(len(text), metaLen)]); err != nil {
		return found, err
	}
	if len(text) <= metaLen {
		return found, &driver.ConflictError{Found: found}
	}
	rest := text[metaLen:]
	observe(rest[:min(len(rest), instantLen)])
	if replaced, bad := parseMeta(rest[min(len(rest), instantLen):]); bad == nil {
		driver.Replaced(ctx, replaced)
	}
	return found, nil
}

// want returns an error unless a has that kind.
func want(a wire.Answer, k wire.Kind) error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Kind != k:
		return errAnswer
	}
	return nil
}
