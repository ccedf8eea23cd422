package drivertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// bare hides all capabilities but those of a Driver.
type bare struct{ driver.Driver[Value] }

var bareLacks = map[Feature]string{
	Clock: "hidden", Checker: "hidden", Local: "hidden", ReadToucher: "hidden", Scanner: "hidden", RawReader: "hidden", Mender: "hidden",
}

var noClock = map[Feature]string{Local: remote[Local], Clock: "hidden"}

// wrapper hides all capabilities except open ones.
type wrapper struct {
	*reference
	open bool // it hides none
}

// Wrapped implements driver.Wrapper.
func (w wrapper) Wrapped(any) (any, driver.Way) {
	if !w.open {
		return nil, driver.Past
	}
	return w.reference, driver.Past
}

// Correct drivers pass the suite, for all ways in which stores differ.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		build func(*reference) driver.Driver[Value]
		lacks map[Feature]string
	}{
		"millisecond": {func(r *reference) driver.Driver[Value] { return r }, remote},
		"second": {func(r *reference) driver.Driver[Value] {
			r.Step = time.Second
			return r
		}, remote},
		"minute": {func(r *reference) driver.Driver[Value] {
			r.Step = time.Minute
			return r
		}, remote},
		"deletes late": {func(r *reference) driver.Driver[Value] {
			r.late, r.Step = true, time.Second
			return r
		}, remote},
		"touch changes version": {func(r *reference) driver.Driver[Value] {
			r.remarks = true
			return r
		}, remote},
		// If versions change with every write and never repeat, the version alone identifies
		// the record that was read.
		"compares versions only": {func(r *reference) driver.Driver[Value] {
			r.remarks, r.unique = true, true
			d := twist(r)
			for _, op := range []string{"replace", "touch"} {
				d.takesFor(op, func(c *call, is driver.Meta) {
					if is.Version == c.Was.Version {
						c.Was = is
					}
				})
			}
			return d
		}, remote},
		"no capabilities":             {func(r *reference) driver.Driver[Value] { return bare{r} }, bareLacks},
		"wrapper of all capabilities": {func(r *reference) driver.Driver[Value] { return wrapper{r, true} }, remote},
		"wrapper of none":             {func(r *reference) driver.Driver[Value] { return wrapper{r, false} }, bareLacks},
		"local": {func(r *reference) driver.Driver[Value] {
			d := twist(r)
			d.load = d.loadCopy
			return d.driver()
		}, nil},
		"no clock": {func(r *reference) driver.Driver[Value] {
			r.late, r.trusts = true, true
			r.Has = without(r.Has, (*driver.Clock)(nil))
			return r
		}, noClock},
		"no limit on keys": {func(r *reference) driver.Driver[Value] {
			r.maxKey = 0
			return r
		}, remote},
	} {
		t.Run(name, func(t *testing.T) { Run(t, harness(c.build, c.lacks)) })
	}
}

// The suite uses the clock of a test server if it can be set.
func TestRunSetClock(t *testing.T) {
	Run(t, Harness{
		Parallel: true,
		Lacks:    remote,
		Open: func(testing.TB) *Backend {
			var server clock
			server.set(time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC))
			r := newReference()
			r.time, r.Step = server.Now, time.Second
			return &Backend{
				Driver:  r,
				Now:     server.Now,
				Wait:    server.advance,
				MaxKey:  r.maxKey,
				Plant:   r.plant,
				Malform: r.malform,
				Mar:     r.mar,
				Retain:  func(d time.Duration) driver.Driver[Value] { return r.retaining(d) },
				Fail:    r.fail,
				Own:     func(err error) bool { return errors.Is(err, errDown) },
				Hang:    r.hang,
				Again:   func() driver.Driver[Value] { return r.again() },
				Gate:    r.gate,
				Apart:   func(d time.Duration) { server.set(time.Now().Add(d)) },
				Hostile: r.hostile,
			}
		},
	})
}

