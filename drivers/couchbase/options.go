package couchbase

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Place is where a document keeps its created_at.
type Place int

const (
	// Xattr keeps created_at in an extended attribute. Any type of document can have one, and the
	// driver does not change the body.
	Xattr Place = iota

	// Body keeps created_at in a field at the top of the body, for teams whose
	// documents carry one already. The body must be a JSON object: to read any
	// other is a *driver.InvalidError, to overwrite it is not.
	Body
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// CreatedIn says where created_at is kept. Default: Xattr.
	CreatedIn Place

	// CreatedPath is the path of created_at there. Empty: "slidingttl.created_at"
	// as an xattr, "created_at" in the body. A body field is at the top level and
	// is written as RFC 3339 in UTC, with milliseconds; any ISO 8601 date and time
	// is read, one without an offset as UTC. An xattr is a number of milliseconds
	// since the Unix epoch, in a field of it: "app.born", not "born". With a Transcoder that does
	// not write JSON "app.flags" is taken.
	CreatedPath string

	// Transcoder encodes and decodes values. Nil: gocb's JSON transcoder. With one that does not
	// write JSON (gocb.NewRawBinaryTranscoder, for []byte) a new document takes two round trips
	// instead of one, because the write that creates it with its created_at cannot set the flags
	// that tell readers its type. Not with Body.
	Transcoder gocb.Transcoder

	// Retain is how long the server holds a document after its record has died, for a Store's
	// History and for walks over all records. The document's expiry is this much later, and the
	// record's is kept in an xattr. Rounded up to whole seconds. Zero: dead records are not held.
	// Read README.md before you set it: every process must have a version that supports it, and
	// other programs see dead records.
	Retain time.Duration

	// Timeout bounds one round trip. Zero: 2.5 s, or 10 s where Durability asks for persistence, as
	// in gocb. A driver cannot read the cluster's configured timeouts. The context may end the trip
	// earlier.
	Timeout time.Duration

	// Durability is the durability level of every write, touches and deletes
	// included. Zero: none, beyond what the bucket demands.
	Durability gocb.DurabilityLevel

	// RetryStrategy decides on retries after temporary failures, within Timeout. The driver marks
	// lookups as idempotent, which gocb does not do. The strategy is not asked about a write that
	// may have landed, nor about another client's lock that blocks a touch: neither is retried.
	// Nil: gocb's best effort. A driver cannot read the cluster's strategy. gocb calls it on goroutines of its own:
	// a panic there ends the process.
	RetryStrategy gocb.RetryStrategy

	// ParentSpan gives the span under which the operations of a call are traced. The context of a touch that waited
	// has none of its reader's values. It may return nil. Nil: no parent.
	ParentSpan func(context.Context) gocb.RequestSpan

	// ProbeKey lets Check write: it writes a document with the longest life, reads it, and removes
	// it. Its key is this one with a hyphen and eight random characters after it, so that many processes may check
	// at once. At most 237 bytes. Empty: Check only reads. See [Driver.Check].
	ProbeKey string
}

const (
	defaultXattr = "slidingttl.created_at"
	defaultField = "created_at"

	// The time-outs, and the least time-out of a durable write, are gocb's.
	defaultTimeout        = 2500 * time.Millisecond
	defaultDurableTimeout = 10 * time.Second
	leastDurableTimeout   = 1500 * time.Millisecond

	// maxXattrKey is the limit on the first part of an xattr's path.
	// Source: kv_engine, docs/ExtendedAttributes.md.
	maxXattrKey = 15

	// maxPath and maxPathNames limit the path of a sub-document operation. Source: subjson, path.cc,
	// which refuses the 32nd name.
	maxPath      = 1024
	maxPathNames = 31

	// notFirst are ASCII characters with which an xattr's key cannot begin. Source: kv_engine,
	// key_validator.cc.
	notFirst = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\x7f"
)

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	invalid := func(field, value, rule string) (Options, error) {
		return o, &driver.InvalidError{Field: "Options." + field, Value: value, Rule: rule}
	}
	if o.CreatedIn != Xattr && o.CreatedIn != Body {
		return invalid("CreatedIn", fmt.Sprint(int(o.CreatedIn)), "must be Xattr or Body")
	}
	if o.CreatedPath == "" {
		o.CreatedPath = [...]string{Xattr: defaultXattr, Body: defaultField}[o.CreatedIn]
	}
	root, field, _ := strings.Cut(o.CreatedPath, ".")
	path := fmt.Sprintf("%.80q", o.CreatedPath)
	control := func(r rune) bool { return r < ' ' }
	switch {
	case !utf8.ValidString(o.CreatedPath) || strings.ContainsFunc(o.CreatedPath, control) || len(o.CreatedPath) > maxPath || strings.Count(o.CreatedPath, ".") >= maxPathNames:
		return invalid("CreatedPath", path, fmt.Sprintf("must be UTF-8 without control characters, and have at most %d bytes and %d names", maxPath, maxPathNames))
	case o.CreatedIn == Body && strings.ContainsAny(o.CreatedPath, ".[]`\"\\"):
		return invalid("CreatedPath", path, "must be the name of a top-level field, without . [ ] ` \" or \\")
	case o.CreatedIn == Body && newCodec(o.Transcoder).flags:
		return invalid("Transcoder", fmt.Sprintf("%T", o.Transcoder), "must be nil or gocb's JSONTranscoder with CreatedIn: Body, which edits the JSON")
	case o.CreatedIn == Xattr && (root == "" || len(root) > maxXattrKey || field == ""):
		return invalid("CreatedPath", path, fmt.Sprintf("must be an xattr key of 1 to %d bytes, a dot and a field", maxXattrKey))
	case o.CreatedIn == Xattr && strings.ContainsRune(notFirst, rune(root[0])):
		// A system xattr, of _, outlives its document, as part of the tombstone.
		return invalid("CreatedPath", path, "must not begin with punctuation, such as _ and $, the marks of system and virtual xattrs")
	case o.CreatedIn == Xattr && (strings.ContainsAny(o.CreatedPath, "[]`\"\\") || slices.Contains(strings.Split(field, "."), "")):
		return invalid("CreatedPath", path, "must have the names of fields between its dots, without [ ] ` \" or \\")
	case o.CreatedIn == Xattr && newCodec(o.Transcoder).flags && strings.HasPrefix(field+".", flagsField+"."):
		return invalid("CreatedPath", path, "must not be in "+root+"."+flagsField+", where the flags of the Transcoder's documents are")
	}
	switch {
	case o.Retain < 0:
		return invalid("Retain", o.Retain.String(), "must not be negative")
	case o.Timeout < 0:
		return invalid("Timeout", o.Timeout.String(), "must not be negative")
	case o.Durability > gocb.DurabilityLevelPersistToMajority:
		return invalid("Durability", fmt.Sprint(uint8(o.Durability)), "must be one of gocb's durability levels")
	case o.Durability > gocb.DurabilityLevelNone && o.Timeout != 0 && o.Timeout < leastDurableTimeout:
		return invalid("Timeout", o.Timeout.String(), "must be at least "+leastDurableTimeout.String()+" with a durability level")
	case o.ProbeKey != "":
		if err := driver.CheckKey(o.ProbeKey, maxNamedKey-probeSuffix); err != nil {
			return o, fmt.Errorf("Options.ProbeKey: %w", err)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
		if o.Durability > gocb.DurabilityLevelMajority {
			o.Timeout = defaultDurableTimeout
		}
	}
	return o, nil
}
