package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
)

// openArchive opens an existing archive, with days or without.
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
		if err := misplaced(ctx, uri, nearDirectory(ctx, path)); err != nil {
			return nil, err
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
	b, err := s3.New(c, a.Host, &s3.Options{Prefix: strings.TrimPrefix(a.Path, "/"), SSEKMSKey: a.own["kms"], Tiers: a.own["tiers"]})
	if err != nil {
		return nil, err
	}
	return b, misplaced(ctx, uri, func(yield func(string, error) bool) {
		for info, err := range b.List(ctx, "") {
			if !yield(info.Name, err) {
				return
			}
		}
	})
}

// misplaced returns an error if uri is no archive and another one is near: what is asked of it would hold for nothing. near
// has names as they are from uri.
func misplaced(ctx context.Context, uri string, near iter.Seq2[string, error]) error {
	another := ""
	for name, err := range near {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		at, day, found := strings.Cut("/"+name, "/day=")
		switch {
		case !found || len(day) < len("2006-01-02"):
		case at == "":
			return nil
		case another == "":
			another = at[1:]
		}
	}
	if another == "" {
		return nil
	}
	return fmt.Errorf("%w: %s has no day, and %s has some: must be the path of an archive", errUsage, uri, another)
}

// nearDirectory lists days in the directory at path, above it, and below it.
func nearDirectory(ctx context.Context, path string) iter.Seq2[string, error] {
	days := func(dir, as string, yield func(string, error) bool) bool {
		found, _ := fs.Glob(os.DirFS(dir), "day=????-??-??")
		return len(found) == 0 || yield(as+found[0], nil)
	}
	return func(yield func(string, error) bool) {
		if !days(path, "", yield) {
			return
		}
		for as, dir := "../", filepath.Dir(path); dir != filepath.Dir(dir); as, dir = as+"../", filepath.Dir(dir) {
			if !days(dir, as, yield) {
				return
			}
		}
		_ = filepath.WalkDir(path, func(dir string, d fs.DirEntry, err error) error {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return err
			}
			if err != nil || !d.IsDir() || dir == path {
				return nil // what cannot be read is no archive of this user's
			}
			as, err := filepath.Rel(path, dir)
			if err == nil && !days(dir, filepath.ToSlash(as)+"/", yield) {
				return fs.SkipAll
			}
			return err
		})
	}
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
