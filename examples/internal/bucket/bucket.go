// Package bucket opens the archive that an example's setting names.
package bucket

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
)

// Open opens the archive at place: s3://bucket/prefix, with region, credentials and endpoint as
// the AWS SDK finds them, or a directory, for a try.
func Open(ctx context.Context, place string) (archive.Bucket, error) {
	uri, ok := strings.CutPrefix(place, "s3://")
	if !ok {
		return archive.OpenDirectory(place)
	}
	name, prefix, _ := strings.Cut(uri, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return s3.New(awss3.NewFromConfig(cfg), name, &s3.Options{Prefix: prefix})
}
