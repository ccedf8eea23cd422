package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
)

func (a *app) archiveStats() *cobra.Command {
	return overDays(&cobra.Command{
		Use:   "stats ARCHIVE",
		Short: "Tell what an archive holds, as its listing tells",
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		s, err := archive.NewReader(b).Stats(c.Context(), span)
		if err != nil && !errors.Is(err, archive.ErrCorrupt) {
			return err
		}
		if s.Files == 0 {
			return errors.Join(err, a.summary(s, "the archive holds nothing of these days"))
		}
		text := fmt.Sprintf("%d days, from %s to %s\n%d rows in %d files, %d bytes\n%d files that do not count: archive compact removes them",
			s.Days, s.First, s.Last, s.Rows, s.Files, s.Bytes, s.Garbage)
		if s.Quarantined > 0 {
			text += fmt.Sprintf("\n%d records in quarantine: archive list --from quarantine", s.Quarantined)
		}
		return errors.Join(err, a.summary(s, "%s", text))
	})
}

func (a *app) archiveCompact() *cobra.Command {
	var keep int
	var apply, quiet bool
	c := overDays(&cobra.Command{
		Use:   "compact ARCHIVE",
		Short: "Merge the files of each day, keep each life once, and remove days that are too old",
		Long: `Merges the files of each day into one, and keeps each life once. It may be run beside all
else, and again after a kill. Nothing is lost by it, so it is done without --apply.

With --keep-days it then removes the days that are older. That is a dry run unless --apply is given.`,
		Example: `  slidingttl archive compact /var/lib/links/archive --to 2026-11-21 --keep-days 400 --apply`,
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		r, err := archive.Compact(c.Context(), b, &archive.CompactOptions{Span: span, Progress: a.days("compact")})
		if r != nil {
			err = errors.Join(err, a.summary(r, "%d days looked at, files of %d merged: %d into %d\n%d rows, of which %d were of lives that were there twice",
				r.Days, r.Merged, r.Files, r.Into, r.Rows, r.Dropped))
		}
		if err != nil || !c.Flags().Changed("keep-days") {
			return err
		}
		kept, err := archive.Retain(c.Context(), b, keep, &archive.RetainOptions{Apply: apply, Quiet: quiet, Progress: a.days("retain")})
		if kept == nil {
			return err
		}
		what := "removed"
		if !kept.Applied {
			what = "would be removed, a dry run"
		}
		return errors.Join(err, a.summary(kept, "%d days before %s %s: %d rows in %d files, %d bytes", kept.Days, kept.Before, what, kept.Rows, kept.Files, kept.Bytes))
	})
	c.Flags().IntVar(&keep, "keep-days", 0, "remove what died more than this number of days ago")
	c.Flags().BoolVar(&apply, "apply", false, "remove; without it no day is")
	c.Flags().BoolVar(&quiet, "quiet", false, "it is right that nothing has died for a month; else a clock is taken to be wrong")
	return c
}

func (a *app) archiveForget() *cobra.Command {
	var w writeFlags
	c := &cobra.Command{
		Use:   "forget ARCHIVE KEY",
		Short: "Remove all records of a key from an archive; a dry run unless --apply is given",
		Long: `Removes all records of a key from an archive, for the right to be erased: the files that hold
it are written anew, and the old ones removed. What a source hands over afterwards is archived: remove the
key from its store first.`,
		RunE: func(c *cobra.Command, args []string) error {
			b, err := openArchive(c.Context(), args[0])
			if err != nil {
				return err
			}
			if !w.apply {
				found, err := archive.NewReader(b).Find(c.Context(), args[1], archive.Span{})
				if err != nil && !errors.Is(err, archive.ErrCorrupt) {
					return err
				}
				r := &archive.ForgetReport{Records: int64(len(found))}
				return errors.Join(err, a.summary(r, "%d records would be forgotten, a dry run", r.Records))
			}
			if err := a.agreed(&w.paceFlags, fmt.Sprintf("About to REMOVE all records of a key from %s, for ever.", args[0])); err != nil {
				return err
			}
			r, err := archive.Forget(c.Context(), b, args[1], &archive.ForgetOptions{Progress: a.days("forget")})
			if r == nil {
				return err
			}
			return errors.Join(err, a.summary(r, "%d records forgotten; %d files written anew, of %d days looked at", r.Records, r.Files, r.Days))
		},
	}
	c.Flags().BoolVar(&w.apply, "apply", false, "remove; without it nothing is")
	c.Flags().BoolVar(&w.yes, "yes", false, "do not ask before removing")
	return c
}

func (a *app) archiveVerify() *cobra.Command {
	return overDays(&cobra.Command{
		Use:   "verify ARCHIVE",
		Short: "Read every byte of an archive, and tell what is not as it was written",
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		r, err := archive.NewReader(b).Verify(c.Context(), &archive.VerifyOptions{Span: span, Progress: a.days("verify")})
		return errors.Join(err, a.summary(r, "%d rows in %d files of %d days, %d bytes\n%d files are corrupt", r.Rows, r.Files, r.Days, r.Bytes, len(r.Corrupt)))
	})
}
