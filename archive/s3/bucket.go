package s3

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"
	"sync"

	"github.com/aws/amazon-s3-encryption-client-go/v3/client"
	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/archive/internal/uncached"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// bucket is an archive.Versioned in a bucket of S3. It is safe for concurrent use.
type bucket struct {
	client  *awss3.Client
	objects objects
	name    string
	opts    Options
	tiers   []tier
	cache   *cache // nil where the client does not encrypt

	mu        sync.Mutex
	versioned *bool // guarded by mu; nil: not asked yet
}

var _ archive.Versioned = (*bucket)(nil)

// objects has the calls that an encrypting client replaces.
type objects interface {
	PutObject(context.Context, *awss3.PutObjectInput, ...func(*awss3.Options)) (*awss3.PutObjectOutput, error)
	GetObject(context.Context, *awss3.GetObjectInput, ...func(*awss3.Options)) (*awss3.GetObjectOutput, error)
}

// New returns the archive in the bucket of that name, as an archive.Versioned. It does no I/O. Errors: *driver.InvalidError.
func New(c *awss3.Client, name string, opts *Options) (archive.Bucket, error) {
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, &driver.InvalidError{Field: "bucket", Value: "empty", Rule: "must be the name of a bucket"}
	}
	tiers, err := parseTiers(o.Tiers)
	if err != nil {
		return nil, err
	}
	b := &bucket{client: c, objects: c, name: name, opts: o, tiers: tiers}
	if o.Materials != nil {
		encrypting, err := client.New(c, o.Materials)
		if err != nil {
			return nil, &driver.InvalidError{Field: "Options.Materials", Value: "a manager", Rule: "must be one that the encryption client takes", Err: err}
		}
		b.objects, b.cache = encrypting, newCache(o.CacheBytes)
	}
	return b, nil
}

// Create implements archive.Bucket.
func (b *bucket) Create(ctx context.Context, _ string, write func(io.Writer) (string, error)) (err error) {
	s := new(spool)
	defer func() { err = errors.Join(err, s.close()) }()
	name, err := write(s)
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		body, err := s.reader()
		if err != nil {
			return err
		}
		err = b.put(ctx, name, body, true)
		if !contended(err) || tries == 5 {
			return err
		}
	}
}

// Put implements archive.Bucket.
func (b *bucket) Put(ctx context.Context, name string, content []byte) error {
	return b.put(ctx, name, bytes.NewReader(content), false)
}

func (b *bucket) put(ctx context.Context, name string, body io.ReadSeeker, create bool) error {
	in := &awss3.PutObjectInput{Bucket: &b.name, Key: b.key(name), Body: body, StorageClass: b.class(name)}
	if create {
		in.IfNoneMatch = aws.String("*")
	}
	if b.opts.SSEKMSKey != "" {
		in.ServerSideEncryption = types.ServerSideEncryptionAwsKms
		in.SSEKMSKeyId = &b.opts.SSEKMSKey
		in.BucketKeyEnabled = aws.Bool(true)
	}
	_, err := b.objects.PutObject(ctx, in)
	return storeError(err)
}

// ReadAt implements archive.Bucket.
func (b *bucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if b.cache != nil {
		read := b.whole
		if plain, _ := split(name); path.Ext(plain) == ".parquet" || strings.HasPrefix(path.Base(plain), "_merged-") { // data files never change
			read = func(ctx context.Context, name string) ([]byte, error) { return b.cache.get(ctx, name, b.whole) }
			if off == 0 && uncached.Asked(ctx) { // they can be damaged
				b.cache.drop(name)
			}
		}
		content, err := read(ctx, name)
		if err != nil {
			return 0, err
		}
		return bytes.NewReader(content).ReadAt(p, off)
	}
	if len(p) == 0 {
		return 0, nil
	}
	in := b.get(name)
	in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return 0, storeError(err)
	}
	if out.Metadata["x-amz-key-v2"] != "" { // the bytes would look corrupt, and Repair would remove the file
		return 0, errors.Join(errSealed, out.Body.Close())
	}
	n, err := io.ReadFull(out.Body, p)
	err = errors.Join(err, out.Body.Close())
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		if out.ContentLength != nil && int64(n) < *out.ContentLength {
			return n, io.ErrUnexpectedEOF // the connection ended, not the file
		}
		return n, io.EOF
	}
	return n, err
}

// errSealed is the error for files that the encryption client wrote and that are read without it.
var errSealed = &driver.InvalidError{Field: "Options.Materials", Value: "nil", Rule: "must be set: the archive is encrypted"}

// whole reads and decrypts a file.
func (b *bucket) whole(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the encryption client closes no body of an object that it cannot decrypt
	out, err := b.objects.GetObject(ctx, b.get(name))
	if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), noEnvelope) {
		return nil, fmt.Errorf("%s: %w: %v", name, errPlain, err) // not fs.ErrNotExist, which may be in err: the file is there
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, storeError(err))
	}
	content, err := io.ReadAll(out.Body)
	if err != nil && (errors.Is(err, errDamaged) || strings.Contains(err.Error(), sumMismatch)) { // a key that cannot be unwrapped fails in GetObject
		err = &archive.CorruptError{File: name, Err: err}
	}
	return content, errors.Join(err, out.Body.Close())
}

// noEnvelope is in the encryption client's error for an object that has no key in its metadata: it then asks for
// another object, KEY.instruction, by the process's own configuration.
const noEnvelope = "failed to load objectMetadata"

// errPlain is the error for files that the encryption client did not write, or that have lost their metadata.
var errPlain = errors.New("it is not encrypted, or its metadata are lost")

// sumMismatch is in the SDK's error for bytes that do not have the checksum which the service keeps of them. Its
// type is internal (service/internal/checksum).
const sumMismatch = "checksum did not match"

// errDamaged is crypto/cipher's error for bytes that were changed or cut, or for another key.
var errDamaged = func() error {
	block, _ := aes.NewCipher(make([]byte, 32)) // it fails for other lengths only
	aead, _ := cipher.NewGCM(block)
	_, err := aead.Open(nil, make([]byte, aead.NonceSize()), nil, nil)
	return err
}()

// sealBytes is the number of bytes that encryption adds to an object.
const sealBytes = 16

// List implements archive.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return func(yield func(archive.Info, error) bool) {
		pages := awss3.NewListObjectsV2Paginator(b.client, &awss3.ListObjectsV2Input{Bucket: &b.name, Prefix: b.key(prefix)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(archive.Info{}, storeError(err))
				return
			}
			for _, o := range page.Contents {
				i := archive.Info{Name: strings.TrimPrefix(aws.ToString(o.Key), b.opts.Prefix), Size: aws.ToInt64(o.Size)}
				i.Moves = b.moves(i.Name, o.StorageClass)
				if b.cache != nil {
					i.Size = max(0, i.Size-sealBytes)
				}
				if !yield(i, nil) {
					return
				}
			}
		}
	}
}

func (b *bucket) key(name string) *string { return aws.String(b.opts.Prefix + name) }

// ofVersion comes between a name and its version in the names that Hidden yields.
const ofVersion = "?versionId="

// split returns a file's name, and its version if it has one.
func split(name string) (string, *string) {
	if plain, version, ok := strings.Cut(name, ofVersion); ok {
		return plain, &version
	}
	return name, nil
}

func (b *bucket) get(name string) *awss3.GetObjectInput {
	plain, version := split(name)
	return &awss3.GetObjectInput{Bucket: &b.name, Key: b.key(plain), VersionId: version}
}
