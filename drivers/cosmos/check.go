package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Properties is a container as this driver needs it, for development and tests. It has the
// partition key, time to live, and an index of all properties but those that touches write.
func (d *Driver[T]) Properties(id string) azcosmos.ContainerProperties {
	var paths []string
	for _, p := range d.opts.PartitionKey {
		paths = append(paths, p.Path)
	}
	kind := azcosmos.PartitionKeyKindHash
	if len(paths) > 1 {
		kind = azcosmos.PartitionKeyKindMultiHash
	}
	return azcosmos.ContainerProperties{
		ID:                     id,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: paths, Kind: kind, Version: 2},
		DefaultTimeToLive:      to.Ptr[int32](-1),
		IndexingPolicy: &azcosmos.IndexingPolicy{
			IndexingMode:  azcosmos.IndexingModeConsistent,
			Automatic:     true,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: indexPath(d.opts.ExpiresAt)}, {Path: indexPath(ttlName)}},
		},
	}
}

// indexPath is the path of a property in an indexing policy, in which a name with other characters than
// letters, digits and _ is in quotes. Source:
// https://learn.microsoft.com/azure/cosmos-db/index-policy#include-exclude-paths
func indexPath(name string) string {
	if strings.Contains(name, "-") {
		name = quoted(name)
	}
	return "/" + name + "/?"
}

// Check implements driver.Checker, with a read of the container and one of an absent item.
// It requires that the partition key is the one configured; that time to live is on, and
// that its default, if there is one, is at least longest, because it removes items of other
// programs; that the properties that touches write are not indexed; that the account's
// consistency level is Session or stronger; that it takes writes in one region; and that
// the system's clock is within Options.MaxSkew of the service's.
//
// If all that is right, it tries whether this client may write and query: by a create, a patch and a
// delete that the service refuses in any case, and a query that finds nothing. By cosmostest's model
// they cost 5.3 request units.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	at := kit.ServerTime{Sent: time.Now(), Step: time.Second}
	res, _, err := d.readContainer(ctx, d.sessions.now())
	if err != nil {
		return failed(ctx, err)
	}
	at.Got = time.Now()
	p := res.ContainerProperties
	c := check{container: p.ID}
	c.partitionKey(p, d.Properties(p.ID))
	c.timeToLive(p, longest)
	for _, name := range []string{d.opts.ExpiresAt, ttlName} {
		if indexed(p.IndexingPolicy, "/"+name) {
			c.wrong("indexing policy", "with /"+name, "must exclude /"+name+"/? and have it in no composite index: otherwise each touch also pays for updating the index")
		}
	}
	// azcosmos shows the account's setting only in its requests.
	if req := res.RawResponse.Request; req != nil && req.Header.Get("x-ms-cosmos-allow-tentative-writes") == "true" {
		c.wrong("account", "with writes in several regions", "must write in one region only: otherwise the service drops one of two conflicting writes afterwards")
	}
	at.At, _ = http.ParseTime(res.RawResponse.Header.Get("Date")) // zero if there is none
	c.errs = append(c.errs, at.CheckSkew("Cosmos DB", d.opts.MaxSkew))
	if err := d.checkConsistency(ctx, &c); err != nil {
		return err
	}
	if err := errors.Join(c.errs...); err != nil {
		return err
	}
	return d.checkRights(ctx)
}

// check collects the problems of a Check.
type check struct {
	container string
	errs      []error
}

func (c *check) wrong(what, value, rule string) {
	c.errs = append(c.errs, &driver.InvalidError{Field: fmt.Sprintf("container %s: %s", c.container, what), Value: value, Rule: rule})
}

func (c *check) partitionKey(p *azcosmos.ContainerProperties, want azcosmos.ContainerProperties) {
	words := func(d azcosmos.PartitionKeyDefinition) string { return strings.Join(d.Paths, ", ") }
	if got, want := words(p.PartitionKeyDefinition), words(want.PartitionKeyDefinition); got != want {
		c.wrong("partition key", got, "must be "+want+", or Options.PartitionKey must be the container's")
	}
}

func (c *check) timeToLive(p *azcosmos.ContainerProperties, longest time.Duration) {
	switch ttl := p.DefaultTimeToLive; {
	case ttl == nil:
		c.wrong("DefaultTimeToLive", "absent", "must be -1: without it the ttl of items is ignored, and nothing is ever removed")
	case *ttl > 0 && time.Duration(*ttl)*time.Second < longest:
		c.wrong("DefaultTimeToLive", fmt.Sprintf("%d s", *ttl), fmt.Sprintf("must be -1, or at least %v: it removes the items of other programs that are not adopted yet", longest))
	}
}

