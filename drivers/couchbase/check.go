package couchbase

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// settingsTimeout bounds one request to the management service.
	settingsTimeout = 10 * time.Second

	// absentKey is the key that Check looks up without a ProbeKey, to see that the collection
	// answers.
	absentKey = "slidingttl:check"
)

// Check implements driver.Checker. It finds settings by which Couchbase keeps a record shorter than
// a write asks: the maxTTL of the collection, or else of the bucket, silently limits every later
// expiry, including Options.Retain.
//
// Without Options.ProbeKey it reads these settings from the management service, which needs a
// permission. With ProbeKey it needs no more permissions than the driver itself: it writes a
// document with the longest life under a key of its own that begins so, compares the stored expiry
// and created_at with those written and the server's clock with this process's, and removes the
// document. That checks only the clock of the node that holds the key.
//
// Each problem is a *driver.InvalidError that names the setting, its value and the least it should
// be. Errors that prevented a check are joined to them.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	asked := driver.Ceil(time.Now()).Add(longest).Add(d.opts.Retain)
	if _, err := expiry(asked); err != nil {
		return err
	}
	if d.opts.ProbeKey != "" {
		return d.probe(ctx, longest)
	}
	if _, err := d.meta(ctx, absentKey); err != nil && !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	return d.checkSettings(ctx, longest+d.opts.Retain)
}

// checkSettings compares the collection's effective maxTTL with longest. A collection's own
// overrides the bucket's, even if it is longer; gocb reports none as -1 s. Source:
// docs.couchbase.com, Expiration, Expiration setting priorities.
func (d *Driver[T]) checkSettings(ctx context.Context, longest time.Duration) error {
	bucket := d.collection.Bucket()
	ctx, cancel := context.WithTimeout(ctx, 2*settingsTimeout) // gocb v2.11.1 reads an answer's body without any
	defer cancel()
	scopes, err := beside(ctx, func() ([]gocb.ScopeSpec, error) {
		return bucket.CollectionsV2().GetAllScopes(&gocb.GetAllScopesOptions{Timeout: settingsTimeout, Context: ctx})
	})
	if err != nil {
		return failure(ctx, err)
	}
	for _, s := range scopes {
		for _, c := range s.Collections {
			if s.Name != d.collection.ScopeName() || c.Name != d.collection.Name() || c.MaxExpiry == 0 {
				continue
			}
			return checkMax("collection maxTTL", c.MaxExpiry, longest)
		}
	}
	most, err := d.bucketMax(ctx)
	if err != nil {
		return failure(ctx, fmt.Errorf("settings of the bucket: %w", err))
	}
	return checkMax("bucket maxTTL", most, longest)
}

func checkMax(field string, most, longest time.Duration) error {
	// The driver rounds the expiry up, and the server rounds its clock down.
	least := longest + 2*resolution
	if most <= 0 || most >= least {
		return nil
	}
	return &driver.InvalidError{Field: field, Value: most.String(), Rule: fmt.Sprintf("must be 0 or at least %v, the longest life that a write asks for (%v) plus %v for rounding: Couchbase shortens longer lives without an error", least, longest, 2*resolution)}
}

// bucketMax reads the bucket's maxTTL.
func (d *Driver[T]) bucketMax(ctx context.Context) (time.Duration, error) {
	agent, err := d.collection.Bucket().Internal().IORouter()
	if err != nil {
		return 0, err
	}
	res, err := await(ctx, func(done func(*gocbcore.HTTPResponse, error)) (gocbcore.PendingOp, error) {
		return agent.DoHTTPRequest(&gocbcore.HTTPRequest{
			Service:      gocbcore.MgmtService,
			Method:       http.MethodGet,
			Path:         "/pools/default/buckets/" + url.PathEscape(d.collection.Bucket().Name()),
			IsIdempotent: true,
			Deadline:     time.Now().Add(settingsTimeout),
		}, done)
	})
	if err != nil {
		return 0, err
	}
	body, err := bodyOf(ctx, res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("management service answers %d; for a user that may not read the settings, set Options.ProbeKey", res.StatusCode)
	}
	var settings struct {
		MaxTTL int64 `json:"maxTTL"`
	}
	if err := json.Unmarshal(body, &settings); err != nil {
		return 0, err
	}
	return time.Duration(settings.MaxTTL) * time.Second, nil
}

// bodyOf reads an answer's body and closes it. The request's deadline ended with the answer's head.
func bodyOf(ctx context.Context, body io.ReadCloser) ([]byte, error) {
	end := sync.OnceFunc(func() { _ = body.Close() })
	defer end()
	defer time.AfterFunc(settingsTimeout, end).Stop()
	defer context.AfterFunc(ctx, end)()
	return io.ReadAll(io.LimitReader(body, 16<<20))
}

// probeSuffix is the length of what is random in the key of a probe.
const probeSuffix = 9

// removalWait is how long Check waits, after its context has ended, for the removal of a probe.
const removalWait = time.Second

// probe writes a record with the longest life, and checks what the server stored.
func (d *Driver[T]) probe(ctx context.Context, longest time.Duration) (err error) {
	key := d.opts.ProbeKey + "-" + rand.Text()[1:probeSuffix]
	now := driver.Ceil(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(longest)}
	t, err := d.terms(life)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// A failed write may have landed too, and nobody looks for this key again.
	defer func() {
		last, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(removalWait, cancel) })()
		if left := d.Delete(last, key); ctx.Err() == nil {
			err = errors.Join(err, left)
		}
	}()
	clock, err := d.writeProbe(ctx, key, t, now)
	if err != nil {
		return err
	}
	r, err := d.readPeeked(ctx, key)
	if err != nil {
		return err
	}
	if r.CreatedAt != now {
		err = &driver.InvalidError{Field: d.created.field(), Value: "another than the one just written", Rule: "must be read back as it was written"}
	}
	return errors.Join(err, checkStored(instantOf(t.until), r.until, clock.server(), longest+d.opts.Retain), clock.check())
}

func checkStored(asked, got driver.Instant, server time.Time, longest time.Duration) error {
	if got >= asked {
		return nil
	}
	return &driver.InvalidError{
		Field: "stored expiry", Value: got.Time().Sub(server).Round(time.Second).String() + " from now by the server's clock",
		Rule: "must be the one asked for, " + longest.String() + " from now, rounded up; look for a maxTTL of the collection or bucket",
	}
}
