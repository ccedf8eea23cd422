package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/amazon-s3-encryption-client-go/v3/materials"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/s3"
)

func bucketOf(t *testing.T, c *awss3.Client, name string, o *s3.Options) archive.Bucket {
	t.Helper()
	b, err := s3.New(c, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// holds holds a bucket to archive.Bucket, and to an archive that is written, read, compacted
// and verified, and forgets.
func holds(t *testing.T, b archive.Bucket) {
	t.Helper()
	ctx := t.Context()
	create := func(name, content string) error {
		return b.Create(ctx, "checkpoints/", func(w io.Writer) (string, error) {
			_, err := io.WriteString(w, content)
			return name, err
		})
	}
	if err := create("checkpoints/x", "hello"); err != nil {
		t.Fatal(err)
	}
	if err := create("checkpoints/x", "again"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	failed := errors.New("failed")
	if err := b.Create(ctx, "checkpoints/", func(io.Writer) (string, error) { return "checkpoints/y", failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	p := make([]byte, 4)
	if n, err := b.ReadAt(ctx, "checkpoints/x", p, 1); n != 4 || err != nil && !errors.Is(err, io.EOF) || string(p) != "ello" {
		t.Errorf("%d, %v, %q", n, err, p)
	}
	for _, off := range []int64{3, 5, 50} {
		if n, err := b.ReadAt(ctx, "checkpoints/x", p, off); n != max(0, 5-int(off)) || !errors.Is(err, io.EOF) {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	if _, err := b.ReadAt(ctx, "checkpoints/y", p, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := b.Put(ctx, "checkpoints/x", []byte("bye")); err != nil {
		t.Error(err)
	}
	for i, err := range b.List(ctx, "checkpoints/") {
		if err != nil || i != (archive.Info{Name: "checkpoints/x", Size: 3}) {
			t.Errorf("%+v, %v", i, err)
		}
	}
	for range 2 {
		if err := b.Remove(ctx, "checkpoints/x"); err != nil {
			t.Error(err)
		}
	}

	fill(t, b)
	before := read(t, b)
	if len(before) != 551 {
		t.Errorf("%d records; want 551", len(before))
	}
	if r, err := archive.Compact(ctx, b, nil); err != nil || r.Counts["merged"] != 1 || r.Counts["dropped"] != 100 {
		t.Errorf("%+v, %v", r, err)
	}
	if after := read(t, b); !reflect.DeepEqual(after, before) {
		t.Errorf("%d records after compaction", len(after))
	}
	r := archive.NewReader(b)
	key := dead(33, 0).Key
	if found, err := r.Find(ctx, key, archive.Span{}); err != nil || len(found) != 2 {
		t.Errorf("%d lives, %v", len(found), err)
	}
	if report, err := r.Verify(ctx, nil); err != nil || report.Rows != 551 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := archive.Forget(ctx, b, archive.Selection{Keys: []string{key}}, nil); err != nil {
		t.Error(err)
	}
	if found, err := r.Find(ctx, key, archive.Span{}); err != nil || len(found) != 0 {
		t.Errorf("%d lives that were forgotten, %v", len(found), err)
	}
}

func TestDirectory(t *testing.T) {
	b, err := archive.OpenDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	holds(t, b)
}

func TestS3(t *testing.T) {
	c, name := fake(t)
	b := bucketOf(t, c, name, &s3.Options{Prefix: "dead/"})
	if err := archive.Check(t.Context(), b); err != nil {
		t.Error(err)
	}
	_ = b.Remove(t.Context(), "checkpoints/slidingttl.check")
	holds(t, b)
}

// Where a bucket keeps versions, what is removed is removed in all of them.
func TestS3Versions(t *testing.T) {
	c, name := fake(t)
	if _, err := c.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: &name, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	b := bucketOf(t, c, name, nil)
	holds(t, b)
	out, err := c.ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: &name})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for i := range b.List(t.Context(), "") {
		there[i.Name] = true
	}
	if len(out.DeleteMarkers) > 0 {
		t.Errorf("%d delete markers", len(out.DeleteMarkers))
	}
	for _, v := range out.Versions {
		if !there[*v.Key] {
			t.Errorf("%s has a version although it was removed", *v.Key)
		}
	}
}

// Forget reaches the versions behind a delete marker that hold what it forgets, and no others.
func TestForgetVersions(t *testing.T) {
	c, name := fake(t)
	if _, err := c.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: &name, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	b := bucketOf(t, c, name, &s3.Options{Prefix: "dead/"})
	fill(t, b)
	was := map[string][]byte{}
	for i, err := range b.List(t.Context(), "day=") {
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, i.Size)
		if _, err := b.ReadAt(t.Context(), i.Name, content, 0); err != nil {
			t.Fatal(err)
		}
		was["dead/"+i.Name] = content
	}
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	merged := 0
	for key, content := range was { // another program keeps what was merged, behind delete markers
		if _, err := c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &name, Key: &key}); err == nil {
			continue
		}
		merged++
		for range 2 {
			if _, err := c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &name, Key: &key, Body: bytes.NewReader(content)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &name, Key: &key}); err != nil {
			t.Fatal(err)
		}
	}
	if merged != 2 {
		t.Fatalf("%d files were merged", merged)
	}
	hidden := func() (names []string) {
		for i, err := range b.(archive.Versioned).Hidden(t.Context(), "day=") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, i.Name)
		}
		return names
	}
	what := archive.Selection{Keys: []string{dead(33, 0).Key, "nobody"}} // in the first of the two merged files
	for _, dry := range []bool{true, false} {
		if names := hidden(); len(names) != 2 {
			t.Errorf("hidden are %q", names)
		}
		r, err := archive.Forget(t.Context(), b, what, &archive.ForgetOptions{DryRun: dry})
		if err != nil || r.Records != 2 || r.Hidden != 1 || r.Asked[0].Hidden != 1 || r.Asked[1].Records+r.Asked[1].Hidden != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if names := hidden(); len(names) != 1 {
		t.Errorf("hidden are %q", names)
	}
	if r, err := archive.Forget(t.Context(), b, what, &archive.ForgetOptions{DryRun: true}); err != nil || r.Records+r.Hidden != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// keyService is KMS as far as the encryption client talks to it. It refuses while down, and unwraps to
// wrong keys while other.
type keyService struct {
	down  atomic.Bool
	other atomic.Bool
	first chan keyRequest // holds one; later requests are not kept
}

type keyRequest struct {
	target string
	keyID  any
}

func (k *keyService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	select {
	case k.first <- keyRequest{r.Header.Get("X-Amz-Target"), in["KeyId"]}:
	default:
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if k.down.Load() {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"DisabledException","message":"disabled"}`)
		return
	}
	// The key that wraps is none: what this proves is who asks for what.
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	if blob, ok := in["CiphertextBlob"].(string); ok {
		if k.other.Load() {
			blob = base64.StdEncoding.EncodeToString(key)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": "arn:aws:kms:us-east-1:1:key/k", "Plaintext": blob})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": "arn:aws:kms:us-east-1:1:key/k", "Plaintext": key, "CiphertextBlob": key})
}

// encrypting returns options for a bucket whose client encrypts, with keys of service.
func encrypting(t *testing.T, service http.Handler) *s3.Options {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	keys := kms.New(kms.Options{
		Region: "us-east-1", HTTPClient: &http.Client{Transport: transport},
		BaseEndpoint: &server.URL, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	})
	manager, err := materials.NewCryptographicMaterialsManager(materials.NewKmsKeyring(keys, "arn:aws:kms:us-east-1:1:key/k"))
	if err != nil {
		t.Fatal(err)
	}
	return &s3.Options{Materials: manager}
}

// One damaged object of an encrypted archive is named, and all others are read, forgotten in and kept.
func TestDamagedEncrypted(t *testing.T) {
	service := &keyService{first: make(chan keyRequest, 1)}
	options := encrypting(t, service)
	for how, damage := range map[string]func([]byte) []byte{
		"flipped": func(c []byte) []byte { c[len(c)/2] ^= 1; return c },
		"cut":     func(c []byte) []byte { return c[:len(c)/2] },
		"empty":   func([]byte) []byte { return nil },
	} {
		c, name := fake(t)
		fill(t, bucketOf(t, c, name, options))
		objects := func() (all map[string][]byte) {
			all = map[string][]byte{}
			for i := range bucketOf(t, c, name, nil).List(t.Context(), "") {
				out, err := c.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &name, Key: &i.Name})
				if err != nil {
					t.Fatal(err)
				}
				all[i.Name], _ = io.ReadAll(out.Body)
				_ = out.Body.Close()
			}
			return all
		}
		before := objects()
		service.other.Store(true)
		if r, err := archive.Repair(t.Context(), bucketOf(t, c, name, options), &archive.Walk{Apply: true}); err == nil || r.Days != 0 || !reflect.DeepEqual(objects(), before) {
			t.Errorf("%s: with other keys: %v, %v", how, r, err)
		}
		service.other.Store(false)

		damaged := ""
		for n, content := range before { // of the day that has two files
			if strings.HasPrefix(n, "day=2026-11-22/") && strings.HasSuffix(n, ".parquet") && (damaged == "" || len(content) > len(before[damaged])) {
				damaged = n
			}
		}
		out, err := c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &name, Key: &damaged})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &name, Key: &damaged, Metadata: out.Metadata, Body: bytes.NewReader(damage(before[damaged]))}); err != nil {
			t.Fatal(err)
		}
		b := bucketOf(t, c, name, options)
		n := 0
		var failed []error
		for _, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
			if err != nil {
				failed = append(failed, err)
			} else {
				n++
			}
		}
		corrupt, ok := errors.AsType[*archive.CorruptError](errors.Join(failed...))
		if n != 351 || !ok || corrupt.File != damaged {
			t.Errorf("%s: %d records, %v", how, n, failed)
		}
		if _, err := archive.NewReader(b).Verify(t.Context(), nil); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: verified: %v", how, err)
		}
		if r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(0, 2).Key}}, nil); !errors.Is(err, archive.ErrCorrupt) || r.Records != 2 {
			t.Errorf("%s: forgotten: %v, %v", how, r, err)
		}
		if r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true}); err != nil || !reflect.DeepEqual(r.Lists["lost"], []string{damaged}) {
			t.Errorf("%s: repaired: %v, %v", how, r, err)
		}
		if got := read(t, b); len(got) != 349 {
			t.Errorf("%s: %d records after it", how, len(got))
		}
	}
}

func TestEncryptedByClient(t *testing.T) {
	service := &keyService{first: make(chan keyRequest, 1)}
	c, name := fake(t)
	b := bucketOf(t, c, name, encrypting(t, service))
	holds(t, b)
	if got := <-service.first; got != (keyRequest{"TrentService.GenerateDataKey", "arn:aws:kms:us-east-1:1:key/k"}) {
		t.Errorf("the first request: %v", got)
	}
	for i, err := range bucketOf(t, c, name, nil).List(t.Context(), "day=") {
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &name, Key: &i.Name})
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if bytes.Contains(content, []byte("PAR1")) || bytes.Contains(content, []byte("key-")) || out.Metadata["x-amz-key-v2"] == "" {
			t.Errorf("%s is not encrypted", i.Name)
		}
	}
	plain := bucketOf(t, c, name, nil)
	if _, err := archive.NewReader(plain).Verify(t.Context(), nil); err == nil || errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("without keys the archive is verified: %v", err)
	}
	if r, err := archive.Repair(t.Context(), plain, &archive.Walk{Apply: true}); err == nil || errors.Is(err, archive.ErrCorrupt) || r.Days != 0 {
		t.Errorf("without keys the archive is repaired: %v, %v", r, err)
	}
	if _, err := archive.NewReader(b).Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}

	service.down.Store(true)
	w, err := archive.NewWriter(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hand(t.Context(), w, batch(900, 910, -300)); !errors.Is(err, archive.ErrKeyService) {
		t.Errorf("while the key service is down: %v", err)
	}
	service.down.Store(false)
	if err := hand(t.Context(), w, batch(900, 910, -300)); err != nil {
		t.Errorf("after it was: %v", err)
	}
}

// checksummed is a service that keeps the checksum of an object apart from its bytes.
type checksummed struct {
	http.RoundTripper
	name, sum string
}

func (c *checksummed) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := c.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == "GET" && c.name != "" && strings.HasSuffix(r.URL.Path, c.name) && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		out.Header.Set("X-Amz-Checksum-Crc32", c.sum)
	}
	return out, err
}

// TestChecksumOfService: an encrypted object whose bytes do not have the checksum that the service keeps is corrupt by
// name, as one whose cipher tells.
func TestChecksumOfService(t *testing.T) {
	options := encrypting(t, &keyService{first: make(chan keyRequest, 1)})
	c, name := fake(t)
	o := c.Options()
	service := &checksummed{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	o.HTTPClient, o.ResponseChecksumValidation = &http.Client{Transport: service}, aws.ResponseChecksumValidationWhenSupported
	c = awss3.New(o)
	b := bucketOf(t, c, name, options)
	fill(t, b)
	damaged := ""
	for i := range b.List(t.Context(), "day=") {
		if strings.HasSuffix(i.Name, ".parquet") {
			damaged = i.Name
		}
	}
	out, err := c.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &name, Key: &damaged})
	if err != nil {
		t.Fatal(err)
	}
	content, _ := io.ReadAll(out.Body)
	_ = out.Body.Close()
	sum := crc32.ChecksumIEEE(content)
	content[len(content)/2] ^= 1
	if _, err := c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &name, Key: &damaged, Body: bytes.NewReader(content), Metadata: out.Metadata}); err != nil {
		t.Fatal(err)
	}
	service.name, service.sum = damaged, base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
	var corrupt *archive.CorruptError
	if _, err := archive.NewReader(bucketOf(t, c, name, options)).Verify(t.Context(), nil); !errors.As(err, &corrupt) || corrupt.File != damaged {
		t.Errorf("Verify: %v", err)
	}
}

// A plain object in an encrypted archive is an error that names it, also behind a delete marker, and never passes for
// one that is gone: Write and Forget end, and say so. The SDK's default configuration reaches the service, as in
// production: there the encryption client looks for KEY.instruction.
func TestPlainInEncrypted(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		c, name := fake(t)
		t.Setenv("AWS_ENDPOINT_URL", *c.Options().BaseEndpoint)
		t.Setenv("AWS_REGION", "us-east-1")
		t.Setenv("AWS_ACCESS_KEY_ID", "id")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		if hidden {
			versions := &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}
			if _, err := c.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{Bucket: &name, VersioningConfiguration: versions}); err != nil {
				t.Fatal(err)
			}
		}
		plain := bucketOf(t, c, name, nil)
		fill(t, plain)
		b := bucketOf(t, c, name, encrypting(t, &keyService{first: make(chan keyRequest, 1)}))
		named := func(what string, err error) {
			if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), ".parquet") || !strings.Contains(err.Error(), "it is not encrypted") {
				t.Errorf("hidden %v, %s: %v", hidden, what, err)
			}
		}
		if hidden {
			for i := range plain.List(t.Context(), "day=") {
				if _, err := c.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &name, Key: &i.Name}); err != nil {
					t.Fatal(err)
				}
			}
		} else {
			w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
			if err != nil {
				t.Fatal(err)
			}
			named("Write", hand(t.Context(), w, batch(0, 1, 2)))
			_, err = archive.Compact(t.Context(), b, nil)
			named("Compact", err)
		}
		_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(1, 0).Key}}, nil)
		named("Forget", err)
	}
}

// A prefix has any characters: merged files get their names.
func TestPrefix(t *testing.T) {
	c, name := fake(t)
	b := bucketOf(t, c, name, &s3.Options{Prefix: "eu+us/a b%20c/dead/"})
	fill(t, b)
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range b.List(t.Context(), "day=") {
		if strings.Contains(i.Name, "/_merged-") {
			t.Errorf("it has no name of its own: %s", i.Name)
		}
		n++
	}
	if n == 0 {
		t.Error("there are no files")
	}
}

// gets counts the downloads of data files.
type gets struct {
	http.RoundTripper
	n atomic.Int64
}

func (g *gets) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "merged-") {
		g.n.Add(1)
	}
	return g.RoundTripper.RoundTrip(r)
}

// A merged file that a killed Compact left under its first name is downloaded once, as others are, where the
// archive is encrypted.
func TestEncryptedWorkName(t *testing.T) {
	c, name := fake(t)
	options := encrypting(t, &keyService{first: make(chan keyRequest, 1)})
	o := c.Options()
	transport := &http.Transport{DisableKeepAlives: true}
	g := &gets{RoundTripper: transport}
	o.HTTPClient = &http.Client{Transport: g}
	b := bucketOf(t, awss3.New(o), name, options)
	fill(t, b)
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	files := 0
	for i := range b.List(t.Context(), "day=") {
		if strings.Contains(i.Name, "/merged-") {
			files++
			if err := b.Rename(t.Context(), i.Name, strings.TrimSuffix(strings.Replace(i.Name, "/merged", "/_merged", 1), ".parquet")); err != nil {
				t.Fatal(err)
			}
		}
	}
	b = bucketOf(t, awss3.New(o), name, options)
	g.n.Store(0)
	if _, err := archive.NewReader(b).Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := g.n.Load(); files == 0 || n != int64(files) {
		t.Errorf("%d files are downloaded %d times", files, n)
	}
}

// TestDamagedLater: objects of an encrypted archive that are damaged after this process has read them are no longer
// believed: not by Verify, not by a Writer that is handed their batch again, and not by Compact.
func TestDamagedLater(t *testing.T) {
	options := encrypting(t, &keyService{first: make(chan keyRequest, 1)})
	for what, do := range map[string]func(archive.Bucket) error{
		"verify":  func(b archive.Bucket) error { _, err := archive.NewReader(b).Verify(t.Context(), nil); return err },
		"compact": func(b archive.Bucket) error { _, err := archive.Compact(t.Context(), b, nil); return err },
		"write": func(b archive.Bucket) error {
			w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
			if err != nil {
				return err
			}
			return hand(t.Context(), w, batch(0, 300, 0))
		},
	} {
		c, name := fake(t)
		b := bucketOf(t, c, name, options)
		fill(t, b)
		read(t, b)
		for i := range b.List(t.Context(), "day=2026-11-22/batch-") {
			out, err := c.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &name, Key: &i.Name})
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(out.Body)
			if err := errors.Join(err, out.Body.Close()); err != nil {
				t.Fatal(err)
			}
			content[len(content)/2] ^= 1
			if _, err := c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &name, Key: &i.Name, Metadata: out.Metadata, Body: bytes.NewReader(content)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(b); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
