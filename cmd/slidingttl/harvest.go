package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// harvestGrace is the default of harvest --grace.
const harvestGrace = 10 * time.Minute

func (a *app) harvest() *cobra.Command {
	var policy policyFlags
	var pace paceFlags
	var source string
	var since time.Time
	var apply bool
	var columns []string
	o := upkeep.HarvestOptions{Grace: harvestGrace}
	c := &cobra.Command{
		Use:   "harvest STORE ARCHIVE",
		Short: "Copy into an archive the dead records that the store still holds",
		Long: `Copies into an archive the dead records that the store still holds: see docs/retaining.md. It
removes nothing: the store does, or reap.

The archive keeps the position for each STORE, by its URI and --layout as given. Run harvest by a
timer, well within the retention. Each run takes what died since the last one, or resumes one that
was interrupted. A record that is harvested twice is in the archive twice until archive compact
runs; find and list print it once. An ARCHIVE is as for slidingttl archive.

A record whose stored expiry is in the future is not dead, even if it is past the cap of the
policy. --past-cap ends such lives: it sets their expiry to now, and a later harvest takes them.`,
		Example: `  slidingttl harvest "redis://cache1?prefix=session:" /var/lib/sessions/archive --source sessions --policy "idle 30m, max 12h"
  slidingttl harvest "dynamodb://links?retain=30d" s3://links-archive/dead/ --source links --policy-file policies.json --policy-name links --apply`,
		RunE: policy.run(func(c *cobra.Command, args []string, p slidingttl.Policy) error {
			if !since.IsZero() {
				o.Since = driver.Floor(since)
			}
			bury, err := archiverOf(c.Context(), args[1], source, columns, policy.of)
			if err != nil {
				return err
			}
			if apply {
				o.Bury = bury.Archive
			}
			return over(a, c, work{uri: args[0], pace: &pace, policy: &policy}, func(s *store) (*upkeep.Report, error) {
				o.Options = pace.Options
				return bury.Harvest(c.Context(), args[0]+"\x00"+pace.layout, s.walked, p, &o)
			})
		}),
	}
	policy.flags(c, "", "the policy")
	pace.rates(c)
	f := c.Flags()
	f.BoolVar(&apply, "apply", false, "write to the archive; without it nothing is written")
	f.StringVar(&source, "source", "", "`name` of the store in the archive. Always give the same: under another name records count as different")
	f.StringArrayVar(&columns, "column", nil, "a column of the archive, text, from a field of values that are JSON: `name=field`, such as user_id=user.id, by which archive forget --where finds records; may be repeated")
	f.TimeVar(&since, "since", since, []string{time.RFC3339}, `start from this time ("2026-11-22T08:00:00Z") and not from the position in the archive: leave out earlier deaths`)
	f.Var((*period)(&o.Grace), "grace", "how long a record must have been dead: more than twice --max-skew")
	pace.MaxSkew = time.Minute
	f.Var((*period)(&pace.MaxSkew), "max-skew", "how far apart the clocks of the processes that use the records may be, and the largest --max-skew of retire")
	f.BoolVar(&o.PastCap, "past-cap", false, "end the lives of records past the cap whose expiry is in the future")
	_ = c.MarkFlagRequired("source")
	return c
}

// archiverOf returns the Archiver in the archive at uri for the dead records of a store.
func archiverOf(ctx context.Context, uri, source string, columns []string, p func(key string) slidingttl.Policy) (*archive.Archiver, error) {
	var o archive.WriterOptions
	for _, c := range columns {
		name, field, ok := strings.Cut(c, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%w: --column is %q: must have the form name=field", errUsage, c)
		}
		o.Columns = append(o.Columns, archive.Field(name, field))
	}
	b, err := openArchive(ctx, uri)
	if err != nil {
		return nil, err
	}
	w, err := archive.NewWriter(b, &o)
	if err != nil {
		return nil, err
	}
	return &archive.Archiver{Writer: w, Source: source, Policy: p}, nil
}
