//go:build second && unix

package archive

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
)

const versitygw = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// TestSecondOpinion: another server of S3, which keeps objects as files, agrees with the one
// in this process. It is built from source, outside of this module: it needs many others.
func TestSecondOpinion(t *testing.T) {
	c, ended := versity(t)
	name := aws.String("archive")
	for {
		_, err := c.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: name})
		if err == nil {
			break
		}
		select {
		case <-ended:
			t.Fatal("the server has ended")
		case <-time.After(100 * time.Millisecond): // it is being built
		}
	}
	b := bucketOf(t, c, *name, &s3.Options{Prefix: "dead/"})
	if err := archive.Check(t.Context(), b); err != nil {
		t.Error(err)
	}
	_ = b.Remove(t.Context(), "checkpoints/slidingttl.check")
	holds(t, b)
	locks(t, c)
}

// locks wants Forget under Object Lock to leave the files that are locked, and to say until when; and
// to forget what they hold when they are not.
func locks(t *testing.T, c *awss3.Client) {
	t.Helper()
	ctx, name := t.Context(), aws.String("locked")
	_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: name, ObjectLockEnabledForBucket: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	b := bucketOf(t, c, *name, nil)
	fill(t, b)
	if _, err := archive.Compact(ctx, b, nil); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, err := range b.List(ctx, "day=") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(i.Name, ".parquet") {
			names = append(names, i.Name)
		}
	}
	if len(names) != 3 {
		t.Fatal(names)
	}
	slices.Sort(names)
	first, second := &names[0], &names[1]
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	retain := func(until time.Time) {
		_, err := c.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{
			Bucket: name, Key: first, BypassGovernanceRetention: aws.Bool(true),
			Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeGovernance, RetainUntilDate: &until},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	hold := func(status types.ObjectLockLegalHoldStatus) {
		_, err := c.PutObjectLegalHold(ctx, &awss3.PutObjectLegalHoldInput{Bucket: name, Key: second, LegalHold: &types.ObjectLockLegalHold{Status: status}})
		if err != nil {
			t.Fatal(err)
		}
	}
	retain(until)
	hold(types.ObjectLockLegalHoldStatusOn)
	what := archive.Selection{Keys: []string{dead(33, 0).Key}} // it died on both days
	for i, want := range []archive.LockedError{{Files: 2, File: *second}, {Files: 1, File: *first, Until: until}} {
		r, err := archive.Forget(ctx, b, what, nil)
		locked, ok := errors.AsType[*archive.LockedError](err)
		if !ok || locked.Files != want.Files || locked.File != want.File || !locked.Until.Equal(want.Until) {
			t.Errorf("%+v, %v; want %+v", r, err, want)
		}
		if i == 0 {
			hold(types.ObjectLockLegalHoldStatusOff)
		}
	}
	if found, err := archive.NewReader(b).Find(ctx, what.Keys[0], archive.Span{}); err != nil || len(found) != 1 {
		t.Errorf("%d lives are left, %v; want that which is locked", len(found), err)
	}
	if err := b.Remove(ctx, *first); !errors.Is(err, archive.ErrLocked) {
		t.Errorf("what is locked is removed: %v", err)
	}
	retain(time.Now().Add(2 * time.Second)) // it is shortened, and soon over
	records := int64(0)                     // the lock may end between the two looks of a Forget, which then has one file anew and one left
	for err = archive.ErrLocked; errors.Is(err, archive.ErrLocked); {
		var r *archive.Report
		r, err = archive.Forget(ctx, b, what, nil)
		records += r.Records
	}
	if err != nil || records != 1 {
		t.Errorf("when it is not locked: %d records forgotten, %v", records, err)
	}
	versions, err := c.ListObjectVersions(ctx, &awss3.ListObjectVersionsInput{Bucket: name, Prefix: first})
	if err != nil || len(versions.Versions)+len(versions.DeleteMarkers) > 0 {
		t.Errorf("%d versions, %d markers, %v", len(versions.Versions), len(versions.DeleteMarkers), err)
	}
}

// versity is a client of a versitygw, which ends with the test, or says that it has before.
func versity(t *testing.T) (c *awss3.Client, ended <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	server := exec.Command("go", "run", versitygw, "--access", "id", "--secret", "secret", "--port", address, "posix", "--versioning-dir", t.TempDir(), t.TempDir())
	server.Env = append(os.Environ(), "GOFLAGS=")
	server.Stdout, server.Stderr = &said, &said
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the server is a child of go run
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		if <-done; t.Failed() {
			t.Log(said.String())
		}
	})
	return clientOf(t, "http://"+address, "id", "secret"), done
}
