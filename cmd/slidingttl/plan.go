package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/capacity"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// planned is what a policy costs under a workload.
type planned struct {
	Policy  string  `json:"policy"`
	Touches float64 `json:"touches_a_second"`
	Units   float64 `json:"write_units_a_second"`
	Money   float64 `json:"cost_a_month"`

	AdoptUnits float64 `json:"adoption_write_units"` // of all keys, once
	AdoptMoney float64 `json:"adoption_cost"`

	Deaths       float64 `json:"deaths_a_second"`
	ArchiveGB    float64 `json:"archive_gb_a_month"` // that it grows by, as stored, before compression
	ArchiveMoney float64 `json:"archive_cost_a_month"`

	ByKey []*planned `json:"by_key,omitempty"` // for each policy of --policy-for, as if all keys had it

	BySlack []bySlack `json:"by_slack,omitempty"` // with the policy's slack and others; empty with promote
}

// bySlack is what touches cost with a slack.
type bySlack struct {
	Slack   string  `json:"slack"`
	Touches float64 `json:"touches_a_second"`
	Money   float64 `json:"cost_a_month"`
	own     bool    // it is the policy's
}

func (a *app) plan() *cobra.Command {
	var under policyFlags
	w := workload{Workload: capacity.Workload{Resolution: time.Second}}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Tell what a policy's touches, the adoption and an archive cost under a workload; asks no store",
		Long: `Tells what a policy's touches cost under a workload; asks no store.

A key that is read every g on average, at random, is touched at the first read after its
slack S has passed: about every S + g. Without slack each read in a later second is a
touch. With "promote" a key is touched once in its life. By --skew some keys
are read more than others, and cost less a read. docs/capacity.md has the formula.

With --policy-for it tells the same for each policy that the file names, as if all keys had it:
how many keys a pattern has, only a store knows.`,
		Example: `  slidingttl plan --policy "idle 30d, max 90d, slack 3d" --keys 5e7 --reads 20000 --size 1024 --price 0.625`,
		RunE: under.run(func(_ *cobra.Command, _ []string, p slidingttl.Policy) error {
			if err := w.validate(); err != nil {
				return err
			}
			r, err := w.plan(p)
			if err != nil {
				return err
			}
			for _, other := range under.others {
				o, err := w.plan(other)
				if err != nil {
					return err
				}
				o.BySlack = nil
				r.ByKey = append(r.ByKey, o)
			}
			return errors.Join(a.print(r), a.draw("", r))
		}),
	}
	under.flags(c, "", "the policy")
	c.Flags().Float64Var(&w.Keys, "keys", 0, "keys in use")
	c.Flags().Float64Var(&w.Reads, "reads", 0, "reads a second, of all keys together")
	c.Flags().Float64Var(&w.Skew, "skew", 0, "exponent of Zipf's law by which keys are read; 0: all alike")
	c.Flags().Float64Var(&w.Processes, "processes", 1, "processes that share the reads")
	c.Flags().Float64Var(&w.size, "size", 1024, "bytes of a record, as the store bills it")
	c.Flags().Float64Var(&w.price, "price", 0, "price of a million write units, each of up to 1 KB of a record")
	c.Flags().Float64Var(&w.archive, "archive-price", 0, "price of a GB kept in an archive for a month")
	a.draws(c)
	return c
}

// workload is how a store is used.
type workload struct {
	capacity.Workload
	size, price, archive float64
}

func (w *workload) validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"keys", w.Keys}, {"reads", w.Reads}, {"size", w.size}} {
		if !(f.v > 0 && f.v <= 1e15) {
			return fmt.Errorf("%w: --%s is %v: must be more than zero, and at most 1e15", errUsage, f.name, f.v)
		}
	}
	if !(w.Processes >= 1) {
		return fmt.Errorf("%w: --processes is %v: must be at least 1", errUsage, w.Processes)
	}
	if !(w.price >= 0 && w.price <= 1e15 && w.archive >= 0 && w.archive <= 1e15) {
		return fmt.Errorf("%w: --price is %v, --archive-price %v: must be from 0 to 1e15", errUsage, w.price, w.archive)
	}
	return nil
}

func (w *workload) plan(p slidingttl.Policy) (*planned, error) {
	touches, err := w.Touches(p)
	if err != nil {
		return nil, err
	}
	r := &planned{Policy: p.String(), Touches: touches}
	if r.Deaths, err = w.Deaths(p); err != nil {
		return nil, err
	}
	month, units := (30 * 24 * time.Hour).Seconds(), math.Ceil(w.size/1024)
	r.Units, r.AdoptUnits = r.Touches*units, w.Keys*units
	r.Money, r.AdoptMoney = r.Units*month/1e6*w.price, r.AdoptUnits/1e6*w.price
	r.ArchiveGB = r.Deaths * month * w.size / 1e9
	r.ArchiveMoney = r.ArchiveGB * w.archive
	if p.Promote {
		return r, nil
	}
	slacks := []time.Duration{0, p.Slack}
	for _, part := range []time.Duration{1000, 200, 100, 50, 20, 10, 5, 2, 1} {
		slacks = append(slacks, (p.IdleGrace / part).Round(time.Millisecond))
	}
	slices.Sort(slacks)
	for _, slack := range slices.Compact(slacks) {
		with := p
		with.Slack, with.MaxSlack = slack, 0
		touches, err := w.Touches(with)
		if err != nil {
			return nil, err
		}
		r.BySlack = append(r.BySlack, bySlack{policy.FormatDuration(slack), touches, touches * units * month / 1e6 * w.price, slack == p.Slack})
	}
	return r, nil
}

// String is the plan as text, of several lines.
func (r *planned) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan for %s\n  touches a second      %.1f\n  write units a second  %.1f", r.Policy, r.Touches, r.Units)
	if r.Money > 0 {
		fmt.Fprintf(&b, "\n  cost of 30 days       %.2f", r.Money)
	}
	fmt.Fprintf(&b, "\nadoption of all keys, once\n  write units           %.0f", r.AdoptUnits)
	if r.AdoptMoney > 0 {
		fmt.Fprintf(&b, "\n  cost                  %.2f", r.AdoptMoney)
	}
	fmt.Fprintf(&b, "\nan archive of the dead\n  deaths a second       %.1f\n  GB more in 30 days    %.1f, before compression", r.Deaths, r.ArchiveGB)
	if r.ArchiveMoney > 0 {
		fmt.Fprintf(&b, "\n  cost of keeping them  %.2f a month", r.ArchiveMoney)
	}
	for _, other := range r.ByKey {
		b.WriteString("\n\nif all keys had another policy\n" + other.String())
	}
	return b.String()
}
