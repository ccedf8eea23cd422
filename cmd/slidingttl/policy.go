package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

// policyFlags is the flags that name a policy, or several by key.
type policyFlags struct {
	prefix, text, file, name, patterns string

	all     slidingttl.Policy
	byKey   func(key string) slidingttl.Policy // nil: all is for all keys
	others  []slidingttl.Policy                // those of byKey besides all, each once
	longest time.Duration                      // of all policies
	about   string                             // names the policies by key in a checkpoint
}

func (p *policyFlags) flags(c *cobra.Command, prefix, what string) {
	p.prefix = prefix
	c.Flags().StringVar(&p.text, prefix+"policy", "", what+` as text: "idle 30d, max 90d, slack 3d"`)
	c.Flags().StringVar(&p.file, prefix+"policy-file", "", what+" from the policy `file` that a service uses")
	c.Flags().StringVar(&p.name, prefix+"policy-name", "", "its name there")
	_ = c.MarkFlagFilename(prefix+"policy-file", "json")
	c.MarkFlagsMutuallyExclusive(prefix+"policy", prefix+"policy-file")
	c.MarkFlagsOneRequired(prefix+"policy", prefix+"policy-file")
	c.MarkFlagsRequiredTogether(prefix+"policy-file", prefix+"policy-name")
	c.Flags().StringVar(&p.patterns, prefix+"policy-for", "", "`file` of names in --"+prefix+`policy-file by key, {"acme:*": "web"}; --`+prefix+"policy-name is for the other keys")
	_ = c.MarkFlagFilename(prefix+"policy-for", "json")
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

// policy reads the policies, and returns that of keys without one of their own.
func (p *policyFlags) policy() (_ slidingttl.Policy, err error) {
	if p.file == "" && p.patterns != "" {
		return p.all, fmt.Errorf("%w: --%spolicy-for: needs --%[2]spolicy-file, which has the policies", errUsage, p.prefix)
	}
	if p.file == "" {
		if p.all, err = slidingttl.ParsePolicy(p.text); err != nil {
			return p.all, fmt.Errorf("%w: --%spolicy: %w", errUsage, p.prefix, err)
		}
		p.longest = p.all.Longest()
		return p.all, nil
	}
	f, err := policyfile.Open(p.file, p.name)
	if err != nil {
		return p.all, fmt.Errorf("%w: %w", errUsage, err)
	}
	p.all, _ = f.Policy(p.name)
	p.longest = p.all.Longest()
	if p.patterns != "" {
		if err := p.readPatterns(f); err != nil {
			return p.all, fmt.Errorf("%w: --%spolicy-for %s: %w", errUsage, p.prefix, p.patterns, err)
		}
	}
	return p.all, nil
}

// of returns the policy of key.
func (p *policyFlags) of(key string) slidingttl.Policy {
	if p.byKey == nil {
		return p.all
	}
	return p.byKey(key)
}

// String names the policies in a question.
func (p *policyFlags) String() string {
	if p.byKey == nil {
		return p.all.String()
	}
	return fmt.Sprintf("%s, and others by key from %s", p.all, p.patterns)
}

// patterns are the policies of --policy-for. The first pattern that matches a key counts.
type patterns struct {
	policies []slidingttl.Policy // in the order of the file, and then the one for other keys
	keys     map[string]int      // the place of whole keys
	starts   map[string]int      // and of beginnings of keys
	lengths  []int               // of starts, each once
}

// match returns the place of the first pattern that has key or, if all is set, that has also all keys
// which begin with it; the number of patterns if none has.
func (p *patterns) match(key string, all bool) int {
	first := len(p.keys) + len(p.starts)
	if i, ok := p.keys[key]; ok && !all {
		first = i
	}
	for _, n := range p.lengths {
		if n > len(key) {
			continue
		}
		if i, ok := p.starts[key[:n]]; ok {
			first = min(first, i)
		}
	}
	return first
}

// readPatterns reads --policy-for, whose names are of f. A name that is unknown, or a pattern that an
// earlier one leaves no keys to, is an error.
func (p *policyFlags) readPatterns(f *policyfile.File) error {
	content, err := os.ReadFile(p.patterns)
	if err == nil {
		err = json.Unmarshal(content, new(map[string]string))
	}
	if err == nil && !utf8.Valid(content) {
		err = errors.New("must be UTF-8: it names no other keys")
	}
	if err != nil {
		return err
	}
	read := patterns{keys: make(map[string]int), starts: make(map[string]int)}
	sum := sha256.New()
	d := json.NewDecoder(bytes.NewReader(content)) // of an object of strings: no Token fails
	for _, _ = d.Token(); d.More(); {
		t, _ := d.Token()
		pattern := fmt.Sprint(t)
		at := d.InputOffset()
		t, _ = d.Token()
		name := fmt.Sprint(t)
		policy, ok := f.Policy(name)
		start, isStart := strings.CutSuffix(pattern, "*")
		place := len(read.policies)
		switch {
		case !ok:
			return fmt.Errorf("%q, before byte %d: --%spolicy-file has no policy %q", pattern, at, p.prefix, name)
		case strings.ContainsRune(pattern, utf8.RuneError):
			return fmt.Errorf("%q, before byte %d: has half a surrogate, or U+FFFD", pattern, at)
		case strings.Contains(start, "*"):
			return fmt.Errorf("%q, before byte %d: must be a key, or the beginning of keys with one * at its end", pattern, at)
		case read.match(start, isStart) < place:
			return fmt.Errorf("%q, before byte %d: is given twice, or an earlier pattern has all its keys", pattern, at)
		case isStart:
			read.starts[start] = place
			if !slices.Contains(read.lengths, len(start)) {
				read.lengths = append(read.lengths, len(start))
			}
		default:
			read.keys[start] = place
		}
		read.policies = append(read.policies, policy)
		if policy != p.all && !slices.Contains(p.others, policy) {
			p.others = append(p.others, policy)
		}
		p.longest = max(p.longest, policy.Longest())
		_, _ = fmt.Fprintf(sum, "%q %s\n", pattern, policy)
	}
	read.policies = append(read.policies, p.all)
	p.byKey = func(key string) slidingttl.Policy { return read.policies[read.match(key, false)] }
	p.about = fmt.Sprintf(", policies by key %x", sum.Sum(nil)[:8])
	return nil
}
