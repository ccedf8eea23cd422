package cosmostest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// database is a database.
type database struct {
	id, rid    string
	containers map[string]*container
}

// rid returns a unique resource id: 8 bytes in base64 with - for /. An item's has the container's
// 8 bytes and 8 more.
func (a *Account) rid() string {
	a.lastID++
	return encodeRID(a.lastID)
}

func encodeRID(parts ...uint64) string {
	var b []byte
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, part)
	}
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

// itemRID returns the resource id of the item with that number.
func (n *container) itemRID(number uint64) string {
	b, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(n.rid, "-", "/"))
	return encodeRID(binary.BigEndian.Uint64(b), number)
}

// manage executes requests about accounts, databases and containers.
func (c *call) manage() answer {
	feed := len(c.path)%2 == 1
	switch {
	case c.path[0] == "" && c.method == http.MethodGet:
		return c.a.describe()
	case c.path[0] != "dbs" || len(c.path) > 4 || len(c.path) > 2 && c.path[2] != "colls":
		return badRequest("%s of this path is not supported.", c.method)
	case len(c.path) == 1 && c.method == http.MethodPost:
		return c.createDatabase()
	}
	if len(c.path) < 2 {
		return badRequest("%s of this path is not supported.", c.method)
	}
	db := c.a.databases[c.path[1]]
	if db == nil {
		return notFound()
	}
	switch {
	case len(c.path) == 2 && c.method == http.MethodGet:
		return c.database(http.StatusOK, db)
	case len(c.path) == 2 && c.method == http.MethodDelete:
		delete(c.a.databases, db.id)
		return answer{status: http.StatusNoContent}
	case len(c.path) == 3 && feed && c.method == http.MethodPost:
		return c.createContainer(db)
	}
	if len(c.path) != 4 {
		return badRequest("%s of this path is not supported.", c.method)
	}
	found := db.containers[c.path[3]]
	switch {
	case found == nil:
		return notFound()
	case c.method == http.MethodDelete:
		delete(db.containers, found.id)
		return answer{status: http.StatusNoContent}
	case c.method == http.MethodPut:
		return c.replaceContainer(found)
	}
	return badRequest("%s of this path is not supported.", c.method)
}

// describe returns the account as clients read it.
func (a *Account) describe() answer {
	writable := []map[string]string{{"name": WriteRegion, "databaseAccountEndpoint": a.Endpoint()}}
	readable := writable
	if a.second != nil {
		readable = append(readable, map[string]string{"name": ReadRegion, "databaseAccountEndpoint": endpoint(a.second)})
	}
	body, _ := json.Marshal(map[string]any{
		"id": "cosmostest", "writableLocations": writable, "readableLocations": readable,
		"enableMultipleWriteLocations": a.opts.MultiRegionWrites,
		"userConsistencyPolicy":        map[string]any{"defaultConsistencyLevel": a.opts.Consistency},
	})
	return answer{status: http.StatusOK, body: body}
}

func (c *call) database(status int, db *database) answer {
	body, _ := json.Marshal(map[string]any{"id": db.id, "_rid": db.rid, "_self": "dbs/" + db.rid + "/", "_etag": `"1"`, "_ts": c.now.Unix()})
	return answer{status: status, body: body}
}

func (c *call) createDatabase() answer {
	var in struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil || in.ID == "" {
		return badRequest("The database needs an id.")
	}
	if c.a.databases[in.ID] != nil {
		return refuse(http.StatusConflict, "Conflict", "Database already exists.")
	}
	db := &database{id: in.ID, rid: c.a.rid(), containers: make(map[string]*container)}
	c.a.databases[in.ID] = db
	return c.database(http.StatusCreated, db)
}

// partitionUnits are the request units in a second that a physical partition provides at most. Source:
// https://learn.microsoft.com/azure/cosmos-db/partitioning-overview#physical-partitions
const partitionUnits = 10_000

