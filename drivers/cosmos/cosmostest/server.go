package cosmostest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// call is a request.
type call struct {
	a      *Account
	header http.Header
	method string
	path   []string // unescaped: "dbs", "d", "colls", "c", "docs", "id"
	body   []byte
	now    time.Time
	second bool // it came to the second region
}

// answer is the answer to a request.
type answer struct {
	status, subStatus int
	body              []byte
	header            map[string]string
	charge            float64
}

// refuse returns the answer to a request that is not executed.
func refuse(status int, code, format string, args ...any) answer {
	body, _ := json.Marshal(map[string]string{"code": code, "message": fmt.Sprintf(format, args...)})
	return answer{status: status, body: body, charge: missCharge}
}

func (r answer) sub(status int) answer {
	r.subStatus = status
	return r
}

func notFound() answer {
	return refuse(http.StatusNotFound, "NotFound", "Entity with the specified id does not exist in the system.")
}

func badRequest(format string, args ...any) answer {
	return refuse(http.StatusBadRequest, "BadRequest", format, args...)
}

// ServeHTTP implements http.Handler.
func (a *Account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	a.faults.wait()
	c := &call{a: a, header: r.Header, method: r.Method, body: body, now: a.clock.now(), second: a.isSecond(r)}
	for segment := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		segment, err := url.PathUnescape(segment)
		if err != nil {
			a.send(w, badRequest("The path is not escaped."))
			return
		}
		c.path = append(c.path, segment)
	}
	op := c.op()
	if op == "" {
		a.send(w, c.carryOut(""))
		return
	}
	a.counts.count(op, len(body), c.second)
	if wait := a.faults.throttled(); wait > 0 {
		a.send(w, throttling(wait))
		return
	}
	fault, struck := a.faults.strike(op)
	var got answer
	if !struck || fault.Applied {
		got = c.carryOut(op)
		a.faults.spend(got.charge)
		a.counts.charged(got.charge)
	}
	if d := a.faults.delay(); d > 0 {
		time.Sleep(d)
	}
	if struck && fault.Then != nil {
		fault.Then()
	}
	switch {
	case struck && fault.Drop:
		connOf(r).code.Store(uint32(fault.Code))
		panic(http.ErrAbortHandler)
	case struck && fault.Silence:
		connOf(r).silent.Store(true)
		return
	case struck && fault.Status == http.StatusTooManyRequests:
		got = throttling(fault.RetryAfter)
	case struck:
		got = refuse(fault.Status, "Fault", "Made by the test.").sub(fault.SubStatus)
	}
	a.send(w, got)
}

// throttling returns the answer to a request beyond the throughput.
func throttling(wait time.Duration) answer {
	r := refuse(http.StatusTooManyRequests, "TooManyRequests", "The request rate is large.").sub(3200)
	r.header = map[string]string{"x-ms-retry-after-ms": strconv.FormatInt(wait.Milliseconds(), 10)}
	return r
}

func (a *Account) send(w http.ResponseWriter, r answer) {
	h := w.Header()
	h.Set("Date", a.clock.now().UTC().Format(http.TimeFormat))
	h.Set("x-ms-request-charge", strconv.FormatFloat(r.charge, 'f', 2, 64))
	h.Set("x-ms-activity-id", "00000000-0000-0000-0000-000000000000")
	if r.subStatus != 0 {
		h.Set("x-ms-substatus", strconv.Itoa(r.subStatus))
	}
	for name, value := range r.header {
		h.Set(name, value)
	}
	if len(r.body) > 0 {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
}

// op returns a request's operation, "" for one that is not counted.
func (c *call) op() Op {
	kind := ""
	if len(c.path) > 4 {
		kind = c.path[4]
	}
	switch {
	case len(c.path) == 4 && c.method == http.MethodGet:
		return OpReadContainer
	case kind == "pkranges":
		return OpReadRanges
	case kind != "docs":
		return ""
	case len(c.path) == 5:
		switch {
		case c.method != http.MethodPost:
			return ""
		case c.isQuery():
			return OpQuery
		case isTrue(c.header.Get("x-ms-documentdb-is-upsert")):
			return OpUpsert
		}
		return OpCreate
	}
	return map[string]Op{
		http.MethodGet: OpRead, http.MethodPut: OpReplace, http.MethodPatch: OpPatch, http.MethodDelete: OpDelete,
	}[c.method]
}

// isQuery recognises a query by the header that Microsoft documents, or by azcosmos's.
func (c *call) isQuery() bool {
	return isTrue(c.header.Get("x-ms-documentdb-isquery")) || isTrue(c.header.Get("x-ms-documentdb-query")) || c.isQueryPlan()
}

// isQueryPlan recognises the request for a query's plan, of a client that itself queries each
// physical partition.
func (c *call) isQueryPlan() bool { return isTrue(c.header.Get("x-ms-cosmos-is-query-plan-request")) }

func isTrue(header string) bool { return strings.EqualFold(header, "true") }

// carryOut executes a request that no fault has hit.
func (c *call) carryOut(op Op) answer {
	if !c.signed() {
		return refuse(http.StatusUnauthorized, "Unauthorized", "The input authorization token can't serve the request.")
	}
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if op == "" {
		return c.manage()
	}
	db := c.a.databases[c.path[1]]
	if db == nil {
		return notFound().sub(subOwnerNotFound)
	}
	container := db.containers[c.path[3]]
	if container == nil {
		if op == OpReadContainer {
			return notFound()
		}
		return notFound().sub(subOwnerNotFound)
	}
	switch op {
	case OpReadContainer:
		return answer{status: http.StatusOK, body: container.definition(), header: map[string]string{"etag": container.etag}, charge: missCharge}
	case OpReadRanges:
		return container.ranges(c)
	}
	if isTrue(c.header.Get("x-ms-cosmos-is-batch-request")) {
		return badRequest("Transactional batches are not supported.")
	}
	return container.serve(c, op)
}

// Sub-statuses.
const (
	subPartitionKeyMismatch = 1001
	subSessionNotAvailable  = 1002
	subRangeGone            = 1002
	subOwnerNotFound        = 1003
)

// signed reports whether the request is signed with the account's key. Source:
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
func (c *call) signed() bool {
	token, err := url.QueryUnescape(c.header.Get("Authorization"))
	if err != nil {
		return false
	}
	signature, ok := strings.CutPrefix(token, "type=master&ver=1.0&sig=")
	if !ok {
		return false
	}
	got, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	kind, link := "", ""
	if c.path[0] != "" {
		if len(c.path)%2 == 1 { // a feed
			kind, link = c.path[len(c.path)-1], strings.Join(c.path[:len(c.path)-1], "/")
		} else {
			kind, link = c.path[len(c.path)-2], strings.Join(c.path, "/")
		}
	}
	mac := hmac.New(sha256.New, c.a.key)
	_, _ = fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(c.method), kind, link, strings.ToLower(c.header.Get("x-ms-date")))
	return hmac.Equal(got, mac.Sum(nil))
}