// indexed reports whether a policy indexes path: in a composite index, or by the most precise of its
// paths.
func indexed(policy *azcosmos.IndexingPolicy, path string) bool {
	if policy == nil || policy.IndexingMode == azcosmos.IndexingModeNone {
		return false
	}
	for _, index := range policy.CompositeIndexes {
		for _, p := range index {
			if strings.ReplaceAll(p.Path, `"`, "") == path {
				return true
			}
		}
	}
	most, yes := -1, false
	precision := []string{"/*", path + "/*", path + "/?"}
	rule := func(text string, includes bool) {
		if n := slices.Index(precision, strings.ReplaceAll(text, `"`, "")); n > most {
			most, yes = n, includes
		}
	}
	for _, p := range policy.IncludedPaths {
		rule(p.Path, true)
	}
	for _, p := range policy.ExcludedPaths {
		rule(p.Path, false)
	}
	return yes
}

// absent is an item that does not exist, and other its place under another partition key.
var (
	absent = identity{"slidingttl-check", [maxLevels]string{"slidingttl-check", "slidingttl-check", "slidingttl-check"}}
	other  = identity{"slidingttl-check", [maxLevels]string{"slidingttl-none", "slidingttl-none", "slidingttl-none"}}
)

// checkConsistency reads with Session consistency, which a weaker account refuses.
func (d *Driver[T]) checkConsistency(ctx context.Context, c *check) error {
	sent := d.sessions.now()
	_, err := d.client.ReadItem(ctx, d.partitionKey(absent), absent.id, &azcosmos.ItemOptions{ConsistencyLevel: to.Ptr(azcosmos.ConsistencyLevelSession)})
	d.learn(&d.stats.ReadUnits, nil, sent, err)
	switch status(err) {
	case http.StatusBadRequest:
		c.wrong("account's consistency", "below Session", "must be at least Session: otherwise a read may miss this process's own touch")
	case http.StatusNotFound:
	default:
		if err != nil {
			return failed(ctx, err)
		}
	}
	return nil
}

// checkRights makes the calls that records need. No write can take effect: the patch and the delete are
// of an item that does not exist, on an _etag that none has, and the create is under a partition key
// that its item does not have.
func (d *Driver[T]) checkRights(ctx context.Context) error {
	missing := []int{http.StatusNotFound, http.StatusPreconditionFailed}
	var touch azcosmos.PatchOperations
	touch.AppendSet("/"+ttlName, -1)
	var errs []error
	for _, call := range []struct {
		name    string
		refusal []int // without effect, from one who may make the call; nil: it succeeds
		send    func(*azcosmos.ItemOptions) error
	}{
		{"create", []int{http.StatusBadRequest}, func(*azcosmos.ItemOptions) error {
			_, err := d.client.CreateItem(ctx, d.partitionKey(other), []byte(`{"id":"`+other.id+`"}`), nil)
			return err
		}},
		{"patch", missing, func(o *azcosmos.ItemOptions) error {
			_, err := d.client.PatchItem(ctx, d.partitionKey(absent), absent.id, touch, o)
			return err
		}},
		{"delete", missing, func(o *azcosmos.ItemOptions) error {
			_, err := d.client.DeleteItem(ctx, d.partitionKey(absent), absent.id, o)
			return err
		}},
		{"query", nil, func(*azcosmos.ItemOptions) error {
			_, err := d.client.NewQueryItemsPager("SELECT TOP 1 * FROM c", d.partitionKey(absent), nil).NextPage(ctx)
			return err
		}},
	} {
		sent := d.sessions.now()
		err := call.send(&azcosmos.ItemOptions{IfMatchEtag: &never})
		d.learn(&d.stats.ReadUnits, nil, sent, err)
		switch {
		case err == nil && call.refusal != nil:
			errs = append(errs, fmt.Errorf("%s: the service accepted what it should refuse", call.name))
		case err != nil && !slices.Contains(call.refusal, status(err)):
			errs = append(errs, fmt.Errorf("%s: %w", call.name, failed(ctx, err)))
		}
	}
	return errors.Join(errs...)
}
