package couchbasetest

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
)

// newMgmtServer returns the management service, which serves the settings of buckets and
// collections for reading.
func (n *Node) newMgmtServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /whoami", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, mustJSON(map[string]any{"id": n.username, "domain": "local", "roles": []any{}}))
	})
	mux.HandleFunc("GET /pools", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, []byte(`{"implementationVersion":"couchbasetest","pools":[{"name":"default","uri":"/pools/default"}]}`))
	})
	mux.HandleFunc("GET /pools/default/buckets", func(w http.ResponseWriter, _ *http.Request) {
		all := []any{}
		for _, b := range n.allBuckets() {
			all = append(all, n.settings(b))
		}
		writeJSON(w, mustJSON(all))
	})
	mux.HandleFunc("GET /pools/default/buckets/{bucket}", n.forBucket(func(b *bucket) []byte { return mustJSON(n.settings(b)) }))
	mux.HandleFunc("GET /pools/default/buckets/{bucket}/scopes", n.forBucket(func(b *bucket) []byte { return b.manifest.Load().json() }))
	return &http.Server{
		Handler:  n.authenticate(mux),
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn),
		// The server's Close does not wait for its connections, the node's does.
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				n.running.Add(1)
			case http.StateClosed, http.StateHijacked:
				n.running.Done()
			}
		},
	}
}

func (n *Node) allBuckets() []*bucket {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*bucket, 0, len(n.buckets))
	for _, b := range n.buckets {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *bucket) int { return strings.Compare(a.name, b.name) })
	return all
}

func (n *Node) forBucket(body func(*bucket) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b := n.bucket(r.PathValue("bucket"))
		if b == nil {
			http.Error(w, "Requested resource not found.", http.StatusNotFound)
			return
		}
		writeJSON(w, body(b))
	}
}

func (n *Node) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !equalText(user, n.username) || !equalText(password, n.password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="Couchbase Server Admin / REST"`)
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func equalText(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// settings are a bucket's, with the members that Couchbase's SDKs read.
func (n *Node) settings(b *bucket) map[string]any {
	return map[string]any{
		"name":                   b.name,
		"uuid":                   b.uuid,
		"bucketType":             "membase",
		"storageBackend":         "couchstore",
		"numVBuckets":            numVBuckets,
		"evictionPolicy":         "valueOnly",
		"conflictResolutionType": "seqno",
		"compressionMode":        "passive",
		"durabilityMinLevel":     "none",
		"maxTTL":                 b.manifest.Load().maxTTL,
		"replicaIndex":           false,
		"replicaNumber":          0,
		"quota":                  map[string]any{"ram": 256 << 20, "rawRAM": 256 << 20},
		"controllers":            map[string]any{},
		"bucketCapabilities":     bucketCapabilities,
		"nodes": []any{map[string]any{
			"hostname":          n.mgmt.Addr().String(),
			"status":            "healthy",
			"clusterMembership": "active",
			"version":           "couchbasetest",
			"thisNode":          true,
			"services":          []string{"kv"},
			"ports":             map[string]int{"direct": port(n.kv)},
			"serverGroup":       serverGroup,
		}},
	}
}
