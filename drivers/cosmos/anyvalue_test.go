package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/internal/anyvalue"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// anyValues is how many cases of any value over any record are judged.
var anyValues = 1000

// anyTarget is a container with a layout.
func anyTarget(t *testing.T, account *cosmostest.Account, name string, o Options, key func(n uint64) string) anyvalue.Target[anyvalue.Any] {
	f := openOn[map[string]any](t, account, &o)
	own := append([]string{"id", ttlName, f.opts.CreatedAt, f.opts.ExpiresAt, f.opts.Version}, systemNames...)
	for _, p := range f.opts.PartitionKey {
		own = append(own, p.Path[1:])
	}
	return anyvalue.Target[anyvalue.Any]{
		Name:  name,
		Shape: anyvalue.Shape{Tag: "json", Flags: []string{"omitempty", "omitzero", "string"}, Own: own, Leaves: anyvalue.JSON},
		Box:   func(v any) anyvalue.Any { return anyvalue.Any{V: v} },
		Key:   key,
		Now:   account.Now, Advance: account.Advance,
		Open: func() (driver.Driver[anyvalue.Any], error) { return New[anyvalue.Any](f.container, &f.opts) },
		Image: func(v anyvalue.Any) (image anyvalue.Any, err error) {
			body, err := json.Marshal(&v)
			if err != nil {
				return image, err
			}
			d := json.NewDecoder(bytes.NewReader(body))
			d.UseNumber()
			var fields any
			if err := d.Decode(&fields); err != nil {
				return image, err
			}
			if object, ok := fields.(map[string]any); ok {
				for _, name := range own {
					delete(object, name)
				}
			}
			if body, err = json.Marshal(sameNumbers(fields)); err != nil {
				return image, err
			}
			return image, json.Unmarshal(body, &image)
		},
		Foreign: func(ctx context.Context, key string, r *rand.Rand) (string, error) { return f.putAny(ctx, key, r) },
	}
}

// sameNumbers gives equal numbers of float64 the same text.
func sameNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
	case []any:
		for i := range v {
			v[i] = sameNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = sameNumbers(v[name])
		}
	}
	return v
}

// putAny writes an item with properties of any type in place of the driver's.
func (f *fixture[T]) putAny(ctx context.Context, key string, r *rand.Rand) (string, error) {
	k, err := f.identity(key)
	if err != nil {
		return "", err
	}
	values := []string{
		`null`, `true`, `17`, `-3`, `0`, `1.5e300`, `1e21`, `1771234567`, `1971234567890`, `9007199254740993`,
		`""`, `"text"`, `"2026-03-01T11:00:00+01:00"`, `"2036-03-01T11:00:00.123456789Z"`, `"0001-01-01T00:00:00Z"`, `[]`, `[1]`, `{}`, `{"a":{}}`,
	}
	item := map[string]json.RawMessage{"name": json.RawMessage(values[r.IntN(len(values))])}
	for _, name := range []string{f.opts.CreatedAt, f.opts.ExpiresAt, f.opts.Version} {
		if r.IntN(2) == 0 {
			item[name] = json.RawMessage(values[r.IntN(len(values))])
		}
	}
	if r.IntN(2) == 0 {
		item[ttlName] = json.RawMessage([]string{`-1`, `null`, `1000000`}[r.IntN(3)])
	}
	for _, p := range f.own(k, 1) {
		if p.name != f.opts.Version {
			item[p.name] = json.RawMessage(p.value)
		}
	}
	body, err := json.Marshal(item)
	if err != nil {
		return "", err
	}
	_, err = f.container.UpsertItem(f.withKey(ctx, k), f.partitionKey(k), body, nil)
	return string(body), err
}

// What is written is read back, or refused by name: any value, over any item.
func TestAnyValue(t *testing.T) {
	account := cosmostest.Start(t)
	tenant := func(key string) string { return "tenant " + key[len(key)-1:] }
	anyvalue.Run(t, anyValues,
		anyTarget(t, account, "plain", Options{}, nil),
		anyTarget(t, account, "retained", Options{Retain: time.Hour}, nil),
		anyTarget(t, account, "tenant", Options{PartitionKey: []KeyProperty{{Path: "/tenant", Of: tenant}}, ID: Prefix("s:"), CreatedAt: "born", ExpiresAt: "Dies"}, nil),
		anyTarget(t, account, "levels", Options{PartitionKey: []KeyProperty{{Path: "/kind", Of: Fixed("k")}, {Path: "/tenant", Of: tenant}, {Path: "/id"}}}, func(n uint64) string {
			return fmt.Sprintf("é🙂 %s~", strconv.FormatUint(n, 36))
		}),
	)
}
