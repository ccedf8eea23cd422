package redis

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record begins with a mark, and its meta as text of a fixed width: created_at, the
// expiry, the version, with spaces between. The scripts compare metas as text. Leading
// zeros keep the width, so that a touch overwrites in place.
const (
	mark        = "\x00sl1 "
	instantLen  = 15 // digits of an instant
	versionLen  = 16 // hexadecimal digits of a version
	createdAt   = 0  // offsets in a meta
	expiryAt    = createdAt + instantLen + 1
	versionAt   = expiryAt + instantLen + 1
	metaLen     = versionAt + versionLen
	headerLen   = len(mark) + metaLen + 1
	lastInstant = driver.Instant(1e15 - 1)

	// maxString is the limit on a string. Source: redis.conf, proto-max-bulk-len.
	maxString = 512 << 20
)

func appendInstant(b []byte, at driver.Instant) []byte {
	var digits [instantLen]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + at%10)
		at /= 10
	}
	return append(b, digits[:]...)
}

func appendMeta(b []byte, m driver.Meta) []byte {
	b = append(appendInstant(b, m.CreatedAt), ' ')
	b = append(appendInstant(b, m.ExpiresAt), ' ')
	for shift := 64 - 4; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[m.Version>>shift&0xf])
	}
	return b
}

// metaText returns m in the header's form.
func metaText(m driver.Meta) string { return string(appendMeta(make([]byte, 0, metaLen), m)) }

// record encodes v after a header with m.
func (d *Driver[T]) record(v T, m driver.Meta) (string, error) {
	if err := m.Life.Check(lastInstant); err != nil {
		return "", err
	}
	value, err := d.opts.Codec.Encode(v)
	if err != nil {
		return "", kit.NotEncoded(v, d.opts.Codec, kit.Unquoted{Err: err})
	}
	if len(value) > maxString-headerLen {
		return "", &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", len(value)), Rule: fmt.Sprintf("must be at most %d bytes", maxString-headerLen)}
	}
	b := append(make([]byte, 0, headerLen+len(value)), mark...)
	b = append(appendMeta(b, m), ' ')
	return string(append(b, value...)), nil
}

// number reads digits of a base up to 16.
func number(digits []byte, base uint64) (n uint64, ok bool) {
	for _, c := range digits {
		digit := base
		switch {
		case c >= '0' && c <= '9':
			digit = uint64(c - '0')
		case c >= 'a' && c <= 'f':
			digit = uint64(c-'a') + 10
		}
		if digit >= base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, true
}

// parseMeta reads the text of a meta. A version is never zero.
func parseMeta(text []byte) (driver.Meta, error) {
	if len(text) == metaLen && text[expiryAt-1] == ' ' && text[versionAt-1] == ' ' {
		created, ok1 := number(text[createdAt:expiryAt-1], 10)
		expires, ok2 := number(text[expiryAt:versionAt-1], 10)
		version, ok3 := number(text[versionAt:], 16)
		if ok1 && ok2 && ok3 && version != 0 {
			return driver.Meta{
				Life:    driver.Life{CreatedAt: driver.Instant(created), ExpiresAt: driver.Instant(expires)},
				Version: driver.Version(version),
			}, nil
		}
	}
	return driver.Meta{}, badHeader(len(text))
}

func badHeader(size int) error {
	return &driver.InvalidError{Field: "header", Value: fmt.Sprintf("%d bytes", size), Rule: "must have created_at and the expiry as 15 digits each and the version as 16 hexadecimal digits, not all zero, with a space after each"}
}

// split returns the meta and the value of a string, and whether it has a header. A string without
// one was written by another program; the caller adds its expiry.
func split(b []byte) (m driver.Meta, value []byte, own bool, err error) {
	if len(b) < len(mark) || string(b[:len(mark)]) != mark {
		return driver.Meta{Version: contentVersion(b)}, b, false, nil
	}
	header, value := b[len(mark):min(len(b), headerLen)], b[min(len(b), headerLen):]
	meta, whole := bytes.CutSuffix(header, []byte(" "))
	if !whole {
		return m, value, true, badHeader(len(header))
	}
	m, err = parseMeta(meta)
	return m, value, true, err
}

// contentVersion is the version of a string without a header. It must match lookup.lua.
func contentVersion(b []byte) driver.Version {
	sum := sha1.Sum(b)
	return driver.Version(binary.BigEndian.Uint64(sum[:8]))
}

func (d *Driver[T]) decode(value []byte, into *T) error {
	if err := d.opts.Codec.Decode(value, into); err != nil {
		return &driver.InvalidError{Field: "stored value", Value: fmt.Sprintf("%d bytes", len(value)), Rule: fmt.Sprintf("must decode as %T", into), Err: kit.Unquoted{Err: err}}
	}
	return nil
}
