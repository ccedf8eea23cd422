package cosmos

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// GetMulti implements driver.BatchGetter, with ReadManyItems. That makes a query for each physical
// partition and thousand keys, in pages, after two requests that the client makes once. If one of them
// fails, the client returns nothing: then it reads one key after the other, for those that the rest of the
// service answers.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	place := make(map[identity]int, len(keys)) // index in keys
	var bad driver.KeyErrors
	var items []azcosmos.ItemIdentity
	var asked []int // the index in keys of each
	for i, key := range driver.Distinct(keys) {
		var k identity
		err := recovered(func() (err error) {
			k, err = d.identity(key)
			return err
		})
		if _, again := place[k]; err == nil && again {
			err = invalidKey("computed", "must map to an item of its own: two keys of the call map to one item")
		}
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		place[k] = i
		asked = append(asked, i)
		items = append(items, azcosmos.ItemIdentity{ID: k.id, PartitionKey: d.partitionKey(k)})
	}
	if len(items) == 0 {
		return found, bad.Err()
	}
	res, err := read(ctx, d, nil, func(token *string) (azcosmos.ReadManyItemsResponse, *http.Response, error) {
		if d.sessions.unread() { // the client may know the partitions of a former one
			if _, _, err := d.readContainer(ctx, d.sessions.now()); err != nil {
				return azcosmos.ReadManyItemsResponse{}, nil, err
			}
			_, token = d.sessions.token(nil)
		}
		res, err := d.client.ReadManyItems(ctx, items, &azcosmos.ReadManyItemsOptions{SessionToken: token})
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			// With concurrent queries azcosmos 1.5.0 (collectChunkResults) reports a cancelled
			// query and not the one that failed. In sequence it reports the failure.
			res, err = d.client.ReadManyItems(ctx, items, &azcosmos.ReadManyItemsOptions{SessionToken: token, MaxConcurrency: to.Ptr[int32](1)})
		}
		return res, named(res.Items), err
	})
	if err != nil {
		if err = failed(ctx, err); ctx.Err() != nil || errors.Is(err, driver.ErrRefused) {
			return found, err
		}
		one := make([]string, len(asked))
		for n, i := range asked {
			one[n] = keys[i]
		}
		found, err = driver.GetMulti(ctx, pointReads[T]{d}, one)
		some, ok := err.(driver.KeyErrors)
		if err != nil && !ok {
			return found, err
		}
		for _, f := range some {
			bad = append(bad, &driver.KeyError{Index: asked[f.Index], Err: f.Err})
		}
		return found, bad.Err()
	}
	d.stats.charged(&d.stats.ReadUnits, res.RequestCharge)
	for _, body := range res.Items {
		k, _ := d.identityOf(gjson.ParseBytes(body))
		i, ok := place[k]
		if !ok {
			continue
		}
		var e driver.Entry[T]
		err := recovered(func() (err error) {
			e, err = d.entry(body)
			return err
		})
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		found[keys[i]] = e
	}
	// After its context has ended azcosmos 1.5.0 (executeQueryChunks) leaves out queries without an error.
	if err := ctx.Err(); err != nil {
		return found, err
	}
	return found, bad.Err()
}

// named returns what tells of the answers to a ReadManyItems: azcosmos does not hand them on, but an item names its
// container. Nil: there is none.
func named(items [][]byte) *http.Response {
	if len(items) == 0 {
		return nil
	}
	h := make(http.Header)
	h.Set(containerHeader, gjson.GetBytes(items[0], "_rid").Str)
	return &http.Response{Header: h}
}

// pointReads is a driver without GetMulti.
type pointReads[T any] struct{ driver.Driver[T] }

// Get is the driver's. A panic in a caller's function is the key's error.
func (d pointReads[T]) Get(ctx context.Context, key string) (e driver.Entry[T], err error) {
	err = recovered(func() (err error) {
		e, err = d.Driver.Get(ctx, key)
		return err
	})
	return e, err
}

// recovered calls f, and returns a panic in a caller's function, such as UnmarshalJSON, as an error.
func recovered(f func() error) error {
	err := hook.Recover(f)
	if _, panicked := err.(*driver.PanicError); panicked {
		err = &driver.InvalidError{Field: "record", Value: "one on which a function panics", Rule: "must be one that the functions of Options and of its type take", Err: unquoted{err}}
	}
	return err
}

// identityOf returns the identity of an item that was read. It reports false if a level of its partition key is no String: no
// record has such a one.
func (d *Driver[T]) identityOf(item gjson.Result) (k identity, ok bool) {
	k.id, ok = item.Get("id").Str, true
	for i, p := range d.opts.PartitionKey {
		level := propertyAt(item, strings.Split(p.Path, "/")[1:]...)
		k.partition[i], ok = level.Str, ok && level.Type == gjson.String
	}
	return k, ok
}

// propertyAt returns what is at a path of names in an item.
func propertyAt(item gjson.Result, names ...string) gjson.Result {
	for _, name := range names {
		item = item.Get(gjson.Escape(name))
	}
	return item
}