func (c *call) createContainer(db *database) answer {
	n := &container{a: c.a, rid: c.a.rid(), items: make(map[string]*item), rangesVersion: 1}
	if wrong := n.configure(c); wrong != nil {
		return *wrong
	}
	count := max(c.a.opts.Partitions, 1)
	if units, err := strconv.Atoi(c.header.Get("x-ms-offer-throughput")); err == nil {
		count = min(max(count, (units+partitionUnits-1)/partitionUnits), hashes)
	}
	if count > 1 && n.keyVersion != 2 {
		return badRequest("A partition key of version %d is kept in one physical partition here.", n.keyVersion)
	}
	n.divide(count, partition{to: "FF", lsn: 1})
	if c.a.regionLags {
		n.second = n.replicate()
	}
	if db.containers[n.id] != nil {
		return refuse(http.StatusConflict, "Conflict", "Container already exists.")
	}
	db.containers[n.id] = n
	return answer{status: http.StatusCreated, body: n.definition(), header: map[string]string{"etag": n.etag}}
}

func (c *call) replaceContainer(found *container) answer {
	next := &container{a: c.a, rid: found.rid}
	if wrong := next.configure(c); wrong != nil {
		return *wrong
	}
	if next.id != found.id || strings.Join(next.paths, ",") != strings.Join(found.paths, ",") {
		return badRequest("The id and the partition key of a container cannot be changed.")
	}
	found.properties, found.defaultTTL, found.indexing, found.etag = next.properties, next.defaultTTL, next.indexing, next.etag
	return answer{status: http.StatusOK, body: found.definition(), header: map[string]string{"etag": found.etag}}
}

// configure sets a container's properties from the body of c.
func (n *container) configure(c *call) *answer {
	wrong := func(format string, args ...any) *answer {
		r := badRequest(format, args...)
		return &r
	}
	var in struct {
		ID           string `json:"id"`
		PartitionKey struct {
			Paths   []string `json:"paths"`
			Kind    string   `json:"kind"`
			Version int      `json:"version"`
		} `json:"partitionKey"`
		DefaultTTL *int64    `json:"defaultTtl"`
		Indexing   *indexing `json:"indexingPolicy"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return wrong("The container is not JSON: %v", err)
	}
	if err := json.Unmarshal(c.body, &n.properties); err != nil || in.ID == "" {
		return wrong("The container needs an id.")
	}
	hierarchical := in.PartitionKey.Kind == "MultiHash"
	if p := len(in.PartitionKey.Paths); p == 0 || p > 3 || p > 1 && !hierarchical {
		return wrong("The partition key has %d paths, and the kind %q.", p, in.PartitionKey.Kind)
	}
	if ttl := in.DefaultTTL; ttl != nil && *ttl != -1 && (*ttl < 1 || *ttl > maxTTL) {
		return wrong("The default time to live is %d.", *ttl)
	}
	if in.Indexing == nil {
		in.Indexing = &indexing{Mode: "consistent", Automatic: true, Included: []indexPath{{"/*"}}, Excluded: []indexPath{{`/"_etag"/?`}}}
		n.properties["indexingPolicy"] = in.Indexing
	}
	if in.DefaultTTL != nil && strings.EqualFold(in.Indexing.Mode, "none") {
		return wrong("Time to live needs an indexing mode other than none.")
	}
	n.keyVersion = in.PartitionKey.Version
	n.id, n.paths, n.defaultTTL, n.indexing = in.ID, in.PartitionKey.Paths, in.DefaultTTL, *in.Indexing
	c.a.lastID++
	n.etag = fmt.Sprintf(`"%08x-0000-0700-0000-%08x0000"`, c.a.lastID, c.now.Unix())
	n.properties["_rid"], n.properties["_etag"], n.properties["_ts"] = n.rid, n.etag, c.now.Unix()
	return nil
}

// definition returns the container's properties.
func (n *container) definition() []byte {
	body, _ := json.Marshal(n.properties)
	return body
}
