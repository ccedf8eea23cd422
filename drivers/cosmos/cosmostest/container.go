package cosmostest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// container is a container.
type container struct {
	a          *Account
	id, rid    string
	etag       string
	properties map[string]any
	paths      []string // of the partition key
	defaultTTL *int64
	indexing   indexing
	items      map[string]*item // by place
	made       uint64           // items, including deleted ones
	second     *replica         // the second region's state; nil: it has everything

	keyVersion    int
	partitions    []*partition // in the order of their ranges
	rangesVersion uint64
	lastRange     int
}

// item is an item, or a deleted one if it has no body.
type item struct {
	doc    map[string]any
	body   []byte
	etag   string
	ts     int64
	hash   string // of its partition key
	lsn    uint64
	number uint64 // in the order in which items were made
	before *item  // its state before the last write
}

const (
	maxItem = 2 << 20
	maxID   = 1023
	maxTTL  = 1<<31 - 1
)

// place returns the key of an item in items: its partition key and id.
func place(key []any, id string) string {
	text, _ := json.Marshal(key)
	return string(text) + id
}

// serve executes an operation on items.
func (n *container) serve(c *call, op Op) answer {
	key, wrong := n.partitionKey(c)
	if wrong != nil {
		return *wrong
	}
	var r answer
	switch {
	case op == OpQuery:
		r = n.query(c, key)
	case len(key) != len(n.paths):
		return badRequest("The partition key has %d values: must have %d.", len(key), len(n.paths)).sub(subPartitionKeyMismatch)
	default:
		p := n.at(n.hashOf(key))
		session, wrong := n.session(c, p)
		switch {
		case wrong != nil:
			return *wrong
		case op == OpRead:
			r = n.read(c, n.seen(n.known(c)[place(key, c.path[5])], session, c))
		case op == OpCreate || op == OpUpsert:
			r = n.create(c, key, op == OpUpsert)
		default:
			r = n.change(c, op, key, c.path[5])
		}
		r.setToken(n, c, p)
	}
	if op == OpQuery || op == OpRead {
		if n.a.opts.Consistency == azcosmos.ConsistencyLevelStrong || n.a.opts.Consistency == azcosmos.ConsistencyLevelBoundedStaleness {
			r.charge *= 2
		}
	}
	return r
}

// partitionKey returns the request's partition key, nil if it names none.
func (n *container) partitionKey(c *call) ([]any, *answer) {
	text := c.header.Get("x-ms-documentdb-partitionkey")
	if text == "" {
		return nil, nil
	}
	var key []any
	if err := json.Unmarshal([]byte(text), &key); err != nil || len(key) == 0 || len(key) > len(n.paths) {
		r := badRequest("The partition key of the header is invalid.")
		return nil, &r
	}
	for _, value := range key {
		switch value.(type) {
		case nil, string, bool, float64:
		default:
			r := badRequest("The partition key of the header is invalid.")
			return nil, &r
		}
	}
	return key, nil
}

// live returns the item for a write, nil if there is none.
func (n *container) live(at string, c *call) *item {
	if i := n.items[at]; i != nil && i.body != nil && !n.expired(i, c) {
		return i
	}
	return nil
}

// expired reports whether the time to live of i has passed. Source:
// https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live
func (n *container) expired(i *item, c *call) bool {
	if n.defaultTTL == nil {
		return false
	}
	ttl := float64(*n.defaultTTL)
	if own, ok := i.doc["ttl"].(float64); ok {
		ttl = own
	}
	return ttl > 0 && float64(c.now.UnixMilli()) >= (float64(i.ts)+ttl)*1000
}

// lingers reports whether i's time to live has passed, but the service has not removed it yet.
func (n *container) lingers(i *item, c *call) bool {
	if i == nil || i.body == nil {
		return false
	}
	before := *c
	before.now = c.now.Add(-time.Duration(n.a.removalLag.Load()))
	return !n.expired(i, &before)
}

func conflict() answer {
	return refuse(http.StatusConflict, "Conflict", "Entity with the specified id already exists in the system.")
}

func (n *container) read(c *call, i *item) answer {
	if i == nil {
		return notFound()
	}
	if c.header.Get("If-None-Match") == i.etag {
		return answer{status: http.StatusNotModified, charge: missCharge}
	}
	return answer{status: http.StatusOK, body: i.body, header: map[string]string{"etag": i.etag}, charge: readCharge(len(i.body))}
}

func (n *container) create(c *call, key []any, upsert bool) answer {
	doc, wrong := n.document(c.body, key)
	if wrong != nil {
		return *wrong
	}
	at := place(key, doc["id"].(string))
	found := n.live(at, c)
	if found == nil && !upsert && n.lingers(n.items[at], c) {
		return conflict()
	}
	if found == nil {
		i, wrong := n.store(c, at, doc)
		if wrong != nil {
			return *wrong
		}
		return c.written(http.StatusCreated, i, n.insertCharge(i))
	}
	if !upsert {
		return conflict()
	}
	if refusal := c.mismatch(found); refusal != nil {
		return *refusal
	}
	i, wrong := n.store(c, at, doc)
	if wrong != nil {
		return *wrong
	}
	return c.written(http.StatusOK, i, 2*n.insertCharge(i))
}

