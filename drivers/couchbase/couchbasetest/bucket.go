package couchbasetest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// numVBuckets is the number of shards of a bucket, each with its own lock,
// sequence numbers and clock of CAS values. Couchbase has 1,024, or 64 on
// macOS; clients take the number from the cluster config.
const numVBuckets = 64

// defaultCollectionID and firstCollectionID are the server's: ids below 8 are
// reserved.
const (
	defaultScope        = "_default"
	defaultCollection   = "_default"
	defaultCollectionID = 0
	firstCollectionID   = 8
)

// maxMaxTTL is the largest maxTTL the server takes, in seconds.
const maxMaxTTL = 1<<31 - 1

// Errors of the methods that add buckets, scopes and collections.
var (
	// ErrExists reports a bucket, scope or collection that exists already.
	ErrExists = errors.New("already exists")
	// ErrUnknown reports a bucket, scope or collection that does not exist.
	ErrUnknown = errors.New("unknown")
	// ErrInvalid reports a name or a setting that Couchbase does not allow.
	ErrInvalid = errors.New("invalid")
)

// BucketOptions are the settings of a bucket.
type BucketOptions struct {
	// MaxTTL caps the expiry of every document written to the bucket, and is
	// the expiry of those written without one. In whole seconds, at most
	// 2,147,483,647 of them; zero means no cap.
	MaxTTL time.Duration
}

// CollectionOptions are the settings of a collection.
type CollectionOptions struct {
	// MaxTTL takes the place of the bucket's MaxTTL for this collection. In
	// whole seconds; zero means the bucket's.
	MaxTTL time.Duration
	// NoExpiry shields the collection from the bucket's MaxTTL, as a maxTTL of
	// -1 does on the server (7.6 and later). It excludes MaxTTL.
	NoExpiry bool
}

// bucket is one bucket: its shards and the tree of its collections.
type bucket struct {
	name, uuid string
	vbuckets   [numVBuckets]vbucket

	// manifest is replaced, never changed, so that operations read it without
	// a lock. changes guards the replacing.
	changes  sync.Mutex
	manifest atomic.Pointer[manifest]
}

// manifest is a bucket's settings and its tree of collections at one time.
type manifest struct {
	uid    uint64
	maxTTL uint32 // the bucket's, in seconds
	nextID uint32
	scopes []scope
	byID   map[uint32]*collection
}

type scope struct {
	name        string
	id          uint32
	collections []*collection
}

type collection struct {
	name     string
	id       uint32
	maxTTL   uint32 // seconds; 0: the bucket's
	noExpiry bool
}

// ttl returns the maxTTL of c, in seconds; 0 means none. A collection's own setting
// hides the bucket's even if that is lower (kv_engine,
// Collections::VB::Manifest::processExpiryTime).
func (m *manifest) ttl(c *collection) uint32 {
	switch {
	case c.noExpiry:
		return 0
	case c.maxTTL != 0:
		return c.maxTTL
	default:
		return m.maxTTL
	}
}

func (m *manifest) scope(name string) *scope {
	for i := range m.scopes {
		if m.scopes[i].name == name {
			return &m.scopes[i]
		}
	}
	return nil
}

func (s *scope) collection(name string) *collection {
	for _, c := range s.collections {
		if c.name == name {
			return c
		}
	}
	return nil
}

// clone copies m for a change: the next manifest.
func (m *manifest) clone() *manifest {
	next := &manifest{uid: m.uid + 1, maxTTL: m.maxTTL, nextID: m.nextID, byID: map[uint32]*collection{}}
	for _, s := range m.scopes {
		s2 := scope{name: s.name, id: s.id}
		for _, c := range s.collections {
			c2 := *c
			s2.collections = append(s2.collections, &c2)
			next.byID[c2.id] = &c2
		}
		next.scopes = append(next.scopes, s2)
	}
	return next
}

func (m *manifest) addCollection(s *scope, c collection) {
	s.collections = append(s.collections, &c)
	m.byID[c.id] = &c
}

func (b *bucket) change(f func(*manifest) error) error {
	b.changes.Lock()
	defer b.changes.Unlock()
	next := b.manifest.Load().clone()
	if err := f(next); err != nil {
		return err
	}
	b.manifest.Store(next)
	return nil
}

func newBucket(name string, maxTTL uint32) *bucket {
	b := &bucket{name: name, uuid: hex.EncodeToString(randomBytes(16))}
	for i := range b.vbuckets {
		b.vbuckets[i].init()
	}
	m := &manifest{maxTTL: maxTTL, nextID: firstCollectionID, byID: map[uint32]*collection{}}
	m.scopes = []scope{{name: defaultScope}}
	m.addCollection(&m.scopes[0], collection{name: defaultCollection, id: defaultCollectionID})
	b.manifest.Store(m)
	return b
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see its documentation
	return b
}

// names are what Couchbase allows (docs: "Scopes and collections", "Create a
// bucket").
var (
	bucketName     = regexp.MustCompile(`^[A-Za-z0-9_.%-]{1,100}$`)
	collectionName = regexp.MustCompile(`^[A-Za-z0-9-][A-Za-z0-9_%-]{0,250}$`)
)

