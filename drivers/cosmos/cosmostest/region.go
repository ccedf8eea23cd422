package cosmostest

import (
	"net"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The account's regions, as azcosmos's ClientOptions.PreferredRegions name them.
const (
	WriteRegion = "Test"
	ReadRegion  = "Second"
)

// replica is a container's state in the second region, while that is behind.
type replica struct {
	items map[string]*item
	lsn   map[string]uint64 // by physical partition
}

// SetRegionLag stops the replication to the account's second region, or lets it catch up at
// once. While it is stopped, the region shows its own state, and answers 404 with sub-status
// 1002 to a session token of a later write.
func (a *Account) SetRegionLag(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.regionLags = on
	for _, db := range a.databases {
		for _, n := range db.containers {
			n.second = nil
			if on {
				n.second = n.replicate()
			}
		}
	}
}

func (n *container) replicate() *replica {
	r := &replica{items: make(map[string]*item, len(n.items)), lsn: make(map[string]uint64)}
	for at, i := range n.items {
		r.items[at] = i
	}
	for _, p := range n.partitions {
		r.lsn[p.id] = p.lsn
	}
	return r
}

// behind returns the state of c's region, nil if it is not behind.
func (n *container) behind(c *call) *replica {
	if !c.second || n.a.opts.Consistency == azcosmos.ConsistencyLevelStrong {
		return nil
	}
	return n.second
}

// known returns the items that c's region has.
func (n *container) known(c *call) map[string]*item {
	if r := n.behind(c); r != nil {
		return r.items
	}
	return n.items
}

// writtenIn returns the last write to p that c's region has.
func (n *container) writtenIn(c *call, p *partition) uint64 {
	r := n.behind(c)
	if r == nil {
		return p.lsn
	}
	for _, id := range slices.Backward(append(slices.Clip(p.parents), p.id)) {
		if lsn, ok := r.lsn[id]; ok {
			return lsn
		}
	}
	return 0
}

// isSecond reports whether r came to the second region.
func (a *Account) isSecond(r *http.Request) bool {
	to, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return a.second != nil && to != nil && to.String() == a.second.Addr().String()
}
