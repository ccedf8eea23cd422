package cosmostest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// pageSize is how many items a page has where the client does not say.
const pageSize = 100

// query answers with a page of a query, over the partition key if there is one.
func (n *container) query(c *call, key []any, session uint64) answer {
	var in struct {
		Query      string `json:"query"`
		Parameters []struct {
			Name  string `json:"name"`
			Value any    `json:"value"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return badRequest("The query is not JSON: %v", err)
	}
	q, err := parse(in.Query)
	if err != nil {
		return badRequest("Syntax error: %v", err)
	}
	part := c.header.Get("x-ms-documentdb-partitionkeyrangeid")
	switch {
	case part != "" && part != rangeID:
		return refuse(http.StatusGone, "Gone", "The partition key range is gone.").sub(1002)
	case key == nil && part == "" && !isTrue(c.header.Get("x-ms-documentdb-query-enablecrosspartition")):
		return badRequest("Cross partition query is required but disabled.")
	}
	parameters := make(map[string]any, len(in.Parameters))
	for _, p := range in.Parameters {
		parameters[p.Name] = p.Value
	}
	after, done, ok := resume(c.header.Get("x-ms-continuation"))
	if !ok {
		return badRequest("The continuation token is invalid.")
	}
	most := pageSize
	if asked, err := strconv.Atoi(c.header.Get("x-ms-max-item-count")); err == nil && asked != 0 {
		if most = asked; most < 0 {
			most = 1000
		}
	}
	rows := make([]any, 0)
	charge := queryCharge
	left := false
	for _, i := range n.inOrder(after) {
		seen := n.seen(i, session, c)
		if q.top >= 0 && done == q.top {
			break
		}
		if len(rows) == most {
			left = true
			break
		}
		after = i.number
		if seen == nil || !within(n.keyOf(seen.doc), key) {
			continue
		}
		charge += queryShare * readCharge(len(seen.body))
		if !q.matches(seen.doc, parameters) {
			continue
		}
		if row, ok := q.selected(seen.doc, parameters); ok {
			rows = append(rows, row)
			done++
		}
	}
	body, err := json.Marshal(map[string]any{"_rid": n.rid, "Documents": rows, "_count": len(rows)})
	if err != nil {
		return badRequest("%v", err)
	}
	r := answer{status: http.StatusOK, body: body, charge: charge, header: map[string]string{"x-ms-item-count": strconv.Itoa(len(rows))}}
	if left {
		r.header["x-ms-continuation"] = continuation(after, done)
	}
	return r
}

// inOrder is the items that were made after the one of that number.
func (n *container) inOrder(after uint64) []*item {
	list := make([]*item, 0, len(n.items))
	for _, i := range n.items {
		if i.number > after {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b *item) int { return cmp.Compare(a.number, b.number) })
	return list
}

// within reports whether key begins with prefix.
func within(key, prefix []any) bool {
	return len(prefix) == 0 || len(prefix) <= len(key) && place(key[:len(prefix)], "") == place(prefix, "")
}

// continuation is where a query goes on: after an item, with so many rows told.
func continuation(after uint64, done int) string {
	b, _ := json.Marshal([]uint64{after, uint64(done)})
	return base64.StdEncoding.EncodeToString(b)
}

func resume(token string) (after uint64, done int, ok bool) {
	if token == "" {
		return 0, 0, true
	}
	var at [2]uint64
	b, err := base64.StdEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(b, &at) != nil {
		return 0, 0, false
	}
	return at[0], int(at[1]), true
}
