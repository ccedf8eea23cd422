package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// told is the content of the file of dying --since.
type told struct {
	Of      identity  `json:"of"`
	Through time.Time `json:"through"`
}

func (a *app) dying() *cobra.Command {
	var pace paceFlags
	var o survey.DyingOptions
	var file string
	var last told
	within := period(time.Hour)
	c := &cobra.Command{
		Use:   "dying STORE",
		Short: "Tell which records die soon unless they are read, a line of JSON each; writes nothing",
		Example: `  slidingttl dying "postgres:///app?table=sessions" --within 1h | kcat -P -b broker1 -t dying
  slidingttl dying sessions --within 30m --since sessions.told --config slidingttl.json   # each minute`,
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" {
				if err := readJSON(file, &last); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%w: --since: %w", errUsage, err)
				}
				o.Since = max(1, driver.Floor(last.Through)) // 1: the first run must leave none out either
			}
			err := over(a, c, work{uri: args[0], pace: &pace}, func(s *store) (*survey.DyingReport, error) {
				var is identity
				if file != "" {
					var err error
					if is, err = pace.of(c.Context(), s); err != nil {
						return nil, err
					}
				}
				if last.Of.Store != nil && !last.Of.same(is) {
					return nil, fmt.Errorf("%w: --since %s is of the store %q: must be of %q", errUsage, file, last.Of, is)
				}
				o.Options = pace.Options
				r, err := survey.Dying(c.Context(), s.walked, time.Duration(within), &o)
				if r != nil && r.More {
					say(a.err, "others die by "+r.Until.Format(time.RFC3339)+" too, after these: see --limit")
				}
				if r != nil {
					last = told{is, r.Through}
				}
				return r, err
			})
			if err != nil || file == "" {
				return err
			}
			return put(file, func(w io.Writer) error { return json.NewEncoder(w).Encode(last) })
		},
	}
	pace.rates(c)
	c.Flags().Var(&within, "within", "how soon they die")
	c.Flags().IntVar(&o.Limit, "limit", 10000, "records told, and half of those held in memory, at most")
	c.Flags().StringVar(&file, "since", "", "`file` that keeps how far the last run told, so that a timer tells each expiry once; --within no longer than the idle grace leaves none out. A key that was told and touched is not told again if its cap comes as soon")
	return c
}
