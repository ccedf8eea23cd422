package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
)

func (a *app) archiveStats() *cobra.Command {
	return overDays(&cobra.Command{
		Use:   "stats ARCHIVE",
		Short: "Count an archive's days, files, rows and bytes, from its listing",
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		s, err := archive.NewReader(b).Stats(c.Context(), span)
		if err != nil && !errors.Is(err, archive.ErrCorrupt) {
			return err
		}
		return errors.Join(err, a.print(s))
	})
}

func (a *app) archiveCompact() *cobra.Command {
	var keep int
	var apply, quiet bool
	c := overDays(&cobra.Command{
		Use:   "compact ARCHIVE",
		Short: "Merge the files of each day, keep each life once, and remove days that are too old",
		Long: `Merges the files of each day into one, and keeps each life once. It may run beside all other
programs, and again after a kill. It loses nothing, so it needs no --apply.

With --keep-days it then removes older days, also if a file of a day is corrupt or lost. That is a
dry run unless --apply is given.`,
		Example: `  slidingttl archive compact /var/lib/links/archive --to 2026-11-21 --keep-days 400 --apply`,
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		r, err := archive.Compact(c.Context(), b, &archive.Walk{Span: span, Progress: a.days("compact")})
		if r != nil {
			err = errors.Join(err, a.print(r))
		}
		if err != nil && !errors.Is(err, archive.ErrCorrupt) && !errors.Is(err, archive.ErrLocked) || !c.Flags().Changed("keep-days") {
			return err
		}
		kept, failed := archive.Retain(c.Context(), b, keep, &archive.Walk{Apply: apply, Quiet: quiet, Progress: a.days("retain")})
		if err = errors.Join(err, failed); kept == nil {
			return err
		}
		return errors.Join(err, a.print(kept))
	})
	c.Flags().IntVar(&keep, "keep-days", 0, "remove records that died more than this number of days ago")
	c.Flags().BoolVar(&apply, "apply", false, "remove the days; without it nothing is removed")
	c.Flags().BoolVar(&quiet, "quiet", false, "accept that nothing has died for a month; otherwise that is an error, because a clock may be wrong")
	return c
}

func (a *app) archiveForget() *cobra.Command {
	e := eraser{app: a}
	c := &cobra.Command{
		Use:   "forget ARCHIVE [KEY]",
		Short: "Remove all records of a key or a person from an archive; a dry run unless --apply is given",
		Long: `Removes the records of a key, or of a person, for the right to erasure. It rewrites the files that
hold them, removes the old files in all versions that a bucket keeps, and then checks all days again.
If it is killed, run it again. Under Object Lock it reports until when files cannot be removed.

Remove the keys from their store first: records that a source hands over later are archived.

--json, or --report FILE, has what was asked for, what was found of it and where, and a digest. --check
FILE proves such a report again.`,
		Example: `  slidingttl archive forget s3://links-archive/dead/ --where user_id=4711 --apply`,
		RunE: func(c *cobra.Command, args []string) error {
			e.archives = args[:1]
			return e.run(c, args[1:], nil)
		},
	}
	e.flags(c)
	c.Flags().StringVar(&e.where, "where", "", "forget records with this value in one of the archive's columns: `column=value`")
	return c
}

func (a *app) archiveVerify() *cobra.Command {
	return overDays(&cobra.Command{
		Use:   "verify ARCHIVE",
		Short: "Read every byte of an archive, and report what differs from what was written",
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		r, err := archive.NewReader(b).Verify(c.Context(), &archive.Walk{Span: span, Progress: a.days("verify")})
		return errors.Join(err, a.print(r))
	})
}

func (a *app) archiveRepair() *cobra.Command {
	var apply bool
	c := overDays(&cobra.Command{
		Use:   "repair ARCHIVE",
		Short: "Make what remains of damaged days readable; a dry run unless --apply is given",
		Long: `Reads every byte, as verify does. Of a day with lost or damaged files it writes a manifest that names
the whole ones, and declares the others lost. If a file is lost, files that no longer counted count
again, because they may have its rows: run forget again for what was forgotten since, then compact.
Copy damaged files first if you want to keep them: they are removed.`,
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) error {
		r, err := archive.Repair(c.Context(), b, &archive.Walk{Span: span, Apply: apply, Progress: a.days("repair")})
		return errors.Join(err, a.print(r))
	})
	c.Flags().BoolVar(&apply, "apply", false, "mend the days; without it nothing is written")
	return c
}