func ttlSeconds(d time.Duration) (uint32, error) {
	if d < 0 || d%time.Second != 0 || d/time.Second > maxMaxTTL {
		return 0, fmt.Errorf("couchbasetest: MaxTTL %v: %w: must be whole seconds from 0 to %d", d, ErrInvalid, maxMaxTTL)
	}
	return uint32(d / time.Second), nil
}

func (o *CollectionOptions) validate() (maxTTL uint32, noExpiry bool, err error) {
	if o == nil {
		return 0, false, nil
	}
	if o.NoExpiry && o.MaxTTL != 0 {
		return 0, false, fmt.Errorf("couchbasetest: MaxTTL %v: %w: excluded by NoExpiry", o.MaxTTL, ErrInvalid)
	}
	maxTTL, err = ttlSeconds(o.MaxTTL)
	return maxTTL, o.NoExpiry, err
}

// AddBucket adds a bucket. Nil options mean no maxTTL. Its error wraps
// [ErrExists] or [ErrInvalid].
func (n *Node) AddBucket(name string, opts *BucketOptions) error {
	if !bucketName.MatchString(name) {
		return fmt.Errorf("couchbasetest: bucket %q: %w: must match %v", name, ErrInvalid, bucketName)
	}
	var maxTTL uint32
	if opts != nil {
		var err error
		if maxTTL, err = ttlSeconds(opts.MaxTTL); err != nil {
			return err
		}
	}
	b := newBucket(name, maxTTL)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.buckets[name] != nil {
		return fmt.Errorf("couchbasetest: bucket %q: %w", name, ErrExists)
	}
	n.buckets[name] = b
	return nil
}

// AddScope adds a scope to a bucket. Its error wraps [ErrUnknown], [ErrExists]
// or [ErrInvalid].
func (n *Node) AddScope(bucket, name string) error {
	return n.changeManifest(bucket, func(m *manifest) error { return m.addScope(name) })
}

func (m *manifest) addScope(name string) error {
	if !collectionName.MatchString(name) {
		return fmt.Errorf("couchbasetest: scope %q: %w: must match %v", name, ErrInvalid, collectionName)
	}
	if m.scope(name) != nil {
		return fmt.Errorf("couchbasetest: scope %q: %w", name, ErrExists)
	}
	m.scopes = append(m.scopes, scope{name: name, id: m.nextID})
	m.nextID++
	return nil
}

// AddCollection adds a collection to a bucket, and its scope if that is
// missing. Nil options mean the bucket's maxTTL. Its error wraps [ErrUnknown],
// [ErrExists] or [ErrInvalid].
func (n *Node) AddCollection(bucket, scope, name string, opts *CollectionOptions) error {
	maxTTL, noExpiry, err := opts.validate()
	if err != nil {
		return err
	}
	if !collectionName.MatchString(name) {
		return fmt.Errorf("couchbasetest: collection %q: %w: must match %v", name, ErrInvalid, collectionName)
	}
	return n.changeManifest(bucket, func(m *manifest) error {
		if m.scope(scope) == nil {
			if err := m.addScope(scope); err != nil {
				return err
			}
		}
		s := m.scope(scope)
		if s.collection(name) != nil {
			return fmt.Errorf("couchbasetest: collection %q: %w", name, ErrExists)
		}
		m.addCollection(s, collection{name: name, id: m.nextID, maxTTL: maxTTL, noExpiry: noExpiry})
		m.nextID++
		return nil
	})
}

// SetBucketMaxTTL changes a bucket's maxTTL. As on the server, documents that
// exist keep their expiry until they are next written or touched. Its error
// wraps [ErrUnknown] or [ErrInvalid].
func (n *Node) SetBucketMaxTTL(bucket string, maxTTL time.Duration) error {
	ttl, err := ttlSeconds(maxTTL)
	if err != nil {
		return err
	}
	return n.changeManifest(bucket, func(m *manifest) error {
		m.maxTTL = ttl
		return nil
	})
}

// SetCollectionOptions changes a collection's settings. "_default", "_default" is the
// default collection. Documents that exist keep their expiry until they are next written or
// touched. Its error wraps [ErrUnknown] or [ErrInvalid].
func (n *Node) SetCollectionOptions(bucket, scope, name string, opts *CollectionOptions) error {
	maxTTL, noExpiry, err := opts.validate()
	if err != nil {
		return err
	}
	return n.changeManifest(bucket, func(m *manifest) error {
		s := m.scope(scope)
		if s == nil {
			return fmt.Errorf("couchbasetest: scope %q: %w", scope, ErrUnknown)
		}
		c := s.collection(name)
		if c == nil {
			return fmt.Errorf("couchbasetest: collection %q: %w", name, ErrUnknown)
		}
		c.maxTTL, c.noExpiry = maxTTL, noExpiry
		return nil
	})
}

func (n *Node) changeManifest(name string, f func(*manifest) error) error {
	b := n.bucket(name)
	if b == nil {
		return fmt.Errorf("couchbasetest: bucket %q: %w", name, ErrUnknown)
	}
	return b.change(f)
}
