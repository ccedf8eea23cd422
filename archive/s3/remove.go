package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// Remove implements archive.Bucket: all versions of the object, where the bucket keeps them.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	if b.cache != nil {
		b.cache.drop(name)
	}
	versioned, err := b.keepsVersions(ctx)
	if err != nil {
		return err
	}
	if !versioned {
		return b.remove(ctx, name, nil)
	}
	pages := awss3.NewListObjectVersionsPaginator(b.client, &awss3.ListObjectVersionsInput{Bucket: &b.name, Prefix: b.key(name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return storeError(err)
		}
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == *b.key(name) {
				if err := b.remove(ctx, name, v.VersionId); err != nil {
					return err
				}
			}
		}
		for _, m := range page.DeleteMarkers {
			if aws.ToString(m.Key) == *b.key(name) {
				if err := b.remove(ctx, name, m.VersionId); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *Bucket) remove(ctx context.Context, name string, version *string) error {
	_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name), VersionId: version})
	return storeError(err)
}

// keepsVersions asks once whether the bucket keeps versions, or did.
func (b *Bucket) keepsVersions(ctx context.Context) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.versioned != nil {
		return *b.versioned, nil
	}
	out, err := b.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &b.name})
	if err != nil {
		return false, storeError(err)
	}
	b.versioned = aws.Bool(out.Status != "")
	return *b.versioned, nil
}
