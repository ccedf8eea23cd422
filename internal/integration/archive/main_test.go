package archive

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// dead is the record of the key number i, which died days after noon.
func dead(i, days int) archive.Record {
	died := driver.Floor(noon.AddDate(0, 0, days).Add(time.Duration(i) * time.Millisecond))
	r := archive.Record{
		Key: fmt.Sprintf("key-%06d", i), ExpiredAt: died, Reason: archive.Idle, Format: "json",
		Value: fmt.Appendf(nil, `{"url":"https://example.com/%d","owner":"u-%d","hits":%d}`, i, i%7, i),
	}
	switch i % 5 {
	case 0:
		r.Generation = fmt.Sprintf("sequence-%d-%d", days, i)
	case 1:
		r.Key = fmt.Sprintf("\xff\x00binary-%d", i)
	case 2:
		r.Key, r.Reason, r.Format, r.Value = fmt.Sprintf("base64:%d-ü", i), archive.Age, "bytes", []byte{0, 1, 0xff, byte(i)}
	default:
		r.CreatedAt = died.Add(-24 * time.Hour)
	}
	return r
}

// lot is a batch of a source.
type lot struct {
	Source  string
	Records []archive.Record
}

func hand(ctx context.Context, w *archive.Writer, l lot) error {
	return w.Write(ctx, l.Source, l.Records)
}

func batch(first, last, days int) lot {
	b := lot{Source: "links"}
	for i := first; i < last; i++ {
		b.Records = append(b.Records, dead(i, days))
	}
	return b
}

// fill writes batches of three days, which have lives in common.
func fill(t *testing.T, b archive.Bucket, columns ...archive.Column) {
	t.Helper()
	w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: columns, Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []lot{batch(0, 300, 0), batch(200, 500, 0), batch(0, 50, 1), batch(0, 1, 2)} {
		if err := w.Write(t.Context(), batch.Source, batch.Records); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, b archive.Bucket) (all []archive.Archived) {
	t.Helper()
	for a, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// fake is a client of an S3 server in this process, with a bucket.
func fake(t *testing.T) (*awss3.Client, string) {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	c := clientOf(t, server.URL, "id", "secret")
	if _, err := c.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String("archive")}); err != nil {
		t.Fatal(err)
	}
	return c, "archive"
}

func clientOf(t *testing.T, url, id, secret string) *awss3.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return awss3.New(awss3.Options{
		Region: "us-east-1", BaseEndpoint: &url, UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, nil
		}),
	})
}
