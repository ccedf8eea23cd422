package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is a server's answer to one request.
type answer struct {
	status int
	code   string // of an error
}

// open returns a bucket on a server that gives answers, one after the other, and the
// requests that it got.
func open(t *testing.T, o *s3.Options, answers ...answer) (archive.Bucket, *[]*http.Request) {
	t.Helper()
	var got []*http.Request
	b := serve(t, o, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		a := answer{status: http.StatusOK}
		if len(got) < len(answers) {
			a = answers[len(got)]
		}
		got = append(got, r)
		w.WriteHeader(a.status)
		if a.code != "" {
			_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", a.code)
		}
	})
	return b, &got
}

// serve returns a bucket on a server with the handler h.
func serve(t *testing.T, o *s3.Options, h http.HandlerFunc) archive.Bucket {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	c := awss3.New(awss3.Options{
		Region: "eu-central-1", BaseEndpoint: &server.URL, UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	})
	b, err := s3.New(c, "links", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func create(t *testing.T, b archive.Bucket) error {
	return b.Create(t.Context(), "day=2026-11-22/", func(w io.Writer) (string, error) {
		_, err := w.Write([]byte("content"))
		return "day=2026-11-22/x", err
	})
}

// No test server has KMS, so this compares the request with AWS's documentation.
func TestEncryptedByServer(t *testing.T) {
	b, got := open(t, &s3.Options{Prefix: "archive/", SSEKMSKey: "alias/archive"})
	if err := create(t, b); err != nil {
		t.Fatal(err)
	}
	r := (*got)[0]
	if r.Method != http.MethodPut || r.URL.Path != "/links/archive/day=2026-11-22/x" {
		t.Errorf("%s %s", r.Method, r.URL.Path)
	}
	for name, want := range map[string]string{
		"If-None-Match":                                   "*",
		"X-Amz-Server-Side-Encryption":                    "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id":     "alias/archive",
		"X-Amz-Server-Side-Encryption-Bucket-Key-Enabled": "true",
	} {
		if v := r.Header.Get(name); v != want {
			t.Errorf("%s: %q; want %q", name, v, want)
		}
	}
}

func TestNotEncrypted(t *testing.T) {
	b, got := open(t, nil)
	if err := create(t, b); err != nil {
		t.Fatal(err)
	}
	if v := (*got)[0].Header.Values("X-Amz-Server-Side-Encryption"); len(v) > 0 {
		t.Errorf("%q", v)
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		want    error
	}{
		"done":                 {nil, nil},
		"a HeadObject's 404":   {[]answer{{404, "NotFound"}}, fs.ErrNotExist},
		"there already":        {[]answer{{412, "PreconditionFailed"}}, fs.ErrExist},
		"two at once":          {[]answer{{409, "ConditionalRequestConflict"}, {412, "PreconditionFailed"}}, fs.ErrExist},
		"the other failed":     {[]answer{{409, "ConditionalRequestConflict"}, {200, ""}}, nil},
		"refused":              {[]answer{{403, "AccessDenied"}}, archive.ErrRefused},
		"as a store refuses":   {[]answer{{403, "AccessDenied"}}, driver.ErrRefused},
		"no such bucket":       {[]answer{{404, "NoSuchBucket"}}, archive.ErrRefused},
		"no space":             {[]answer{{507, "InsufficientStorage"}}, archive.ErrNoSpace},
		"over the quota":       {[]answer{{403, "QuotaExceeded"}}, archive.ErrNoSpace},
		"the key is disabled":  {[]answer{{400, "KMS.DisabledException"}}, archive.ErrKeyService},
		"the key is not found": {[]answer{{400, "KMS.NotFoundException"}}, archive.ErrKeyService},
		"KMS is down":          {[]answer{{503, "KMS.KMSInternalException"}}, archive.ErrKeyService},
	} {
		b, _ := open(t, nil, c.answers...)
		if err := create(t, b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		answer answer
		want   error
	}{
		"absent":  {answer{404, "NoSuchKey"}, fs.ErrNotExist},
		"beyond":  {answer{416, "InvalidRange"}, io.EOF},
		"refused": {answer{403, "AccessDenied"}, archive.ErrRefused},
	} {
		b, _ := open(t, nil, c.answer)
		if _, err := b.ReadAt(t.Context(), "x", make([]byte, 8), 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
}

// A file that is larger than the buffer is sent whole, also after its first attempt conflicted with
// another write.
func TestLongFile(t *testing.T) {
	part := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	const parts = 33 // MiB
	want := sha256.New()
	var sums [][]byte
	b := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		if sums = append(sums, sum.Sum(nil)); len(sums) == 1 {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "<Error><Code>ConditionalRequestConflict</Code></Error>")
		}
	})
	err := b.Create(t.Context(), "", func(w io.Writer) (string, error) {
		for i := range parts {
			part[0] = byte(i)
			_, _ = want.Write(part)
			if _, err := w.Write(part); err != nil {
				return "", err
			}
		}
		return "x", nil
	})
	if err != nil || len(sums) != 2 || !bytes.Equal(sums[0], want.Sum(nil)) || !bytes.Equal(sums[1], want.Sum(nil)) {
		t.Errorf("%v; %x were sent; want %x twice", err, sums, want.Sum(nil))
	}
}

// An answer that is cut short is an error, and not the end of the file.
func TestCutShort(t *testing.T) {
	b := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, "1234")
	})
	if n, err := b.ReadAt(t.Context(), "x", make([]byte, 8), 0); err == nil || err == io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestCheck(t *testing.T) {
	b, got := open(t, nil, answer{200, ""}, answer{200, ""}, answer{412, "PreconditionFailed"})
	if err := archive.Check(t.Context(), b); err != nil || len(*got) != 3 {
		t.Error(err)
	}
	if b, _ = open(t, nil); archive.Check(t.Context(), b) == nil {
		t.Error("a server that ignores If-None-Match is taken for a good one")
	}
	b, _ = open(t, nil, answer{501, "NotImplemented"})
	if err := archive.Check(t.Context(), b); err == nil || !strings.Contains(err.Error(), "GetBucketVersioning") {
		t.Errorf("a server that does not tell of versions: %v", err)
	}
}

