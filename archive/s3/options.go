package s3

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/amazon-s3-encryption-client-go/v3/materials"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options says how files are kept. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix stands before all names: "archive/". An archive has it for itself.
	Prefix string

	// SSEKMSKey is the key of KMS (its id, ARN or alias) by which the server encrypts.
	// Empty: as the bucket is configured.
	SSEKMSKey string

	// Materials has files encrypted by the client, with its keyring. An archive is kept
	// with it from the first file on, or without. Nil: the client does not encrypt.
	Materials materials.CryptographicMaterialsManager

	// Tiers keep files in other storage classes by the age of their day, the last that is old
	// enough. A file is written to the class of its age, by Compact and Forget too, and one
	// that has come of age is moved by the next [archive.Compact] of its day. They take the
	// place of a bucket's lifecycle rules, for which a file that is written anew is young.
	// Nil: all have the bucket's class.
	Tiers []Tier

	// Now is the time, for Tiers. Nil: time.Now.
	Now func() time.Time

	// CacheBytes bounds what is kept of files that were decrypted; one that is longer
	// is kept alone. Zero: 256 MiB.
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
	return o, checkTiers(o.Tiers)
}
