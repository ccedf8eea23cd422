package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func (a *app) archive() *cobra.Command {
	c := &cobra.Command{
		Use:   "archive",
		Short: "Find dead records in an archive, and keep the archive in order",
		Long: `Finds dead records in an archive, and keeps the archive in order.

An ARCHIVE is a directory, or s3://bucket/prefix/?region=R, with credentials as the AWS SDK finds
them. kms= names the KMS key that the server encrypts with. tiers=30:STANDARD_IA,180:GLACIER_IR
sets the storage class by the age of a day: give it to all commands, and run compact daily.`,
	}
	c.AddCommand(a.archiveFind(), a.archiveList(), a.archiveStats(), a.archiveCompact(), a.archiveForget(), a.archiveVerify(), a.archiveRepair(), a.archiveFiles())
	return c
}

// overDays makes c run op on the days of an archive that --from and --to give.
func overDays(c *cobra.Command, op func(c *cobra.Command, b archive.Bucket, days archive.Span, args []string) error) *cobra.Command {
	var days archive.Span
	f := c.Flags()
	f.TextVar(&days.From, "from", days.From, "the first `day`: 2026-11-22 (default: the archive's first)")
	f.TextVar(&days.To, "to", days.To, "the last `day` (default: the archive's last)")
	f.Lookup("from").DefValue, f.Lookup("to").DefValue = "", "" // none, and not the first day of all
	c.RunE = func(c *cobra.Command, args []string) error {
		if days.From != 0 && days.To != 0 && days.From > days.To {
			return fmt.Errorf("%w: --from %s is after --to %s", errUsage, days.From, days.To)
		}
		b, err := openArchive(c.Context(), args[0])
		if err != nil {
			return err
		}
		return op(c, b, days, args)
	}
	return c
}

// days shows the progress of an operation over days, if there is a terminal.
func (a *app) days(what string) func(next archive.Day, done, days int) {
	return func(next archive.Day, done, days int) {
		if a.line(fmt.Sprintf("%s: %s, %d of %d days", what, next, done, days)); done == days {
			a.line("")
		}
	}
}

func (a *app) archiveFind() *cobra.Command {
	return overDays(&cobra.Command{
		Use:     "find ARCHIVE KEY",
		Short:   "Print the records that died under a key; exits with 4 if there are none",
		Example: `  slidingttl archive find s3://links-archive/dead/ abc --from 2026-11-01`,
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		key, err := keyOf(args[1])
		if err != nil {
			return err
		}
		found, err := archive.NewReader(b).Find(c.Context(), key, span)
		if err != nil && !errors.Is(err, archive.ErrCorrupt) {
			return err
		}
		var lines []string
		for i := range found {
			text, err := lifeText(&found[i])
			if err != nil {
				return err
			}
			lines = append(lines, text)
		}
		if len(found) == 0 {
			found, lines = []archive.Archived{}, []string{"the archive holds no record under this key"}
		}
		err = errors.Join(err, a.summary(found, "%s", strings.Join(lines, "\n")))
		if err == nil && len(found) == 0 {
			err = errDead
		}
		return err
	})
}

// lifeText is a dead record as several lines of text.
func lifeText(a *archive.Archived) (string, error) {
	clock := func(i driver.Instant) string {
		if i == 0 {
			return "none"
		}
		return i.Time().Format("2006-01-02 15:04:05.000 MST")
	}
	var as struct{ Value json.RawMessage } // JSON, or bytes in base64
	text, err := json.Marshal(a)
	if err == nil {
		err = json.Unmarshal(text, &as)
	}
	return fmt.Sprintf("died (%s), from %s, generation %s\n  created_at  %s\n  expired_at  %s\n  archived_at %s\n  value       %s",
		a.Reason, a.Source, a.Generation, clock(a.CreatedAt), clock(a.ExpiredAt), clock(a.ArchivedAt), as.Value), err
}

func (a *app) archiveList() *cobra.Command {
	return overDays(&cobra.Command{
		Use:   "list ARCHIVE",
		Short: "Print the records that died within some days, one line of JSON each",
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		var corrupt []error
		e := json.NewEncoder(a.out)
		for r, err := range archive.NewReader(b).All(c.Context(), span) {
			switch {
			case errors.Is(err, archive.ErrCorrupt):
				corrupt = append(corrupt, err)
			case err != nil:
				return err
			default:
				if err := e.Encode(r); err != nil {
					return err
				}
			}
		}
		return errors.Join(corrupt...)
	})
}
