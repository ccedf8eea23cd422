package driver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// parted has keys of which some are on a part that does not answer.
type parted struct {
	driver.Driver[string]
	fail map[string]error
	end  func() // called with each Get that fails
}

func (p parted) Get(_ context.Context, key string) (driver.Entry[string], error) {
	if err := p.fail[key]; err != nil {
		p.end()
		return driver.Entry[string]{}, err
	}
	return driver.Entry[string]{Value: key}, nil
}

// A store without batches is read beyond a key that fails, unless the context has ended. The first
// failure is reported: keys that are left out are absent only without one.
func TestGetMultiBeyondFailures(t *testing.T) {
	down, odd := errors.New("down"), &driver.InvalidError{Field: "record", Rule: "odd"}
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		fail map[string]error
		end  func()
		want []string
		err  error
	}{
		{"a part", map[string]error{"b": down, "d": driver.ErrNotFound, "e": odd, "f": down}, func() {}, []string{"a", "c", "g"}, down},
		{"invalid", map[string]error{"e": odd}, func() {}, []string{"a", "b", "c", "d", "f", "g"}, odd},
		{"ended", map[string]error{"a": down, "b": down, "c": down, "d": down, "e": down, "f": down, "g": down}, cancel, nil, down},
	} {
		tried := 0
		found, err := driver.GetMulti(ctx, parted{nil, c.fail, func() { tried++; c.end() }}, []string{"a", "b", "c", "b", "d", "e", "f", "g"})
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v; want %v and %v", c.name, got, err, c.want, c.err)
		}
		if ctx.Err() != nil && tried != 1 {
			t.Errorf("%s: %d reads failed; want one, with which the context ended", c.name, tried)
		}
	}
}

// A store that does not answer is asked for a few of the keys only, for each may take as long as a call may.
func TestGetMultiOfDeadStore(t *testing.T) {
	down := errors.New("down")
	for answers := range 4 {
		tried := 0
		p := parted{nil, map[string]error{}, func() { tried++ }}
		var keys []string
		for i := range 1000 {
			keys = append(keys, fmt.Sprint(i))
			p.fail[keys[i]] = down
		}
		for _, key := range keys[:answers] {
			p.fail[key] = driver.ErrNotFound // an answer
		}
		tried = 0
		found, err := driver.GetMulti(t.Context(), p, keys)
		if len(found) != 0 || !errors.Is(err, down) || tried < 16 || tried > 17*answers+16 {
			t.Errorf("found %v, %v, with %d calls; want the failure, and sixteen failures more than each of %d answers allows", found, err, tried, answers)
		}
	}
}

// A part of the store that does not answer hides no key of the other parts, wherever its keys stand.
func TestGetMultiBesideDeadPart(t *testing.T) {
	down := errors.New("down")
	p := parted{nil, map[string]error{}, func() {}}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		if i < 500 {
			p.fail[keys[i]] = down
		}
	}
	keys[600], keys[800] = keys[400], keys[700] // again
	odd := &driver.InvalidError{Field: "record", Rule: "odd"}
	p.fail[keys[501]], p.fail[keys[999]] = odd, odd
	found, err := driver.GetMulti(t.Context(), p, keys)
	if len(found) != 500-2-2 || !errors.Is(err, down) {
		t.Errorf("%d of 496 sound keys found, %v; want all, and the failure", len(found), err)
	}
	clear(p.fail)
	p.fail[keys[501]], p.fail[keys[999]] = odd, odd
	_, err = driver.GetMulti(t.Context(), p, keys)
	if failed, ok := err.(driver.KeyErrors); !ok || len(failed) != 2 || failed[0].Index != 501 || failed[1].Index != 999 {
		t.Errorf("%v; want errors of keys 501 and 999, in this order", err)
	}
}
