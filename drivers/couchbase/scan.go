package couchbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// mark is a position in a scan, which goes by vbucket and then by key.
type mark struct {
	VBucket int    `json:"v"`
	To      int    `json:"to"` // first vbucket after the segment
	After   []byte `json:"k,omitempty"`
}

func (m mark) cursor() driver.Cursor {
	if m.VBucket >= m.To {
		return ""
	}
	return driver.EncodeCursor(m)
}

func parseMark(c driver.Cursor) (m mark, err error) {
	err = driver.DecodeCursor(c, &m)
	if err == nil && (m.VBucket < 0 || m.VBucket >= m.To) {
		err = driver.BadCursor(c)
	}
	return m, err
}

// Segments implements driver.Scanner, with ranges of vbuckets. A bucket has 1,024 of them, or 128 on
// Magma. A hash of the key decides its vbucket.
func (d *Driver[T]) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	vbuckets, err := d.vbuckets(ctx)
	if err != nil {
		return nil, err
	}
	cursors := make([]driver.Cursor, min(n, vbuckets))
	for i := range cursors {
		cursors[i] = mark{VBucket: vbuckets * i / len(cursors), To: vbuckets * (i + 1) / len(cursors)}.cursor()
	}
	return cursors, nil
}

// vbuckets returns the number of the bucket's vbuckets.
func (d *Driver[T]) vbuckets(ctx context.Context) (int, error) {
	bucket := d.collection.Bucket()
	if err := d.ready(ctx, bucket); err != nil {
		return 0, failure(ctx, err)
	}
	agent, err := bucket.Internal().IORouter()
	if err != nil {
		return 0, err
	}
	snapshot, err := agent.ConfigSnapshot()
	if err != nil {
		return 0, failure(ctx, err)
	}
	return snapshot.NumVbuckets()
}

// ready waits until the bucket is ready. It does not tell gocb v2.11.1 of ctx: if that ends as the bucket is found to be
// ready, the call never returns, for its end is signalled twice (asyncopmanager.go).
func (d *Driver[T]) ready(ctx context.Context, bucket *gocb.Bucket) error {
	_, err := beside(ctx, func() (any, error) {
		return nil, bucket.WaitUntilReady(d.opts.Timeout, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}})
	})
	return err
}

// beside returns what f does, or ctx's error if that ends before: f then goes on alone.
func beside[R any](ctx context.Context, f func() (R, error)) (R, error) {
	type end struct {
		res R
		err error
	}
	ended := make(chan end, 1)
	go func() {
		res, err := f()
		ended <- end{res, err}
	}()
	select {
	case e := <-ended:
		return e.res, e.err
	case <-ctx.Done():
		var none R
		return none, ctx.Err()
	}
}

