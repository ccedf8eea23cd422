package s3

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
)

// Rename implements archive.Bucket by a copy within S3, then Remove. It takes files of up to 5 GiB.
func (b *bucket) Rename(ctx context.Context, from, to string) error {
	source := strings.ReplaceAll(url.QueryEscape(*b.key(from)), "+", "%20") // S3 reads + as a space: PathEscape leaves it
	in := &awss3.CopyObjectInput{Bucket: &b.name, Key: b.key(to), StorageClass: b.class(to), CopySource: aws.String(b.name + "/" + source)}
	if b.opts.SSEKMSKey != "" {
		in.ServerSideEncryption = types.ServerSideEncryptionAwsKms
		in.SSEKMSKeyId = &b.opts.SSEKMSKey
		in.BucketKeyEnabled = aws.Bool(true)
	}
	if _, err := b.client.CopyObject(ctx, in); err != nil {
		return storeError(err)
	}
	if from == to {
		return nil
	}
	return b.Remove(ctx, from)
}

// Remove implements archive.Bucket. It removes all versions of the object. If one of them is
// locked, it returns an *archive.LockedError.
func (b *bucket) Remove(ctx context.Context, name string) error {
	if b.cache != nil {
		b.cache.drop(name)
	}
	name, _ = split(name)
	versioned, err := b.keepsVersions(ctx)
	if err != nil {
		return err
	}
	if !versioned {
		return b.remove(ctx, name, nil)
	}
	err = b.versions(ctx, name, func(id *string, _ bool) error { return b.remove(ctx, name, id) })
	if errors.Is(err, archive.ErrRefused) {
		// S3's clock may be behind this one, so a retention that has ended here may still hold.
		if locked := b.lockedAt(ctx, name, time.Now().Add(-time.Minute)); errors.Is(locked, archive.ErrLocked) {
			return locked
		}
	}
	return err
}

// Removable implements archive.Versioned. It reads the retention and legal hold of each version.
func (b *bucket) Removable(ctx context.Context, name string) error {
	name, _ = split(name)
	return b.lockedAt(ctx, name, time.Now())
}

// lockedAt returns an *archive.LockedError if a version of the object is locked at now.
func (b *bucket) lockedAt(ctx context.Context, name string, now time.Time) error {
	versioned, err := b.keepsVersions(ctx)
	if err != nil || !versioned { // Object Lock needs versions
		return err
	}
	var locked *archive.LockedError
	err = b.versions(ctx, name, func(id *string, marker bool) error {
		if marker {
			return nil
		}
		out, err := b.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &b.name, Key: b.key(name), VersionId: id})
		if err = storeError(err); errors.Is(err, fs.ErrNotExist) {
			return nil // another operation removed it
		}
		if err != nil {
			return err
		}
		until := aws.ToTime(out.ObjectLockRetainUntilDate)
		held := out.ObjectLockLegalHoldStatus == types.ObjectLockLegalHoldStatusOn
		switch {
		case held:
			locked = &archive.LockedError{Files: 1, File: name}
		case until.After(now) && (locked == nil || !locked.Until.IsZero() && until.After(locked.Until)):
			locked = &archive.LockedError{Files: 1, File: name, Until: until}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if locked != nil {
		return locked
	}
	return nil
}

// versions calls do for each version and delete marker of an object.
func (b *bucket) versions(ctx context.Context, name string, do func(id *string, marker bool) error) error {
	return b.allVersions(ctx, name, func(page *awss3.ListObjectVersionsOutput) error {
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == *b.key(name) {
				if err := do(v.VersionId, false); err != nil {
					return err
				}
			}
		}
		for _, m := range page.DeleteMarkers {
			if aws.ToString(m.Key) == *b.key(name) {
				if err := do(m.VersionId, true); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (b *bucket) allVersions(ctx context.Context, prefix string, do func(*awss3.ListObjectVersionsOutput) error) error {
	pages := awss3.NewListObjectVersionsPaginator(b.client, &awss3.ListObjectVersionsInput{Bucket: &b.name, Prefix: b.key(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = do(page)
		} else {
			err = storeError(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Hidden implements archive.Versioned. It yields the newest version of each object.
func (b *bucket) Hidden(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return func(yield func(archive.Info, error) bool) {
		newest, current := map[string]types.ObjectVersion{}, map[string]bool{}
		versioned, err := b.keepsVersions(ctx)
		if err == nil && versioned {
			err = b.allVersions(ctx, prefix, func(page *awss3.ListObjectVersionsOutput) error {
				for _, v := range page.Versions {
					key := aws.ToString(v.Key)
					if was, ok := newest[key]; !ok || aws.ToTime(v.LastModified).After(aws.ToTime(was.LastModified)) {
						newest[key] = v
					}
					current[key] = current[key] || aws.ToBool(v.IsLatest)
				}
				return nil
			})
		}
		if err != nil {
			yield(archive.Info{}, err)
			return
		}
		for key, v := range newest {
			if current[key] {
				continue
			}
			i := archive.Info{Name: strings.TrimPrefix(key, b.opts.Prefix) + ofVersion + aws.ToString(v.VersionId), Size: aws.ToInt64(v.Size)}
			if b.cache != nil {
				i.Size = max(0, i.Size-sealBytes)
			}
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (b *bucket) remove(ctx context.Context, name string, version *string) error {
	_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name), VersionId: version})
	return storeError(err)
}

// keepsVersions asks once whether the bucket keeps versions, or did before.
func (b *bucket) keepsVersions(ctx context.Context) (bool, error) {
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
