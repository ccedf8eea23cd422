//go:build second && unix

package archive

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

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
	if err := b.Check(t.Context()); err != nil {
		t.Error(err)
	}
	_ = b.Remove(t.Context(), "checkpoints/slidingttl.check")
	holds(t, b)
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
	server := exec.Command("go", "run", versitygw, "--access", "id", "--secret", "secret", "--port", address, "posix", t.TempDir())
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
