package survey_test

import (
	"errors"
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

func TestInvalidOptions(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"sample": func() error {
			_, err := survey.Audit(ctx, f, policy, &survey.LookOptions{Sample: 1})
			return err
		},
		"within": func() error {
			_, err := survey.Dying(ctx, f, -1, nil)
			return err
		},
		"limit": func() error {
			_, err := survey.Dying(ctx, f, time.Hour, &survey.DyingOptions{Limit: -1})
			return err
		},
		"dying, a checkpoint": func() error {
			_, err := survey.Dying(ctx, f, time.Hour, &survey.DyingOptions{Options: upkeep.Options{Shards: 2}})
			return err
		},
		"policy": func() error {
			_, err := survey.Audit(ctx, f, slidingttl.Policy{}, nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
