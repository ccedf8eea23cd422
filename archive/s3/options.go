package s3

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/amazon-s3-encryption-client-go/v3/materials"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options adjusts a Bucket. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all object keys: "archive/". Nothing but one archive may use it.
	Prefix string

	// SSEKMSKey is the KMS key (its id, ARN or alias) that the server encrypts with. Empty:
	// the bucket's configuration decides.
	SSEKMSKey string

	// Materials makes the client encrypt files, with its keyring. All files of an archive
	// must be written with it, or none. Nil: the client does not encrypt, and fails to read files
	// that are.
	Materials materials.CryptographicMaterialsManager

	// Tiers choose storage classes by the age of a file's day: "30:STANDARD_IA,180:GLACIER_IR"
	// has the days from which each counts, in order. All writes use that class, also those of
	// Compact and Forget. The next [archive.Compact] of a day moves its files to a class that
	// became due. Use Tiers in place of a bucket's lifecycle rules, which count the age of a
	// rewritten file from its rewrite. Empty: the bucket's class.
	Tiers string

	// Now is the time, for Tiers. Nil: time.Now.
	Now func() time.Time

	// CacheBytes bounds the cache of decrypted files, in bytes. A single file may exceed it.
	// Zero: 256 MiB.
	CacheBytes int64
}

const defaultCache = 256 << 20

func (o Options) validate() (Options, error) {
	if strings.HasPrefix(o.Prefix, "/") || o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		return o, &driver.InvalidError{Field: "Options.Prefix", Value: strconv.Quote(o.Prefix), Rule: "must be empty, or end in a slash and not begin with one"}
	}
	if o.CacheBytes < 0 {
		return o, &driver.InvalidError{Field: "Options.CacheBytes", Value: strconv.FormatInt(o.CacheBytes, 10), Rule: "must not be negative"}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
