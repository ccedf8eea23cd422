package couchbase_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var bad atomic.Bool // once the records are written

// picky cannot be decoded if it is 13 or 14, and bad.
type picky struct{ N int }

func (p *picky) UnmarshalJSON(b []byte) error {
	type plain picky
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	switch {
	case !bad.Load():
	case p.N == 13:
		panic("bad value")
	case p.N == 14:
		runtime.Goexit()
	}
	return nil
}

// A value whose decoding panics, or ends its goroutine, is one failed key of a GetMulti.
func TestDecodingThatPanics(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[picky](t, f, nil), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
	keys := []string{"one", "panics", "exits", "four"}
	for i, n := range []int{1, 13, 14, 4} {
		ok(t, "Insert", s.Insert(t.Context(), keys[i], picky{n}))
	}
	bad.Store(true)
	defer bad.Store(false)
	values, err := s.GetMulti(t.Context(), keys)
	var failed slidingttl.KeyErrors
	if !errors.As(err, &failed) || len(failed) != 2 || failed[0].Index != 1 || failed[1].Index != 2 || len(values) != 2 {
		t.Errorf("%v, %v", values, err)
	}
	if _, ok := errors.AsType[*slidingttl.PanicError](err); !ok {
		t.Errorf("the panic is not told: %v", err)
	}
}

// A ParentSpan that panics, or ends its goroutine, is the call's error, where the driver calls it on a goroutine of its
// own too.
func TestParentSpanThatPanics(t *testing.T) {
	f := open(t)
	at := scanned(t, newDriver[profile](t, f, nil))
	var exits bool
	d := newDriver[profile](t, f, &couchbase.Options{ParentSpan: func(ctx context.Context) gocb.RequestSpan {
		if exits {
			runtime.Goexit()
		}
		return ctx.Value(spanKey{}).(gocb.RequestSpan)
	}})
	for _, exits = range []bool{false, true} {
		for name, call := range map[string]func() error{
			"GetMulti": func() error {
				_, err := d.GetMulti(t.Context(), []string{"k0", "k1"})
				return err
			},
			"Scan": func() error {
				_, err := d.Scan(t.Context(), at, 10)
				return err
			},
		} {
			err := call()
			if _, told := errors.AsType[*driver.PanicError](err); err == nil || told == exits {
				t.Errorf("%s, exits %t: %v", name, exits, err)
			}
		}
	}
}
