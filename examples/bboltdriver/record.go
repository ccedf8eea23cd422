package bboltdriver

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record is its created_at, expiry and version, eight bytes each, and then its value as
// JSON. Instants are milliseconds since 1970; zero means none.
const headerSize = 24

func join(m driver.Meta, value []byte) []byte {
	b := make([]byte, 0, headerSize+len(value))
	for _, field := range []uint64{uint64(m.CreatedAt), uint64(m.ExpiresAt), uint64(m.Version)} {
		b = binary.BigEndian.AppendUint64(b, field)
	}
	return append(b, value...)
}

// split returns what join was given. A nil record is one that is absent. The value is a part
// of it.
func split(record []byte) (m driver.Meta, value []byte, err error) {
	if record == nil {
		return m, nil, driver.ErrNotFound
	}
	if len(record) < headerSize {
		return m, nil, &driver.InvalidError{
			Field: "record",
			Value: fmt.Sprintf("%d bytes", len(record)),
			Rule:  fmt.Sprintf("must have at least %d", headerSize),
		}
	}
	m.CreatedAt = driver.Instant(binary.BigEndian.Uint64(record))
	m.ExpiresAt = driver.Instant(binary.BigEndian.Uint64(record[8:]))
	m.Version = driver.Version(binary.BigEndian.Uint64(record[16:]))
	return m, record[headerSize:], nil
}

func encode(v any) ([]byte, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return nil, &driver.InvalidError{
			Field: "value",
			Value: fmt.Sprintf("of type %T", v),
			Rule:  "must be one that encoding/json takes",
			Err:   err,
		}
	}
	return value, nil
}

func decode[T any](value []byte) (v T, err error) {
	if err := json.Unmarshal(value, &v); err != nil {
		return v, &driver.InvalidError{
			Field: "value",
			Value: fmt.Sprintf("%d bytes", len(value)),
			Rule:  fmt.Sprintf("must decode to %T", v),
			Err:   err,
		}
	}
	return v, nil
}
