package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// maxSends limits how often one write is sent: again each time that the item found is the planned
// one in another form.
const maxSends = 4

// conditional is one conditional write of an item.
type conditional struct {
	attempts
	k    identity
	etag string // the item's _etag; empty: send has another condition
	ask  bool   // read the item before the first send

	creates bool // the write creates the item

	send  func(ctx context.Context, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	judge func(found stored) kit.Verdict // called with the item that prevented the write
	sum   *float64                       // where request units are added

	beside  <-chan stored // a read of the item, sent together with the write
	trusted bool          // use beside also if it found a live record, which may be stale
}

// carryOut executes w, and returns the item's new _etag.
func (d *Driver[T]) carryOut(ctx context.Context, w *conditional, now driver.Instant) (string, error) {
	ctx = d.withKey(ctx, w.k)
	sending, end := w.follow(ctx, d.opts.Retry)
	defer end()
	of := d.hashOf(w.k)
	for sends := 0; ; {
		var refusal error
		if !w.ask {
			if err := ctx.Err(); err != nil {
				return "", w.Failed(ctx, err)
			}
			sends++
			sent := d.sessions.now()
			res, err := w.send(sending, match(w.etag))
			if err == nil {
				d.sessions.observe(res.RawResponse, &of, sent)
				d.stats.charged(w.sum, res.RequestCharge)
				return string(res.ETag), w.Succeeded()
			}
			d.learn(w.sum, &of, sent, err)
			switch status(err) {
			case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
			default:
				return "", w.failed(ctx, err)
			}
			d.stats.count(&d.stats.Refused)
			refusal = unquoted{err}
			if status(err) == http.StatusConflict && !(w.creates && w.etag == "") {
				return "", w.Failed(ctx, &driver.InvalidError{
					Field: "value",
					Value: "with what another item has",
					Rule:  "must be unique by the container's unique keys",
					Err:   refusal,
				})
			}
		}
		found, err := d.inWay(ctx, w, refusal, now)
		v := kit.Gone
		switch {
		case err == nil:
			v = w.judge(found)
		case !errors.Is(err, driver.ErrNotFound):
			return "", w.Failed(ctx, err)
		case w.creates && sends < maxSends:
			v = kit.Meant
		case w.creates && !w.Unsure(): // the item has expired and is not removed yet
			return "", fmt.Errorf("%w: %w", driver.ErrConflict, refusal)
		}
		if v != kit.Meant || sends == maxSends {
			return found.etag, w.Refused(ctx, v, found.Meta, found.odd, refusal)
		}
		if sends > 0 {
			d.stats.count(&d.stats.Again)
		}
		w.etag, w.ask = found.etag, false
	}
}

// inWay returns the item that prevented w, or ErrNotFound.
func (d *Driver[T]) inWay(ctx context.Context, w *conditional, refusal error, now driver.Instant) (stored, error) {
	if status(refusal) == http.StatusNotFound {
		return stored{}, driver.ErrNotFound
	}
	if w.beside != nil {
		found, ok := <-w.beside
		w.beside = nil
		if ok && (w.trusted || !found.Alive(now)) {
			return found, nil
		}
	}
	return d.readForWrite(ctx, w.k)
}

func match(etag string) *azcosmos.ItemOptions {
	if etag == "" {
		return nil
	}
	tag := azcore.ETag(etag)
	return &azcosmos.ItemOptions{IfMatchEtag: &tag}
}

// carryOutOver is carryOut for a write over the record was. If conditional is set and was has a
// version, the write has a condition and needs no _etag.
func (d *Driver[T]) carryOutOver(ctx context.Context, w *conditional, was driver.Meta, now driver.Instant, conditional bool) (string, error) {
	ctx, cancel := kit.WithLife(ctx, was, now, d.opts.MaxSkew)
	defer cancel()
	w.Named = true
	w.ask = !was.Alive(now)
	if !conditional || was.Version&foreign != 0 {
		w.etag = d.etags.of(was)
		w.ask = w.ask || w.etag == ""
	}
	return d.carryOut(ctx, w, now)
}
