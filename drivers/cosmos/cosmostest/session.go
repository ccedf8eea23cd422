package cosmostest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// levels are the consistency levels, the strongest first.
var levels = []azcosmos.ConsistencyLevel{
	azcosmos.ConsistencyLevelStrong, azcosmos.ConsistencyLevelBoundedStaleness, azcosmos.ConsistencyLevelSession,
	azcosmos.ConsistencyLevelConsistentPrefix, azcosmos.ConsistencyLevelEventual,
}

func rank(level azcosmos.ConsistencyLevel) int {
	for i, l := range levels {
		if l == level {
			return i
		}
	}
	return -1
}

// session returns the last write to p that the request must see, and an answer if it cannot. A
// client without a token of p has those of the partitions that p was split from.
func (n *container) session(c *call, p *partition) (uint64, *answer) {
	level := n.a.opts.Consistency
	if asked := azcosmos.ConsistencyLevel(c.header.Get("x-ms-consistency-level")); asked != "" {
		if rank(asked) < rank(level) {
			r := badRequest("Consistency level %s specified in the request is invalid when service is configured with consistency level %s.", asked, level)
			return 0, &r
		}
		level = asked
	}
	switch rank(level) {
	case 0, 1:
		return n.writtenIn(c, p), nil
	case 3, 4:
		return 0, nil
	}
	var session uint64
	for token := range strings.SplitSeq(c.header.Get("x-ms-session-token"), ",") {
		part, version, ok := strings.Cut(strings.TrimSpace(token), ":")
		if !ok || part != p.id && !slices.Contains(p.parents, part) {
			continue
		}
		lsn, err := strconv.ParseUint(version[strings.LastIndexByte(version, '#')+1:], 10, 64)
		if err != nil {
			r := badRequest("The session token is invalid.")
			return 0, &r
		}
		session = max(session, lsn)
	}
	if session > n.writtenIn(c, p) {
		r := notFound().sub(subSessionNotAvailable)
		return 0, &r
	}
	return session, nil
}

// setToken puts the session token of p into r, and the container that it is of.
func (r *answer) setToken(n *container, c *call, p *partition) {
	if r.header == nil {
		r.header = make(map[string]string)
	}
	r.header["x-ms-content-path"] = n.rid
	r.header["x-ms-session-token"] = fmt.Sprintf("%s:-1#%d", p.id, n.writtenIn(c, p))
}

// seen returns the state of i that a read sees if it must see writes up to session, nil for none.
func (n *container) seen(i *item, session uint64, c *call) *item {
	if i != nil && i.lsn > session && n.a.lagging.Load() {
		i = i.before
	}
	if i == nil || i.body == nil || n.expired(i, c) {
		return nil
	}
	return i
}