// Scan implements driver.Scanner, with range scans of keys and a pipelined lookup for each
// key. It needs Couchbase Server 7.6 or later. A page takes as many vbuckets as fit. The
// scan asks for no snapshot: it sees what is persisted. It waits for a connection to each of the
// bucket's nodes, and fails with gocb.ErrTimeout if there is none within Options.Timeout.
func (d *Driver[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	at, err := parseMark(from)
	if err != nil {
		return driver.Page{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Page{}, err
	}
	vbuckets, err := d.vbuckets(ctx)
	if err != nil {
		return driver.Page{}, err
	}
	if at.To > vbuckets {
		return driver.Page{}, driver.BadCursor(from)
	}
	var keys []string
	for at.VBucket < at.To && len(keys) < limit {
		more, complete, err := d.keys(ctx, at, limit-len(keys))
		if err != nil {
			return driver.Page{}, err
		}
		keys = append(keys, more...)
		if complete {
			at.VBucket, at.After = at.VBucket+1, nil
		} else if len(more) > 0 {
			at.After = []byte(more[len(more)-1])
		}
	}
	records, err := d.metas(ctx, keys)
	if err != nil {
		return driver.Page{}, err
	}
	return driver.Page{Records: records, Next: at.cursor()}, nil
}

// lastKey sorts after every possible key.
var lastKey = bytes.Repeat([]byte{0xff}, maxNamedKey)

// keys returns up to limit keys of at's vbucket after at, and whether these are the last. A range scan
// ends with its connection, which another call's cancellation can close too; the next one goes on
// after its last key.
func (d *Driver[T]) keys(ctx context.Context, at mark, limit int) (keys []string, complete bool, err error) {
	agent, err := d.collection.Bucket().Internal().IORouter()
	if err != nil {
		return nil, false, err
	}
	var refused scanRequest
	for deadline := time.Now().Add(d.opts.Timeout); ; {
		if err := connected(ctx, agent, deadline); err != nil {
			return nil, false, err
		}
		var more []string
		more, complete, err = d.rangeScan(ctx, agent, at, limit-len(keys), deadline)
		keys = append(keys, more...)
		if len(more) > 0 {
			at.After = []byte(more[len(more)-1])
		}
		pause, again := d.again(err, &refused)
		switch {
		case again && len(keys) == limit:
			return keys, false, nil
		case !again || time.Now().Add(pause).After(deadline) || driver.Sleep(ctx, pause) != nil:
			return keys, complete, failure(ctx, err)
		}
	}
}

// again reports whether a scan goes on after err, and after which pause: at once with another connection, and as
// Options.RetryStrategy says after a temporary failure. gocbcore asks no strategy about scans.
func (d *Driver[T]) again(err error, refused *scanRequest) (pause time.Duration, again bool) {
	if lost(err) {
		return 0, true
	}
	if !errors.Is(err, gocbcore.ErrTemporaryFailure) && !errors.Is(err, gocbcore.ErrBusy) {
		return 0, false
	}
	if action := d.readRetry.RetryAfter(refused, gocb.KVTemporaryFailureRetryReason); action != nil {
		pause = action.Duration()
	}
	*refused = append(*refused, gocb.KVTemporaryFailureRetryReason)
	return pause, pause > 0
}

// scanRequest is a range scan as a gocb.RetryStrategy sees it: the reasons of its retries.
type scanRequest []gocb.RetryReason

func (r *scanRequest) RetryAttempts() uint32            { return uint32(len(*r)) }
func (r *scanRequest) Identifier() string               { return "RangeScan" }
func (r *scanRequest) Idempotent() bool                 { return true }
func (r *scanRequest) RetryReasons() []gocb.RetryReason { return *r }

// lost reports whether a scan failed because its connection is gone, before a request, as that was written or with
// one under way. Source: gocbcore v10.8.1, kvmux.go, memdclient.go.
func lost(err error) bool {
	if unwritten := (*net.OpError)(nil); errors.As(err, &unwritten) {
		return true
	}
	return slices.ContainsFunc([]error{gocbcore.ErrConnectionIDInvalid, gocbcore.ErrMemdClientClosed, gocbcore.ErrSocketClosed, io.EOF}, func(e error) bool { return errors.Is(err, e) })
}

// connected waits until the bucket has all of its connections. Without one of them gocbcore v10.8.1 ends the
// process where it looks for a scan's connection (kvMux.GetByConnID dereferences nil).
func connected(ctx context.Context, agent *gocbcore.Agent, deadline time.Time) error {
	for !whole(agent) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: a scan needs a connection to each of the bucket's nodes", gocb.ErrUnambiguousTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// whole reports whether the bucket has all of its connections.
func whole(agent *gocbcore.Agent) bool {
	now, err := agent.Diagnostics(gocbcore.DiagnosticsOptions{})
	return err == nil && !slices.ContainsFunc(now.MemdConns, func(c gocbcore.MemdConnInfo) bool { return c.LocalAddr == "" })
}

// rangeScan makes one range scan for keys.
func (d *Driver[T]) rangeScan(ctx context.Context, agent *gocbcore.Agent, at mark, limit int, deadline time.Time) (keys []string, complete bool, err error) {
	between := &gocbcore.RangeScanCreateRangeScanConfig{Start: []byte{0}, End: lastKey}
	if len(at.After) > 0 {
		between.Start, between.ExclusiveStart = nil, at.After
	}
	scan, err := await(ctx, func(done func(gocbcore.RangeScanCreateResult, error)) (gocbcore.PendingOp, error) {
		return agent.RangeScanCreate(uint16(at.VBucket), gocbcore.RangeScanCreateOptions{
			Deadline:       deadline,
			ScopeName:      d.collection.ScopeName(),
			CollectionName: d.collection.Name(),
			KeysOnly:       true,
			Range:          between,
		}, done)
	})
	if errors.Is(err, gocbcore.ErrDocumentNotFound) {
		return nil, true, nil // the range is empty
	}
	if err != nil {
		return nil, false, err
	}
	if !whole(agent) {
		return nil, false, gocbcore.ErrConnectionIDInvalid
	}
	var mu sync.Mutex // guards read: a request that is cancelled or too late ends while gocbcore may still call
	var read []string
	end, err := await(ctx, func(done func(*gocbcore.RangeScanContinueResult, error)) (gocbcore.PendingOp, error) {
		return scan.RangeScanContinue(gocbcore.RangeScanContinueOptions{Deadline: deadline, MaxCount: uint32(min(limit, 1<<20))}, func(items []gocbcore.RangeScanItem) {
			mu.Lock()
			defer mu.Unlock()
			for _, item := range items {
				read = append(read, string(item.Key))
			}
		}, done)
	})
	mu.Lock()
	keys = read
	mu.Unlock()
	if err != nil || end.Complete || !whole(agent) {
		// A failed scan is not cancelled; the server ends it when idle.
		return keys, err == nil && end.Complete, err
	}
	// The server keeps unfinished scans until they are cancelled, and limits their number.
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opts.Timeout)
	defer cancel()
	_, err = await(left, func(done func(*gocbcore.RangeScanCancelResult, error)) (gocbcore.PendingOp, error) {
		return scan.RangeScanCancel(gocbcore.RangeScanCancelOptions{Deadline: time.Now().Add(time.Second)}, done)
	})
	_ = err // the idle scan ends by itself
	return keys, false, nil
}

// await makes a call of gocbcore and waits for its end; it ends soon after ctx.
func await[R any](ctx context.Context, call func(done func(R, error)) (gocbcore.PendingOp, error)) (R, error) {
	type end struct {
		res R
		err error
	}
	ended := make(chan end, 1)
	op, err := call(func(res R, err error) { ended <- end{res, err} })
	if err != nil {
		var none R
		return none, err
	}
	select {
	case e := <-ended:
		return e.res, e.err
	case <-ctx.Done():
		op.Cancel()
		e := <-ended
		return e.res, e.err
	}
}

// metas looks up keys, and leaves out missing documents.
func (d *Driver[T]) metas(ctx context.Context, keys []string) ([]driver.Scanned, error) {
	records := make([]driver.Scanned, len(keys))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	_ = each(ctx, d.slots, len(keys), func(i int) (peeked, error) {
		return d.readPeeked(ctx, keys[i])
	}, func(i int, r peeked, err error) {
		switch {
		case errors.Is(err, driver.ErrNotFound):
			return
		case errors.Is(err, driver.ErrInvalid):
			records[i].Problem = err
		case err != nil:
			end(err)
			return
		}
		records[i].Key, records[i].Meta = keys[i], r.Meta
		if r.until > r.ExpiresAt {
			records[i].HeldUntil = r.until
		}
	})
	return slices.DeleteFunc(records, func(r driver.Scanned) bool { return r.Key == "" }), context.Cause(ctx)
}
