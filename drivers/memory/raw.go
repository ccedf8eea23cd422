package memory

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader. A value in memory has no stored form, so Raw returns it
// as JSON. A value that encoding/json cannot encode is a *driver.InvalidError.
func (d *Driver[T]) Raw(_ context.Context, key string) (driver.Raw, error) {
	v, m, _, err := d.Load(key)
	if err != nil {
		return driver.Raw{}, err
	}
	codec, _ := kit.JSONOf[T]()
	b, err := codec.Encode(v)
	if err != nil {
		return driver.Raw{}, &driver.InvalidError{
			Field: "value",
			Value: fmt.Sprint("of type ", reflect.TypeFor[T]()),
			Rule:  "must be one that encoding/json takes",
			Err:   err,
		}
	}
	return driver.Raw{Meta: m, Format: "json", Value: b, Fields: map[string]string{
		"created_at": strconv.FormatInt(int64(m.CreatedAt), 10),
		"expires_at": strconv.FormatInt(int64(m.ExpiresAt), 10),
		"version":    strconv.FormatUint(uint64(m.Version), 10),
	}}, nil
}
