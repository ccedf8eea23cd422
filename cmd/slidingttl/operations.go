package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func (a *app) audit() *cobra.Command {
	var policy policyFlags
	var pace paceFlags
	var sample float64
	c := &cobra.Command{
		Use:     "audit STORE",
		Short:   "Tell what state all records are in, and when they die; writes nothing",
		Example: `  slidingttl audit dynamodb://sessions --policy "idle 30m, max 12h, slack 3m" --sample 0.01`,
		RunE: policy.run(func(c *cobra.Command, args []string, p slidingttl.Policy) error {
			return over(a, c, work{uri: args[0], pace: &pace, policy: &policy, longest: policy.longest}, func(s *store) (*survey.AuditReport, error) {
				return survey.Audit(c.Context(), s.walked, p, &survey.LookOptions{Options: pace.Options, Sample: sample})
			})
		}),
	}
	policy.flags(c, "", "the policy")
	pace.flags(c)
	c.Flags().Float64Var(&sample, "sample", 0, "look at this share of the records only, and bound what follows from it")
	a.draws(c)
	c.MarkFlagsMutuallyExclusive("html", "shards")
	return c
}

func (a *app) diff() *cobra.Command {
	var from, to policyFlags
	var pace paceFlags
	var sample float64
	c := &cobra.Command{
		Use:     "diff STORE",
		Short:   "Tell what a change of policy does to the records; writes nothing",
		Example: `  slidingttl diff dynamodb://sessions --from-policy "idle 30m, max 12h" --to-policy "idle 15m, max 8h"`,
		RunE: func(c *cobra.Command, args []string) error {
			before, err := from.policy()
			if err != nil {
				return err
			}
			after, err := to.policy()
			if err != nil {
				return err
			}
			return over(a, c, work{uri: args[0], pace: &pace, policy: &from, longest: to.longest}, func(s *store) (*survey.DiffReport, error) {
				pace.Store += to.about
				return survey.Diff(c.Context(), s.walked, before, after, &survey.LookOptions{Options: pace.Options, Sample: sample, ToFor: to.byKey})
			})
		},
	}
	from.flags(c, "from-", "the policy before")
	to.flags(c, "to-", "the policy after")
	pace.flags(c)
	c.Flags().Float64Var(&sample, "sample", 0, "look at this share of the records only, and bound what follows from it")
	a.draws(c)
	c.MarkFlagsMutuallyExclusive("html", "shards")
	return c
}

func (a *app) adopt() *cobra.Command {
	var policy policyFlags
	var write writeFlags
	var lived period
	var field, undo, only string
	var noUndo bool
	var o upkeep.AdoptOptions
	c := &cobra.Command{
		Use:   "adopt STORE",
		Short: "Give created_at to the records that have none, and spread their deaths",
		Example: `  slidingttl adopt couchbase://db1/app --policy "idle 30d, max 90d, slack 3d"
  slidingttl adopt couchbase://db1/app --policy-file policies.json --policy-name mobile --from-field meta.created --apply --checkpoint adopt.json`,
		RunE: policy.run(func(c *cobra.Command, args []string, p slidingttl.Policy) error {
			switch {
			case field != "":
				o.Origin = upkeep.FromField(field)
			case lived != 0:
				o.Origin = upkeep.FromExpiry(time.Duration(lived))
			}
			if only != "" {
				var err error
				if write.keys, err = a.storeKeysIn("--only", only); err != nil {
					return err
				}
				if len(write.keys) == 0 {
					return fmt.Errorf("%w: --only %s names no key", errUsage, only)
				}
			}
			w := work{uri: args[0], pace: &write.paceFlags, policy: &policy, longest: policy.longest, sizes: true}
			w.ask = fmt.Sprintf("About to write created_at and an expiry (%s) to every record of %s that carries no created_at.", &policy, args[0])
			if k := kindOf(args[0]); k != nil && k.adopts != "" {
				w.note, w.ask = k.adopts, w.ask+"\n"+k.adopts
				if write.apply && undo == "" && !noUndo {
					return fmt.Errorf("%w: adoption changes values here: --undo FILE writes down how to take it back, and --no-undo goes without", errUsage)
				}
			}
			return over(a, c, w, func(s *store) (*upkeep.Report, error) {
				o.WriteOptions = write.options()
				if undo == "" || !write.apply {
					return upkeep.Adopt(c.Context(), s.walked, p, &o)
				}
				is, err := write.of(c.Context(), s)
				if err != nil {
					return nil, err
				}
				k, err := write.keepChanges(undo, is)
				if err != nil {
					return nil, err
				}
				o.Undo = func(c upkeep.Change) error { return k.line(c) }
				r, err := upkeep.Adopt(c.Context(), s.walked, p, &o)
				return r, errors.Join(err, k.close())
			})
		}),
	}
	policy.flags(c, "", "the policy")
	write.flags(c)
	c.Flags().Var((*period)(&o.Spread), "spread", `draw created_at from this long before now ("60d"; default: as long as the policy allows)`)
	c.Flags().BoolVar(&o.Exact, "exact", false, "created_at is now, for all")
	c.Flags().StringVar(&field, "from-field", "", "created_at is in this `field` of the record, or extended attribute")
	c.Flags().Var(&lived, "from-expiry", `created_at is this long before the expiry ("90d")`)
	c.Flags().BoolVar(&o.TooOld, "too-old", false, "adopt also what the rule makes older than the policy allows, by the spread")
	c.Flags().StringVar(&only, "only", "", "look up only the keys in this `file`, such as what --errors of an earlier run wrote; - is the standard input")
	c.Flags().StringVar(&undo, "undo", "", "`file` to add to what each record was before, for slidingttl undo; it holds keys, and only its owner reads it")
	c.Flags().BoolVar(&noUndo, "no-undo", false, "write without --undo also where values change (Redis)")
	c.MarkFlagsMutuallyExclusive("from-field", "from-expiry", "exact")
	c.MarkFlagsMutuallyExclusive("undo", "no-undo")
	c.MarkFlagsMutuallyExclusive("only", "prefix")
	return c
}

