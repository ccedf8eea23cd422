package couchbasetest

import (
	"encoding/json"
	"net"
	"strconv"
)

// The cluster never changes, but its config has several revisions with the same
// content: a client that asks again gets the next one, until it has the last.
// gocb needs that. It passes only new configs to the part that serves cluster-level
// calls, and a node in the same process can answer before that part listens
// (gocbcore v10.8.1, AgentGroup.OpenBucket: RegisterWith comes after CreateAgent).
const (
	configEpoch   = 1
	lastConfigRev = 3
)

// bucketCapabilities are the features that a client may use.
var bucketCapabilities = []string{"collections", "durableWrite", "cccp", "cbhello", "nodesExt", "touch", "xattr", "rangeScan"}

type nodeExt struct {
	Services    map[string]int `json:"services"`
	ThisNode    bool           `json:"thisNode"`
	ServerGroup string         `json:"serverGroup"`
}

// serverGroup is the name of the group that every node is in by default. Without it,
// this node would count as one of the preferred group of a client that prefers none.
const serverGroup = "Group 1"

// nodesExt has no host name: a client then uses the one it connected to.
func (n *Node) nodesExt() []nodeExt {
	nodes := []nodeExt{{
		Services:    map[string]int{"kv": port(n.kv), "mgmt": port(n.mgmt)},
		ThisNode:    true,
		ServerGroup: serverGroup,
	}}
	if n.nodeDown {
		nodes = append([]nodeExt{{Services: map[string]int{"kv": closedPort}, ServerGroup: serverGroup}}, nodes...)
	}
	return nodes
}

// closedPort is a port on which nobody listens (tcpmux, RFC 1078).
const closedPort = 1

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// clusterConfig is the config for a client that has not selected a bucket.
func (n *Node) clusterConfig(rev uint64) []byte {
	return mustJSON(map[string]any{
		"rev":                    rev,
		"revEpoch":               configEpoch,
		"nodesExt":               n.nodesExt(),
		"clusterCapabilitiesVer": []int{1, 0},
		"clusterCapabilities":    map[string][]string{},
	})
}

// bucketConfig is the config for a client that has selected b.
func (n *Node) bucketConfig(b *bucket, rev uint64) []byte {
	host := func(port int) string { return "$HOST:" + strconv.Itoa(port) } // clients put in the host they connected to
	servers := []string{host(port(n.kv))}
	nodes := []any{map[string]any{"hostname": host(port(n.mgmt)), "ports": map[string]int{"direct": port(n.kv)}}}
	if n.nodeDown {
		servers = append([]string{host(closedPort)}, servers...)
		nodes = append([]any{map[string]any{"hostname": host(closedPort), "ports": map[string]int{"direct": closedPort}}}, nodes...)
	}
	vbMap := make([][]int, numVBuckets)
	for i := range vbMap {
		vbMap[i] = []int{len(servers) - 1} // this node, no replicas
	}
	return mustJSON(map[string]any{
		"rev":                    rev,
		"revEpoch":               configEpoch,
		"name":                   b.name,
		"uuid":                   b.uuid,
		"nodeLocator":            "vbucket",
		"uri":                    "/pools/default/buckets/" + b.name + "?bucket_uuid=" + b.uuid,
		"bucketCapabilitiesVer":  "",
		"bucketCapabilities":     bucketCapabilities,
		"clusterCapabilitiesVer": []int{1, 0},
		"clusterCapabilities":    map[string][]string{},
		"nodes":                  nodes,
		"nodesExt":               n.nodesExt(),
		"vBucketServerMap": map[string]any{
			"hashAlgorithm": "CRC",
			"numReplicas":   0,
			"serverList":    servers,
			"vBucketMap":    vbMap,
		},
	})
}

// json returns the manifest in the form of the data service and the management service.
func (m *manifest) json() []byte {
	type jsonCollection struct {
		Name   string `json:"name"`
		UID    string `json:"uid"`
		MaxTTL int64  `json:"maxTTL"`
	}
	type jsonScope struct {
		Name        string           `json:"name"`
		UID         string           `json:"uid"`
		Collections []jsonCollection `json:"collections"`
	}
	out := struct {
		UID    string      `json:"uid"`
		Scopes []jsonScope `json:"scopes"`
	}{UID: strconv.FormatUint(m.uid, 16)}
	for _, s := range m.scopes {
		js := jsonScope{Name: s.name, UID: strconv.FormatUint(uint64(s.id), 16), Collections: []jsonCollection{}}
		for _, c := range s.collections {
			maxTTL := int64(c.maxTTL)
			if c.noExpiry {
				maxTTL = -1
			}
			js.Collections = append(js.Collections, jsonCollection{Name: c.name, UID: strconv.FormatUint(uint64(c.id), 16), MaxTTL: maxTTL})
		}
		out.Scopes = append(out.Scopes, js)
	}
	return mustJSON(out)
}

// mustJSON encodes values that the package itself makes.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("couchbasetest: " + err.Error()) // a type that JSON does not have: a bug here
	}
	return b
}
