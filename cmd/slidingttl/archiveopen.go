package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
)

// openArchive opens an existing archive.
func openArchive(ctx context.Context, uri string) (archive.Bucket, error) {
	if !strings.HasPrefix(uri, "s3://") {
		path, err := filepath.Abs(uri)
		if err == nil {
			err = outsideDays(filepath.ToSlash(path))
		}
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(uri); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: there is no directory %s", errUsage, uri)
		}
		return archive.OpenDirectory(uri)
	}
	c, a, err := openS3(ctx, uri)
	if err == nil {
		err = outsideDays(a.Path)
	}
	if err != nil {
		return nil, err
	}
	return s3.New(c, a.Host, &s3.Options{Prefix: strings.TrimPrefix(a.Path, "/"), SSEKMSKey: a.own["kms"], Tiers: a.own["tiers"]})
}

// misplaced returns an error if the archive at uri, b, has no days, and something below it has some.
func misplaced(ctx context.Context, uri string, b archive.Bucket) error {
	below := ""
	if strings.HasPrefix(uri, "s3://") {
		for info, err := range b.List(ctx, "") {
			if err != nil {
				return err
			}
			above, _, days := strings.Cut("/"+info.Name, "/day=")
			if days && above == "" {
				return nil
			} else if days {
				below = above[1:]
			}
		}
	} else {
		for _, days := range []string{"day=*", "*/day=*", "*/*/day=*"} {
			if found, err := fs.Glob(os.DirFS(uri), days); err == nil && len(found) > 0 {
				below = strings.TrimPrefix(path.Dir(found[0]), ".")
				break
			}
		}
	}
	if below == "" {
		return nil
	}
	return fmt.Errorf("%w: %s has no day, and below %s there are some: must be the path of an archive", errUsage, uri, below)
}

// outsideDays returns an error if an element of an archive's path is named like a day. It may be a day of an archive,
// and DuckDB takes the day of each life below it from there.
func outsideDays(path string) error {
	for element := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(element, "day=") {
			return fmt.Errorf("%w: the archive's path has %s: must be that of an archive, and no element may begin with day=", errUsage, element)
		}
	}
	return nil
}

// openS3 returns a client for an archive in S3, and the archive's address.
func openS3(ctx context.Context, uri string) (*awss3.Client, *address, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("%w: the archive must be a directory, or have the form s3://bucket/prefix/?region=R", errUsage)
	}
	if strings.Contains(uri, "#") {
		return nil, nil, fmt.Errorf("%w: the archive's URI has a #, after which URIs name nothing: write %%23", errUsage)
	}
	if revealed(u) || u.User != nil {
		return nil, nil, fmt.Errorf("%w: a secret on the command line is seen by all: leave it out of the archive's URI, and give it as AWS's clients take it (AWS_PROFILE and others)", errUsage)
	}
	a := &address{URL: u, own: make(map[string]string)}
	if err := a.take(&kind{params: parameters{"region": text, "endpoint": text, "kms": text, "tiers": text}}); err != nil {
		return nil, nil, err
	}
	if at, err := url.Parse(a.own["endpoint"]); err != nil || at.User != nil {
		return nil, nil, fmt.Errorf("%w: endpoint must be a URL without a user", errUsage)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(a.own["region"]))
	if err != nil {
		return nil, nil, err
	}
	return awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		if endpoint := a.own["endpoint"]; endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &endpoint, true
		}
	}), a, nil
}
