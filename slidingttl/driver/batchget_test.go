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
		{"a part", map[string]error{"b": down, "d": driver.ErrNotFound, "e": odd, "f": errors.New("down too")}, func() {}, []string{"a", "c", "g"}, down},
		{"invalid", map[string]error{"e": odd}, func() {}, []string{"a", "b", "c", "d", "f", "g"}, odd},
		{"ended", map[string]error{"b": down}, cancel, []string{"a"}, down},
	} {
		found, err := driver.GetMulti(ctx, parted{nil, c.fail, c.end}, []string{"a", "b", "c", "b", "d", "e", "f", "g"})
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v; want %v and %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A store that does not answer is asked for a few of the keys only, for each may take as long as a call may.
func TestGetMultiOfDeadStore(t *testing.T) {
	down, tried := errors.New("down"), 0
	p := parted{nil, map[string]error{}, func() { tried++ }}
	keys := []string{"alive"}
	for i := range 100 {
		keys = append(keys, fmt.Sprint(i))
		p.fail[keys[i+1]] = down
	}
	p.fail["2"] = driver.ErrNotFound // an answer
	found, err := driver.GetMulti(t.Context(), p, keys)
	if len(found) != 1 || !errors.Is(err, down) || tried != 2+1+8 {
		t.Errorf("found %v, %v, with %d keys not read; want one found, and two, an absent one and eight not read", found, err, tried)
	}
}
