package main

import (
	"context"
	"fmt"
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
		root, url := args[0], ""
		if strings.HasPrefix(root, "s3://") {
			if root, url, err = inS3(c.Context(), root); err != nil {
				return err
			}
		} else if root, err = filepath.Abs(root); err != nil {
			return err
		}
		view, err := archive.NewReader(b).View(c.Context(), engine, root, url, span)
		if err != nil {
			return err
		}
		return a.summary(view, "%s", strings.TrimSuffix(view, "\n"))
	})
	c.Flags().StringVar(&engine, "sql", "", "the `engine`: duckdb, clickhouse or athena")
	_ = c.MarkFlagRequired("sql")
	return c
}

// inS3 returns the address of an archive without parameters, and its bucket's URL for ClickHouse.
func inS3(ctx context.Context, uri string) (root, url string, err error) {
	client, at, err := openS3(ctx, uri)
	if err != nil {
		return "", "", err
	}
	url = fmt.Sprintf("https://%s.s3.%s.amazonaws.com", at.Host, client.Options().Region)
	if base := client.Options().BaseEndpoint; base != nil {
		url = strings.TrimSuffix(*base, "/") + "/" + at.Host
	}
	return "s3://" + at.Host + at.Path, url, nil
}