// Cases chooses what runs.
func TestRunChosenCases(t *testing.T) {
	h := harness(func(r *reference) driver.Driver[Value] { return r }, remote)
	open := h.Open
	var ran []string
	h.Open = func(t testing.TB) *Backend {
		ran = append(ran, strings.TrimPrefix(t.Name(), "TestRunChosenCases/"))
		return open(t)
	}
	h.Cases = func(name string) bool { return strings.HasPrefix(name, "raw/") || name == "get/absent" }
	Run(t, h)
	if want := []string{"get/absent", "raw/record", "raw/absent", "raw/malformed"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q; want %q", ran, want)
	}
}

// A harness fails if it contradicts itself, or leaves something out without a reason.
func TestHarness(t *testing.T) {
	for name, c := range map[string]struct {
		lacks map[Feature]string
		twist func(b *Backend)
		want  string // the case that fails
		text  string // part of its message
	}{
		"unknown feature":      {lacks: map[Feature]string{"plant": "a reason"}, want: "harness", text: "no Feature"},
		"no reason":            {lacks: map[Feature]string{Plant: ""}, want: "harness", text: "no reason for Plant"},
		"has what it lacks":    {lacks: map[Feature]string{Clock: "a reason"}, want: "harness", text: "the backend has it"},
		"lacks undeclared":     {twist: func(b *Backend) { b.Plant = nil }, want: "store/adopts", text: "no Plant"},
		"fails without Own":    {twist: func(b *Backend) { b.Own = nil }, want: "harness", text: "need each other"},
		"no scanner again":     {twist: func(b *Backend) { b.Again = func() driver.Driver[Value] { return bare{b.Driver} } }, want: "scan/resumed", text: "no driver.Scanner"},
		"interface missed":     {twist: func(b *Backend) { b.Driver = bare{b.Driver} }, want: "clock/bounds", text: "no Clock"},
		"limit too low":        {twist: func(b *Backend) { b.MaxKey = -1 }, want: "harness", text: "must be at least 64"},
		"time that stands":     {twist: func(b *Backend) { b.Wait = func(time.Duration) {} }, want: "harness/time", text: "Now had moved by 0s"},
		"waits that wait less": {twist: func(b *Backend) { b.Wait = func(time.Duration) {} }, want: "life/kept-to-the-end", text: "does not move Backend.Now"},
		"plants something else": {twist: func(b *Backend) {
			plant := b.Plant
			b.Plant = func(ctx context.Context, key string, v Value, life driver.Life) error {
				life.CreatedAt++
				return plant(ctx, key, v, life)
			}
		}, want: "touch/adopts", text: "Backend.Plant wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			lacks := maps.Clone(remote)
			maps.Copy(lacks, c.lacks)
			h := harness(func(r *reference) driver.Driver[Value] { return r }, lacks)
			if c.twist != nil {
				open := h.Open
				h.Open = func(t testing.TB) *Backend {
					b := open(t)
					c.twist(b)
					return b
				}
			}
			all := cases()
			i := slices.IndexFunc(all, func(tc testCase) bool { return tc.name == c.want })
			failures := h.failures(t, all[i])
			if text := strings.Join(failures, "\n"); !strings.Contains(text, c.text) {
				t.Errorf("%s fails with %q; want %q in it", c.want, text, c.text)
			}
		})
	}
}

// Every case has a name of its own, for -run, and an explanation.
func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range cases() {
		if seen[c.name] || strings.ContainsAny(c.name, " _") || strings.Count(c.name, "/") > 1 {
			t.Errorf("case %q: names must differ, have no spaces and at most one slash", c.name)
		}
		seen[c.name] = true
		if !strings.HasSuffix(c.explanation, ".") {
			t.Errorf("case %s: the explanation is no sentence: %q", c.name, c.explanation)
		}
		for _, f := range c.needs {
			if features[f] == nil {
				t.Errorf("case %s needs %q, which is no Feature", c.name, f)
			}
		}
	}
}