// change executes a replace, a patch or a delete.
func (n *container) change(c *call, op Op, key []any, id string) answer {
	at := place(key, id)
	found := n.live(at, c)
	if found == nil {
		return notFound()
	}
	if refusal := c.mismatch(found); refusal != nil {
		return *refusal
	}
	if op == OpDelete {
		p := n.at(found.hash)
		p.lsn++
		n.items[at] = &item{hash: found.hash, lsn: p.lsn, number: found.number, before: found.alone()}
		return answer{status: http.StatusNoContent, charge: n.insertCharge(found)}
	}
	var doc map[string]any
	charge := 0.0
	if op == OpPatch {
		patched, paths, refusal := n.patch(c, found)
		if refusal != nil {
			return *refusal
		}
		doc, charge = patched, 2*(sizeCharge(len(found.body))+indexCharge*float64(n.indexing.count(paths)))
	} else {
		replaced, wrong := n.document(c.body, key)
		if wrong != nil {
			return *wrong
		}
		if doc = replaced; doc["id"] != id {
			return badRequest("The id of the item is not that of the path.")
		}
	}
	i, wrong := n.store(c, at, doc)
	if wrong != nil {
		return *wrong
	}
	if op == OpReplace {
		charge = 2 * n.insertCharge(i)
	}
	return c.written(http.StatusOK, i, charge)
}

// alone returns i without its former state.
func (i *item) alone() *item {
	if i == nil {
		return nil
	}
	copied := *i
	copied.before = nil
	return &copied
}

// mismatch returns the answer if the request names another version than i's.
func (c *call) mismatch(i *item) *answer {
	if want := c.header.Get("If-Match"); want != "" && want != "*" && want != i.etag {
		r := preconditionFailed()
		r.charge = readCharge(len(i.body))
		return &r
	}
	return nil
}

func preconditionFailed() answer {
	return refuse(http.StatusPreconditionFailed, "PreconditionFailed", "Operation cannot be performed because one of the specified precondition is not met.")
}

// written returns the answer to a write of i.
func (c *call) written(status int, i *item, charge float64) answer {
	r := answer{status: status, header: map[string]string{"etag": i.etag}, charge: charge}
	if c.header.Get("Prefer") != "return=minimal" {
		r.body = i.body
	}
	return r
}

// document parses an item, which must have this partition key.
func (n *container) document(body []byte, key []any) (map[string]any, *answer) {
	wrong := func(r answer) (map[string]any, *answer) { return nil, &r }
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil || doc == nil {
		return wrong(badRequest("The item is not a JSON object."))
	}
	id, ok := doc["id"].(string)
	if !ok || id == "" || len(id) > maxID || strings.ContainsAny(id, `/\?#`) {
		return wrong(badRequest("The input name is invalid. Ensure to provide a unique non-empty string of at most %d bytes without / \\ ? #.", maxID))
	}
	if place(n.keyOf(doc), id) != place(key, id) {
		return wrong(badRequest("PartitionKey extracted from document doesn't match the one specified in the header.").sub(subPartitionKeyMismatch))
	}
	return doc, nil
}

// keyOf returns the partition key of doc. A missing value is an empty object, as in headers.
func (n *container) keyOf(doc map[string]any) []any {
	key := make([]any, len(n.paths))
	for i, path := range n.paths {
		var value any = doc
		for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			object, _ := value.(map[string]any)
			var there bool
			if value, there = object[name]; !there {
				value = map[string]any{}
				break
			}
		}
		key[i] = value
	}
	return key
}

// store writes doc at a place.
func (n *container) store(c *call, at string, doc map[string]any) (*item, *answer) {
	if n.defaultTTL != nil {
		if ttl, there := doc["ttl"]; there && ttl != nil {
			if v, ok := ttl.(float64); !ok || v != float64(int64(v)) || v != -1 && (v < 1 || v > maxTTL) {
				r := badRequest("The input ttl is invalid. Ensure to provide a nonzero positive integer less than or equal to '%d', or -1.", maxTTL)
				return nil, &r
			}
		}
	}
	doc = maps.Clone(doc)
	n.a.lastID++
	hash := n.hashOf(n.keyOf(doc))
	p := n.at(hash)
	i := &item{doc: doc, ts: c.now.Unix(), hash: hash, lsn: p.lsn + 1}
	i.etag = fmt.Sprintf(`"%08x-0000-0700-0000-%08x0000"`, n.a.lastID, i.ts)
	before := n.items[at]
	if before != nil && !n.expired(before, c) {
		i.number, i.before = before.number, before.alone()
	} else {
		i.number = n.made + 1
	}
	doc["_rid"] = n.itemRID(i.number)
	doc["_self"], doc["_attachments"] = "dbs/"+n.rid+"/", "attachments/"
	doc["_etag"], doc["_ts"] = i.etag, float64(i.ts)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(doc)
	if body.Len() > maxItem {
		r := refuse(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "Request size is too large.")
		return nil, &r
	}
	i.body = bytes.TrimSpace(body.Bytes())
	p.lsn++
	n.made = max(n.made, i.number)
	n.items[at] = i
	return i, nil
}
