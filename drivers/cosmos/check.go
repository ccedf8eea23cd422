package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/" + d.opts.ExpiresAt + "/?"}, {Path: "/" + ttlName + "/?"}},
		},
	}
}

// Check implements driver.Checker, with a read of the container and one of an absent item.
// It requires that the partition key is the one configured; that time to live is on, and
// that its default, if there is one, is at least longest, because it removes items of other
// programs; that the properties that touches write are not indexed; that the account's
// consistency level is Session or stronger; that it takes writes in one region; and that
// the system's clock is within Options.MaxSkew of the service's.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	at := driver.ServerTime{Sent: time.Now(), Step: time.Second}
	res, err := d.client.Read(ctx, nil)
	if err != nil {
		return failed(ctx, err)
	}
	at.Got = time.Now()
	p := res.ContainerProperties
	d.sessions.of(p.ResourceID)
	if p.PartitionKeyDefinition.Version < 2 {
		d.sessions.hashesOtherwise()
	}
	c := check{container: p.ID}
	c.partitionKey(p, d.Properties(p.ID))
	c.timeToLive(p, longest)
	for _, name := range []string{d.opts.ExpiresAt, ttlName} {
		if indexed(p.IndexingPolicy, "/"+name) {
			c.wrong("indexing policy", "with /"+name, "must exclude /"+name+"/?: otherwise each touch also pays for updating the index")
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
	return errors.Join(c.errs...)
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

// indexed reports whether a policy indexes path. The most precise of its paths decides.
func indexed(policy *azcosmos.IndexingPolicy, path string) bool {
	if policy == nil || policy.IndexingMode == azcosmos.IndexingModeNone {
		return false
	}
	most, yes := -1, false
	rule := func(text string, includes bool) {
		text = strings.ReplaceAll(text, `"`, "")
		if met := text == "/*" || text == path+"/?" || text == path+"/*"; met && len(text) > most {
			most, yes = len(text), includes
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

// checkConsistency reads with Session consistency, which a weaker account refuses.
func (d *Driver[T]) checkConsistency(ctx context.Context, c *check) error {
	const absent = "slidingttl-check"
	k := identity{id: absent}
	for i := range d.opts.PartitionKey {
		k.partition[i] = absent
	}
	_, err := d.client.ReadItem(ctx, d.partitionKey(k), absent, &azcosmos.ItemOptions{ConsistencyLevel: to.Ptr(azcosmos.ConsistencyLevelSession)})
	d.learn(&d.stats.ReadUnits, nil, err)
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
