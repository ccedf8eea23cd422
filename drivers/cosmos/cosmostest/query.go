package cosmostest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// pageSize is the default number of items in a page.
const pageSize = 100

// query answers with a page of a query, with items of one physical partition. If the request has
// a partition key, they are of that key.
func (n *container) query(c *call, key []any) answer {
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
	if c.isQueryPlan() { // the client need not process the answers
		return answer{status: http.StatusOK, charge: missCharge, body: []byte(`{"partitionedQueryExecutionInfoVersion":2,` +
			`"queryInfo":{"distinctType":"None","orderBy":[],"orderByExpressions":[],"groupByExpressions":[],"groupByAliases":[],` +
			`"aggregates":[],"groupByAliasToAggregateType":{},"rewrittenQuery":""},` +
			`"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]}`)}
	}
	over, wrong := n.over(c, key)
	if wrong != nil {
		return *wrong
	}
	parameters := make(map[string]any, len(in.Parameters))
	for _, p := range in.Parameters {
		parameters[p.Name] = p.Value
	}
	at, ok := resume(c.header.Get("x-ms-continuation"))
	if !ok {
		return badRequest("The continuation token is invalid.")
	}
	p, i := at.next(over)
	if p == nil {
		return badRequest("The continuation token is of other partitions.")
	}
	session, wrong := n.session(c, p)
	if wrong != nil {
		return *wrong
	}
	most := pageSize
	if asked, err := strconv.Atoi(c.header.Get("x-ms-max-item-count")); err == nil && asked != 0 {
		if most = asked; most < 0 {
			most = 1000
		}
	}
	rows := make([]any, 0)
	charge := queryCharge
	last, more := uint64(0), false
	for _, i := range n.inOrder(c, p, at.Left[i]) {
		seen := n.seen(i, session, c)
		if q.top >= 0 && at.Rows == q.top {
			break
		}
		if more = len(rows) == most; more {
			break
		}
		last = i.number
		if seen == nil || !within(n.keyOf(seen.doc), key) {
			continue
		}
		charge += queryShare * readCharge(len(seen.body))
		if !q.matches(seen.doc, parameters) {
			continue
		}
		if row, ok := q.selected(seen.doc, parameters); ok {
			rows = append(rows, row)
			at.Rows++
		}
	}
	at.pass(i, p, last, more)
	body, err := json.Marshal(map[string]any{"_rid": n.rid, "Documents": rows, "_count": len(rows)})
	if err != nil {
		return badRequest("%v", err)
	}
	r := answer{status: http.StatusOK, body: body, charge: charge, header: map[string]string{"x-ms-item-count": strconv.Itoa(len(rows))}}
	r.setToken(n, c, p)
	if next, _ := at.next(over); next != nil && at.Rows != q.top {
		r.header["x-ms-continuation"] = at.token()
	}
	return r
}

// over returns the physical partitions that the request is for.
func (n *container) over(c *call, key []any) ([]*partition, *answer) {
	wrong := func(r answer) ([]*partition, *answer) { return nil, &r }
	partitions := n.partitions
	if len(key) == len(n.paths) {
		partitions = []*partition{n.at(n.hashOf(key))}
	}
	asked := c.header.Get("x-ms-documentdb-partitionkeyrangeid")
	if asked == "" {
		if key == nil && !isTrue(c.header.Get("x-ms-documentdb-query-enablecrosspartition")) {
			return wrong(badRequest("Cross partition query is required but disabled."))
		}
		return partitions, nil
	}
	i := slices.IndexFunc(partitions, func(p *partition) bool { return p.id == asked })
	if i < 0 {
		return wrong(refuse(http.StatusGone, "Gone", "The partition key range is gone.").sub(subRangeGone))
	}
	return partitions[i : i+1], nil
}

// inOrder returns the items of a physical partition and a span that c's region has, in order.
func (n *container) inOrder(c *call, p *partition, of span) []*item {
	var list []*item
	for _, i := range n.known(c) {
		if i.hash >= max(p.from, of.From) && i.hash < min(p.to, of.To) && i.number > of.Number {
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