// Under Object Lock a version cannot be removed. The error has the end of the lock from the
// version's head, as AWS answers it.
func TestLocked(t *testing.T) {
	until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		retained, hold string // headers of the version that is there
		locked         bool
		until          time.Time
	}{
		"free":     {"", "", false, time.Time{}},
		"over":     {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "OFF", false, time.Time{}},
		"retained": {until.Format(time.RFC3339), "", true, until},
		"held":     {until.Format(time.RFC3339), "ON", true, time.Time{}},
	} {
		deleted := 0
		b := serve(t, &s3.Options{Prefix: "dead/"}, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			switch {
			case q.Has("versioning"):
				_, _ = io.WriteString(w, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
			case q.Has("versions"):
				_, _ = io.WriteString(w, "<ListVersionsResult><Version><Key>dead/x-other</Key><VersionId>9</VersionId></Version>"+
					"<Version><Key>dead/x</Key><VersionId>2</VersionId></Version><Version><Key>dead/x</Key><VersionId>1</VersionId></Version>"+
					"<DeleteMarker><Key>dead/x</Key><VersionId>3</VersionId></DeleteMarker></ListVersionsResult>")
			case r.Method == http.MethodHead:
				if q.Get("versionId") == "1" && c.retained != "" {
					w.Header().Set("X-Amz-Object-Lock-Mode", "COMPLIANCE")
					w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", c.retained)
					w.Header().Set("X-Amz-Object-Lock-Legal-Hold", c.hold)
				}
			case r.Method == http.MethodDelete && q.Get("versionId") == "1" && c.locked:
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied because object protected by object lock.</Message></Error>")
			default:
				deleted++
				w.WriteHeader(http.StatusNoContent)
			}
		})
		for what, err := range map[string]error{"Removable": b.(archive.Versioned).Removable(t.Context(), "x"), "Remove": b.Remove(t.Context(), "x")} {
			locked, ok := errors.AsType[*archive.LockedError](err)
			if ok != c.locked || ok && (locked.File != "x" || !locked.Until.Equal(c.until)) || !ok && err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if want := map[bool]int{false: 3, true: 1}[c.locked]; deleted != want {
			t.Errorf("%s: %d versions were removed; want %d", name, deleted, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, prefix := range []string{"/archive/", "archive"} {
		if _, err := s3.New(nil, "links", &s3.Options{Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q is taken", prefix)
		}
	}
	for _, o := range []*s3.Options{{CacheBytes: -1}} {
		if _, err := s3.New(nil, "links", o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := s3.New(nil, "", nil); err == nil {
		t.Error("a bucket without a name is taken")
	}
}
