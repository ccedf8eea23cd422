package drivertest

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// bare hides all capabilities but those of a Driver.
type bare struct{ driver.Driver[Value] }

var bareLacks = map[Feature]string{
	KeyToucher: "hidden", Clock: "hidden", Checker: "hidden",
}

// The suite passes drivers that are right, in all the ways that stores differ.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		build func(*reference) driver.Driver[Value]
		lacks map[Feature]string
	}{
		"millisecond": {func(r *reference) driver.Driver[Value] { return r }, nil},
		"second": {func(r *reference) driver.Driver[Value] {
			r.step = time.Second
			return r
		}, nil},
		"minute": {func(r *reference) driver.Driver[Value] {
			r.step = time.Minute
			return r
		}, nil},
		"deletes late": {func(r *reference) driver.Driver[Value] {
			r.late, r.step = true, time.Second
			return r
		}, nil},
		"touch changes version": {func(r *reference) driver.Driver[Value] {
			r.remarks = true
			return r
		}, nil},
		"no capabilities": {func(r *reference) driver.Driver[Value] { return bare{r} }, bareLacks},
		"no limit on keys": {func(r *reference) driver.Driver[Value] {
			r.maxKey = 0
			return r
		}, nil},
	} {
		t.Run(name, func(t *testing.T) { Run(t, harness(c.build, c.lacks)) })
	}
}
