package upkeep_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

var policy = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type fixture = walktest.Store

func open(t testing.TB) *fixture {
	t.Helper()
	return walktest.Open(t, nil)
}

func metaOf(f *fixture, key string) driver.Meta {
	f.T.Helper()
	e, err := f.Get(f.T.Context(), key)
	ok(f.T, err)
	return e.Meta
}

func TestInvalidOptions(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"segments": func() error {
			_, err := survey.Audit(ctx, f, policy, &survey.LookOptions{Options: upkeep.Options{Segments: -1}})
			return err
		},
		"rate": func() error {
			_, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Limits: upkeep.Limits{Records: -1}}}})
			return err
		},
		"writers": func() error {
			_, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: upkeep.WriteOptions{Writers: -1}})
			return err
		},
		"spread": func() error {
			_, err := upkeep.Adopt(ctx, f, policy, &upkeep.AdoptOptions{Spread: 61 * day})
			return err
		},
		"spread of what is exact": func() error {
			_, err := upkeep.Adopt(ctx, f, policy, &upkeep.AdoptOptions{Spread: day, Exact: true})
			return err
		},
		"grace": func() error {
			_, err := upkeep.Reap(ctx, f, policy, &upkeep.ReapOptions{Grace: -1})
			return err
		},
		"checkpoint of another operation": func() error {
			o := &survey.LookOptions{}
			o.Resume = &upkeep.Checkpoint{Operation: "adopt", Segments: []driver.Cursor{"x"}}
			_, err := survey.Audit(ctx, f, policy, o)
			return err
		},
	} {
		if err := call(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func keysOf(f *fixture) (keys []string) {
	cursors, err := f.Segments(f.T.Context(), 1)
	ok(f.T, err)
	for at := cursors[0]; at != ""; {
		p, err := f.Scan(f.T.Context(), at, 1000)
		ok(f.T, err)
		for _, r := range p.Records {
			keys = append(keys, strings.Clone(r.Key))
		}
		at = p.Next
	}
	slices.Sort(keys)
	return keys
}
