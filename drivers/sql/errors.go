package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// failed maps a database's error about these rows to the driver contract's errors.
func (t *table) failed(ctx context.Context, err error, keys ...rowKey) error {
	if errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrConflict) {
		return err // already mapped, by misshapen or by an earlier call in a transaction
	}
	v := t.dialect.verdict(err)
	err = kit.Ended(ctx, hidden(err, keys)) // SQLite does not say why it stopped waiting for a lock
	if tx := client.TxOf(ctx); tx != nil {
		types := t.dialect.types()
		ended := types.rollsBack && (v == collided || v == timedOut)
		if types.begin != "" {
			_, not := tx.Exec(context.WithoutCancel(ctx), types.begin)
			ended = not == nil
		}
		if ended || v == collided && ctx.Err() == nil {
			lost := fmt.Errorf("%w: begin the transaction again: %w", driver.ErrConflict, err)
			tx.Lose(lost)
			// The database would commit what follows statement by statement: end tx here too.
			if own, ok := tx.Runner.(standard[*stdsql.Tx]); ok && ended {
				_ = own.on.Rollback()
			}
			if v != impossible && v != duplicate {
				return lost
			}
		}
	}
	switch v {
	case impossible, duplicate, objected:
		return &driver.InvalidError{Field: "row", Value: "refused", Rule: "must be one that the table takes", Err: err}
	case barred:
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// lost is failed for a write. If the write may have landed, the error matches driver.ErrAmbiguous.
func (t *table) lost(ctx context.Context, err error, k rowKey) error {
	if t.dialect.verdict(err) == unknown && !errors.Is(err, driver.ErrInvalid) {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, kit.Ended(ctx, hidden(err, []rowKey{k})))
	}
	return t.failed(ctx, err, k)
}

// masked replaces an error's text, which quotes a key.
type masked struct {
	text string
	err  error
}

func (e masked) Error() string { return e.text }

func (e masked) Unwrap() error { return e.err }

// unencoded returns the beginning of the error of a client that had no form in which to send an argument;
// empty: another error. The rest may quote the argument, in a spelling of its own.
func unencoded(err error) string {
	text := err.Error()
	for _, begins := range []string{"sql: converting argument ", "failed to encode args", "simple protocol queries must be run with ", "year is not in the range"} { // database/sql, pgx, go-sql-driver
		if rest, ok := strings.CutPrefix(text, begins); ok {
			place, _, _ := strings.Cut(rest, ":")
			return begins + place
		}
	}
	if strings.HasPrefix(text, "unable to encode ") { // pgx, simple_protocol
		return "unable to encode an argument"
	}
	return ""
}

// uncoded is the verdict for an error that has no code of a database's.
func uncoded(err error) verdict {
	if err != nil && unencoded(err) != "" {
		return impossible
	}
	return unknown
}

// hidden masks the keys, and parts of keys, in err's text.
func hidden(err error, keys []rowKey) error {
	was := err.Error()
	text := was
	if begins := unencoded(err); begins != "" {
		return masked{begins, err}
	}
	for _, k := range keys {
		text = mask(text, k.key)
		for _, c := range k.columns {
			s, _, _ := sentText(c)
			text = mask(text, s)
		}
	}
	text = quotedBytes.ReplaceAllString(text, "'[bytes]'")
	if text == was {
		return err
	}
	return masked{text, err}
}

// quotedBytes is what MySQL quotes of bytes that are not text, such as a key's, and all up to the last quotation mark.
var quotedBytes = regexp.MustCompile(`(?s)'.*\\x[0-9A-F]{2}.*'`)

const (
	shortKey = 8  // bytes below which a key may be a part of other words
	cutKey   = 32 // bytes after which a database may cut a key that it quotes
)

// mask replaces key in text: a short one where it is a word.
func mask(text, key string) string {
	if key == "" {
		return text
	}
	var b strings.Builder
	within := func(r rune, size int) bool {
		return size > 0 && len(key) < shortKey && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	for from := 0; ; {
		i := strings.Index(text[from:], key[:min(len(key), cutKey)])
		if i < 0 {
			return b.String() + text[from:]
		}
		i += from
		end := i
		for end < len(text) && end-i < len(key) && text[end] == key[end-i] {
			end++
		}
		if within(utf8.DecodeLastRuneInString(text[:i])) || within(utf8.DecodeRuneInString(text[end:])) {
			b.WriteString(text[from:end])
		} else {
			b.WriteString(text[from:i] + "[key]")
		}
		from = end
	}
}
