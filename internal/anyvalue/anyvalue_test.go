package anyvalue

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// table is a driver that keeps values as JSON, and is wrong where its test says so.
type table struct {
	now     time.Time
	records map[string]driver.Entry[[]byte]
	spoil   func(body []byte) []byte
	driver.Driver[Any]
}

func (d *table) Resolution() time.Duration { return time.Millisecond }

func (d *table) Get(_ context.Context, key string) (e driver.Entry[Any], err error) {
	r, ok := d.records[key]
	if !ok {
		return e, driver.ErrNotFound
	}
	e.Meta = r.Meta
	if err := json.Unmarshal(d.spoil(r.Value), &e.Value); err != nil {
		err = &driver.InvalidError{Field: "value", Value: "text", Rule: "must decode", Err: err}
		return e, err
	}
	return e, nil
}

func (d *table) write(key string, v Any, life driver.Life) (driver.Version, error) {
	b, err := json.Marshal(&v)
	if err != nil {
		return 0, &driver.InvalidError{Field: "value", Value: "v", Rule: "must encode", Err: err}
	}
	e := driver.Entry[[]byte]{Value: b, Meta: driver.Meta{Life: life, Version: d.records[key].Version + 1}}
	d.records[key] = e
	return e.Version, nil
}

func (d *table) Insert(_ context.Context, key string, v Any, life driver.Life, now driver.Instant) (driver.Version, error) {
	if r, ok := d.records[key]; ok && r.Alive(now) {
		return 0, &driver.ConflictError{Found: r.Meta}
	}
	return d.write(key, v, life)
}

func (d *table) Replace(_ context.Context, key string, v Any, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if r, ok := d.records[key]; !ok || !r.Alive(now) {
		return 0, driver.ErrNotFound
	} else if r.Meta != was {
		return 0, &driver.ConflictError{Found: r.Meta}
	}
	return d.write(key, v, life)
}

func (d *table) Touch(_ context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	r, ok := d.records[key]
	if !ok || !r.Alive(now) {
		return 0, driver.ErrNotFound
	} else if r.Meta != was {
		return 0, &driver.ConflictError{Found: r.Meta}
	}
	r.Life = life
	d.records[key] = r
	return r.Version, nil
}

func (d *table) Delete(_ context.Context, key string) error {
	delete(d.records, key)
	return nil
}

// target returns a target that reads what spoil makes of a body.
func target(t *testing.T, spoil func([]byte) []byte, check error) Target[Any] {
	d := &table{now: time.Unix(1_700_000_000, 0), records: make(map[string]driver.Entry[[]byte]), spoil: spoil}
	return Target[Any]{
		Name:     "table",
		Replaces: true,
		Shape:    Shape{Tag: "json", Flags: []string{"omitempty", "omitzero", "string"}, Own: []string{"ttl"}, Leaves: JSON},
		Box:      func(v any) Any { return Any{v} },
		Open:     func() (driver.Driver[Any], error) { return d, check },
		Image: func(v Any) (image Any, err error) {
			b, err := json.Marshal(&v)
			if err == nil {
				err = json.Unmarshal(b, &image)
			}
			return image, err
		},
		Foreign: func(_ context.Context, key string, r *rand.Rand) (string, error) {
			d.records[key] = driver.Entry[[]byte]{Value: []byte(`{"name":1}`), Meta: driver.Meta{Version: 1}}
			return "a name", nil
		},
		Now:     func() time.Time { return d.now },
		Advance: func(by time.Duration) { d.now = d.now.Add(by) },
	}
}

// A driver that keeps all is right, and each one that spoils something is found out.
func TestJudge(t *testing.T) {
	as := func(b []byte) []byte { return b }
	Run(t, 300, target(t, as, nil))
	var after Any
	if err := json.Unmarshal([]byte("{}"), &after); err != nil || after.V != struct{}{} {
		t.Errorf("after a run, a value is a %T (%v): want no type of its last case", after.V, err)
	}
	strict := target(t, as, nil)
	strict.Replaces = false
	for name, bad := range map[string]Target[Any]{
		"text that is replaced": strict,
		"a field that reads back as another": target(t, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), "{", `{"TTL":"key",`, 1))
		}, nil),
		"an unreadable value":            target(t, func(b []byte) []byte { return b[1:] }, nil),
		"a sound type refused":           target(t, as, &driver.InvalidError{Field: "T", Value: "it", Rule: "none"}),
		"a type refused without a field": target(t, as, errors.New("no")),
	} {
		found := false
		for seed := uint64(1); seed <= 300 && !found; seed++ {
			found = newCase(t.Context(), seed, []Target[Any]{bad}).judge(new(tally)) != nil
		}
		if !found {
			t.Errorf("%s is not found in 300 cases", name)
		}
	}
}
