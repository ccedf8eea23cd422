package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// wheres maps the words of --where to the states of an audit.
var wheres = map[string]verdict.State{
	"malformed": verdict.Malformed, "implausible": verdict.Implausible, "dead": verdict.Dead, "retained": verdict.Retained, "past-cap": verdict.PastCap,
	"foreign": verdict.NoCreatedAt, "never-expires": verdict.NeverExpires, "beyond-policy": verdict.Beyond, "slides": verdict.Slides,
}

// listed is a record in a listing.
type listed struct {
	State     verdict.State `json:"state"`
	Key       string        `json:"key,omitempty"` // as a Go string without its quotes
	Hash      string        `json:"hash"`          // verdict.KeyHash of the key
	CreatedAt *time.Time    `json:"created_at"`
	ExpiresAt *time.Time    `json:"expires_at"`
	Problem   string        `json:"problem,omitempty"`
}

// listing has the records found, and the report of the audit that found them.
type listing struct {
	*survey.AuditReport `json:"-"`
	Found               []listed `json:"found"`
}

// String is the records as text, a line each.
func (l *listing) String() string {
	var b strings.Builder
	for _, r := range l.Found {
		name := "hash " + r.Hash
		if r.Key != "" {
			name = `"` + r.Key + `"`
		}
		fmt.Fprintf(&b, "%s\t%s\tcreated_at %s\texpires_at %s", name, strings.ReplaceAll(r.State.String(), "_", " "), clock(r.CreatedAt), clock(r.ExpiresAt))
		if r.Problem != "" {
			b.WriteString("\t" + r.Problem)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d found among %d looked at", len(l.Found), l.Records)
	return b.String()
}

func (a *app) list() *cobra.Command {
	var policy policyFlags
	var pace paceFlags
	var where []string
	var limit int
	var keys bool
	words := strings.Join(slices.Sorted(maps.Keys(wheres)), ", ")
	c := &cobra.Command{
		Use:     "list STORE",
		Short:   "List records by their state, as audit counts them; writes nothing",
		Example: `  slidingttl list dynamodb://sessions --policy "idle 30m, max 12h" --where malformed,past-cap --limit 5 --keys`,
		RunE: policy.run(func(c *cobra.Command, args []string, p slidingttl.Policy) error {
			asked := make(map[verdict.State]bool)
			for _, word := range where {
				state, ok := wheres[word]
				if !ok {
					return fmt.Errorf("%w: --where is %q: must be one or more of %s, separated by commas", errUsage, word, words)
				}
				asked[state] = true
			}
			if limit < 1 {
				return fmt.Errorf("%w: --limit is %d: must be at least 1", errUsage, limit)
			}
			return over(a, c, work{uri: args[0], pace: &pace, policy: &policy, longest: policy.longest}, func(s *store) (*listing, error) {
				ctx, enough := context.WithCancel(c.Context())
				defer enough()
				var mu sync.Mutex // guards l
				l := new(listing)
				see := func(state verdict.State, r *driver.Scanned) {
					mu.Lock()
					defer mu.Unlock()
					if !asked[state] || len(l.Found) == limit {
						return
					}
					l.Found = append(l.Found, listedAs(state, r, keys))
					if len(l.Found) == limit {
						enough()
					}
				}
				var err error
				l.AuditReport, err = survey.Audit(ctx, s.walked, p, &survey.LookOptions{Options: pace.Options, See: see})
				if errors.Is(err, context.Canceled) && c.Context().Err() == nil {
					err = nil // --limit was reached
				}
				if l.AuditReport == nil {
					return nil, err
				}
				return l, err
			})
		}),
	}
	policy.flags(c, "", "the policy")
	pace.rates(c)
	pace.some(c)
	c.Flags().StringSliceVar(&where, "where", []string{"malformed", "implausible"}, "which records: "+words)
	c.Flags().IntVar(&limit, "limit", 20, "records to list, at most")
	c.Flags().BoolVar(&keys, "keys", false, "show keys, which may be secrets, besides their hashes")
	return c
}

func listedAs(state verdict.State, r *driver.Scanned, keys bool) listed {
	found := listed{State: state, Hash: verdict.KeyHash(r.Key), CreatedAt: instant(r.CreatedAt), ExpiresAt: instant(r.ExpiresAt)}
	if keys {
		found.Key = strconv.QuoteToASCII(r.Key)
		found.Key = found.Key[1 : len(found.Key)-1]
	}
	if r.Problem != nil {
		found.Problem = strings.ReplaceAll(r.Problem.Error(), "\n", "; ")
	}
	return found
}
