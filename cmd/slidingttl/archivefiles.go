package main

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
)

func (a *app) archiveFiles() *cobra.Command {
	var engine string
	c := overDays(&cobra.Command{
		Use:     "files ARCHIVE",
		Short:   "Print a view for a SQL engine, of the files that count, with each life once",
		Example: `  slidingttl archive files /var/lib/links/archive --sql duckdb | duckdb links.db`,
	}, func(c *cobra.Command, b archive.Bucket, span archive.Span, args []string) (err error) {
		root, region := args[0], ""
		if u, _ := url.Parse(root); u != nil && u.Scheme == "s3" {
			region, u.RawQuery = u.Query().Get("region"), ""
			root = u.String()
		} else if root, err = filepath.Abs(root); err != nil {
			return err
		}
		view, err := archive.NewReader(b).View(c.Context(), engine, root, region, span)
		if err != nil {
			return err
		}
		return a.summary(view, "%s", strings.TrimSuffix(view, "\n"))
	})
	c.Flags().StringVar(&engine, "sql", "", "the `engine`: duckdb, clickhouse or athena")
	_ = c.MarkFlagRequired("sql")
	return c
}