// period is a flag that takes a duration in the form that policies have.
type period time.Duration

// Set implements pflag.Value.
func (p *period) Set(text string) error {
	d, err := policy.ParseDuration(text)
	if err != nil || d < time.Millisecond || d%time.Millisecond != 0 {
		return errors.New("must be a duration such as 30d, 12h or 90m")
	}
	*p = period(d)
	return nil
}

// String implements pflag.Value.
func (p *period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

// Type implements pflag.Value.
func (p *period) Type() string { return "duration" }

func (a *app) mend() *cobra.Command {
	var write writeFlags
	var unit string
	c := &cobra.Command{
		Use:   "mend STORE",
		Short: "Rewrite created_at and expiries that are in a form on which the store does not act",
		RunE: func(c *cobra.Command, args []string) error {
			w := work{uri: args[0], pace: &write.paceFlags, sizes: true}
			w.note = "slidingttl undo does not take back what mend writes."
			w.ask = fmt.Sprintf("About to rewrite created_at and expiry of the malformed records of %s.", args[0])
			if unit != "" {
				w.ask = fmt.Sprintf("About to rewrite created_at and expiry of the malformed records of %s, and each created_at that is in %s.", args[0], unit)
			}
			w.ask += "\n" + w.note
			return over(a, c, w, func(s *store) (*upkeep.Report, error) {
				return upkeep.Mend(c.Context(), s.walked, &upkeep.MendOptions{WriteOptions: write.options(), CreatedAt: unit})
			})
		},
	}
	write.flags(c)
	c.Flags().StringVar(&unit, "created-at", "", "also rewrite each implausible created_at that makes sense in this `unit`: seconds, micros or nanos")
	return c
}

func (a *app) reap() *cobra.Command {
	var policy policyFlags
	var write writeFlags
	var what []string
	o := upkeep.ReapOptions{Grace: time.Hour}
	c := &cobra.Command{
		Use:   "reap STORE",
		Short: "Remove the dead that the store will not remove",
		RunE: policy.run(func(c *cobra.Command, args []string, p slidingttl.Policy) error {
			if err := dead(what, &o); err != nil {
				return err
			}
			w := work{uri: args[0], pace: &write.paceFlags, policy: &policy}
			w.ask = fmt.Sprintf("About to DELETE every record of %s that is %s under %s, for at least %s.", args[0], strings.Join(what, " or "), &policy, o.Grace)
			return over(a, c, w, func(s *store) (*upkeep.Report, error) {
				o.WriteOptions = write.options()
				return upkeep.Reap(c.Context(), s.walked, p, &o)
			})
		}),
	}
	policy.flags(c, "", "the policy")
	write.flags(c)
	c.Flags().Var((*period)(&o.Grace), "grace", "how long a record must have been dead")
	c.Flags().StringSliceVar(&what, "what", []string{"past-cap"}, "which of the dead: past-cap; expired, which the store would remove by itself; retained, which it was told to hold for longer")
	return c
}

// dead reads the words that say which of the dead are removed.
func dead(what []string, o *upkeep.ReapOptions) error {
	words := map[string]*bool{"past-cap": &o.PastCap, "expired": &o.Expired, "retained": &o.Retained}
	for _, word := range what {
		if words[word] == nil {
			return fmt.Errorf("%w: --what is %q: must be past-cap, expired or retained, or several with commas between", errUsage, word)
		}
		*words[word] = true
	}
	return nil
}
