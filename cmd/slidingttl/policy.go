package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

// policyFlags is the flags that name a policy.
type policyFlags struct{ prefix, text, file, name string }

func (p *policyFlags) flags(c *cobra.Command, prefix, what string) {
	p.prefix = prefix
	c.Flags().StringVar(&p.text, prefix+"policy", "", what+` as text: "idle 30d, max 90d, slack 3d"`)
	c.Flags().StringVar(&p.file, prefix+"policy-file", "", what+" from the policy `file` that a service uses")
	c.Flags().StringVar(&p.name, prefix+"policy-name", "", "its name there")
	_ = c.MarkFlagFilename(prefix+"policy-file", "json")
	c.MarkFlagsMutuallyExclusive(prefix+"policy", prefix+"policy-file")
	c.MarkFlagsOneRequired(prefix+"policy", prefix+"policy-file")
	c.MarkFlagsRequiredTogether(prefix+"policy-file", prefix+"policy-name")
}

// run is what a command runs that does op under the policy.
func (p *policyFlags) run(op func(c *cobra.Command, args []string, p slidingttl.Policy) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		policy, err := p.policy()
		if err != nil {
			return err
		}
		return op(c, args, policy)
	}
}

func (p *policyFlags) policy() (slidingttl.Policy, error) {
	if p.file == "" {
		policy, err := slidingttl.ParsePolicy(p.text)
		if err != nil {
			return policy, fmt.Errorf("%w: --%spolicy: %w", errUsage, p.prefix, err)
		}
		return policy, nil
	}
	f, err := policyfile.Open(p.file, p.name)
	if err != nil {
		return slidingttl.Policy{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	policy, _ := f.Policy(p.name)
	return policy, nil
}
