package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// inspection is the report on one record.
type inspection struct {
	Found     bool              `json:"found"`
	Alive     bool              `json:"alive"`
	Why       string            `json:"why"`
	CreatedAt *time.Time        `json:"created_at"`
	ExpiresAt *time.Time        `json:"expires_at"`
	Cap       *time.Time        `json:"cap"`
	NextRead  *time.Time        `json:"readable_until_if_read_now"`
	Version   string            `json:"version,omitempty"`
	Fields    map[string]string `json:"fields,omitempty"`
	Format    string            `json:"format,omitempty"`
	Value     string            `json:"value,omitempty"`
}

func (a *app) inspect() *cobra.Command {
	var t target
	var flags policyFlags
	var value bool
	c := &cobra.Command{
		Use:   "inspect STORE KEY",
		Short: "Tell all that is known of one record, and why it is or is not alive; touches nothing",
		RunE: flags.run(func(c *cobra.Command, args []string, _ slidingttl.Policy) error {
			s, err := t.open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			defer s.close()
			raw, err := s.Raw(c.Context(), args[1])
			found := !errors.Is(err, driver.ErrNotFound)
			if err != nil && found {
				return err
			}
			i := inspectRecord(raw, found, flags.of(args[1]), driver.Floor(time.Now()))
			if value && found {
				i.Format, i.Value = raw.Format, string(raw.Value)
				if raw.Format == "bytes" || !utf8.Valid(raw.Value) {
					i.Format, i.Value = "bytes, in base64", base64.StdEncoding.EncodeToString(raw.Value)
				}
			}
			if err := a.print(i); err != nil {
				return err
			}
			if !i.Alive {
				return errDead
			}
			return nil
		}),
	}
	t.flags(c)
	flags.flags(c, "", "the policy")
	c.Flags().BoolVar(&value, "value", false, "print the value too")
	return c
}

// inspectRecord judges a record at now under p.
func inspectRecord(raw driver.Raw, found bool, p slidingttl.Policy, now driver.Instant) *inspection {
	if !found {
		return &inspection{Why: "the store holds no record under this key"}
	}
	i := &inspection{Found: true, CreatedAt: instant(raw.CreatedAt), ExpiresAt: instant(raw.ExpiresAt), Fields: raw.Fields, Version: fmt.Sprint(raw.Version)}
	limit := (&verdict.Terms{Policy: p}).Limit(raw.CreatedAt)
	if limit != driver.MaxInstant {
		i.Cap = instant(limit)
	}
	ago := func(at driver.Instant) string { return policy.FormatDuration(now.Sub(at).Round(time.Second)) }
	switch {
	case raw.Problem != nil:
		i.Why = "its life cannot be read, so it cannot be read either: " + raw.Problem.Error()
	case !raw.Alive(now):
		i.Why = "it expired " + ago(raw.ExpiresAt) + " ago, and the store has not removed it yet"
	case limit <= now:
		i.Why = "it has been past its cap for " + ago(limit) + ": a read does not find it, whatever its expiry"
	case raw.CreatedAt == 0:
		i.Alive, i.Why = true, "it was not adopted yet: it has no created_at, and so no cap; its first read gives it both"
		i.NextRead = instant(p.Deadline(now, now))
	default:
		i.Alive, i.Why = true, "neither its expiry nor its cap has come"
		i.NextRead = instant(p.Deadline(raw.CreatedAt, now))
	}
	if doubt, unit := verdict.Doubt(raw.Life, now.Add(time.Minute)); raw.Problem == nil && doubt != "" {
		i.Why += "; " + doubt
		if unit != "" {
			i.Why += fmt.Sprintf(": slidingttl mend --created-at %s corrects it", unit)
		}
	}
	return i
}

func instant(i driver.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}

func clock(t *time.Time) string {
	if t == nil {
		return "none"
	}
	return t.Format("2006-01-02 15:04:05.000 MST")
}

// String is the inspection as text, of several lines.
func (i *inspection) String() string {
	var b strings.Builder
	state := "not alive"
	if i.Alive {
		state = "alive"
	}
	fmt.Fprintf(&b, "%s: %s", state, i.Why)
	line := func(name string, t *time.Time) { fmt.Fprintf(&b, "\n  %-28s%s", name, clock(t)) }
	if !i.Found {
		return b.String()
	}
	line("created_at", i.CreatedAt)
	line("expires_at", i.ExpiresAt)
	line("cap", i.Cap)
	if i.NextRead != nil {
		line("readable until, if read now", i.NextRead)
	}
	fmt.Fprintf(&b, "\n  %-28s%s", "version", i.Version)
	for _, name := range slices.Sorted(maps.Keys(i.Fields)) {
		fmt.Fprintf(&b, "\n  %-28s%s", "field "+name, i.Fields[name])
	}
	if i.Value != "" {
		fmt.Fprintf(&b, "\n  %-28s%s", "value ("+i.Format+")", i.Value)
	}
	return b.String()
}
