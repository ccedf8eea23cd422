package couchbase

import (
	"context"
	"fmt"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// mostSkew is the clock difference from which Check reports it: the resolution of an expiry.
	mostSkew = resolution

	// clockWrites limits the writes by which Check reads the server's clock. On a vBucket that is
	// not busy, the first or second is enough.
	clockWrites = 16

	// clockTick is the resolution of the wall clock in a CAS.
	clockTick = 1 << 16 * time.Nanosecond
)

// sighting is the CAS of a write, and this process's time before and after it.
//
// A CAS is a hybrid logical clock of the vBucket: the node's wall clock in nanoseconds with the low
// 16 bits clear, or the last CAS plus one if that is greater. So it is behind the wall clock by
// less than these bits. Source: kv_engine, HLCT::nextHLC.
type sighting struct {
	before, after time.Time
	cas           gocb.Cas
}

// wall reports whether the CAS is the node's wall clock.
func (s sighting) wall() bool { return s.cas%gocb.Cas(clockTick) == 0 }

// server returns the time in the CAS.
func (s sighting) server() time.Time { return time.Unix(0, int64(s.cas)) }

// check compares the server's clock with this process's.
func (s sighting) check() error {
	ahead := s.server().Sub(s.after)                  // at least
	behind := s.before.Sub(s.server().Add(clockTick)) // at least
	var skew time.Duration
	switch {
	case behind > mostSkew:
		skew = -behind
	case !s.wall():
		return fmt.Errorf("the server's clock cannot be read: in each of %d writes the vBucket's hybrid logical clock was ahead of it", clockWrites)
	case ahead > mostSkew:
		skew = ahead
	default:
		return nil
	}
	return &driver.InvalidError{Field: "server's clock", Value: fmt.Sprintf("%v ahead of this process's, at least", skew), Rule: "must be within " + mostSkew.String()}
}

// writeProbe writes the probe until its CAS is the wall clock, and returns the last write's
// sighting.
func (d *Driver[T]) writeProbe(ctx context.Context, key string, t terms, now driver.Instant) (s sighting, err error) {
	doc := document{body: []byte("{}")}
	if d.created.body {
		if doc.body, err = d.created.put(doc.body, now); err != nil {
			return s, err
		}
	}
	for range clockWrites {
		s.before = time.Now()
		p, err := d.mutateIn(ctx, key, mutation{flags: memd.SubdocDocFlagMkDoc, expiry: t.until, ops: d.wholeOps(doc, t, now, now)})
		if err != nil {
			return s, err
		}
		s.cas, err = p.wait(ctx)
		if err != nil {
			return s, err
		}
		s.after = time.Now()
		if s.wall() {
			break
		}
	}
	return s, nil
}
