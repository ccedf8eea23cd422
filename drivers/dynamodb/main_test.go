package dynamodb

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { os.Exit(dynamodbtest.Main(m)) }

// versionName is the default of Options.Version.
const versionName = "slidingttl_version"

type attrs = map[string]types.AttributeValue

// session is what most tests store.
type session struct {
	User string `dynamodbav:"user"`
	Note string `dynamodbav:"note,omitempty"`
}

// table is a driver on a table of its own, with the wire between them.
type table[T any] struct {
	*Driver[T]
	wire   *wire
	client *dynamodb.Client // does not pass the wire
}

// open makes a table as opts asks for.
func open[T any](t testing.TB, opts *Options, client ...func(*dynamodb.Options)) *table[T] {
	t.Helper()
	server := dynamodbtest.Start(t)
	tbl := &table[T]{wire: newWire(), client: server.Client()}
	if opts != nil && opts.LifeTable != "" {
		own := *opts
		own.LifeTable, opts = server.Table(t), &own
	}
	d, err := New[T](tbl.wire.client(server, client...), server.Table(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	tbl.Driver = d
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	tbl.wire.reset()
	return tbl
}

// put writes an item as another program would.
func (tbl *table[T]) put(t testing.TB, key string, item attrs) {
	t.Helper()
	item = maps.Clone(item)
	k, err := tbl.primaryKey(key)
	if err != nil {
		t.Fatal(err)
	}
	tbl.setKey(item, k)
	if _, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// raw returns the stored item, nil if there is none.
func (tbl *table[T]) raw(t testing.TB, key string) attrs {
	t.Helper()
	k, err := tbl.primaryKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tbl.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &tbl.Driver.table, Key: tbl.attributes(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func (tbl *table[T]) mustInsert(t testing.TB, key string, v T, life driver.Life, now driver.Instant) driver.Meta {
	t.Helper()
	version, err := tbl.Insert(t.Context(), key, v, life, now)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Meta{Life: life, Version: version}
}

func (tbl *table[T]) mustGet(t testing.TB, key string) driver.Entry[T] {
	t.Helper()
	e, err := tbl.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// base is a whole second in the future, when DynamoDB Local deletes nothing.
var base = driver.Floor(time.Now().Add(24 * time.Hour)).RoundUp(time.Second)

// lasting is the life of a record created at base that expires after ttl.
func lasting(ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: base, ExpiresAt: base.Add(ttl)}
}

func wantNotFound(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrNotFound) {
		t.Fatalf("%s: error %v, want ErrNotFound", what, err)
	}
}

func wantConflict(t testing.TB, what string, err error, found driver.Meta) {
	t.Helper()
	var conflict *driver.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("%s: error %v, want a ConflictError", what, err)
	}
	if conflict.Found != found {
		t.Fatalf("%s: conflict with %+v, want %+v", what, conflict.Found, found)
	}
	var refusal *types.ConditionalCheckFailedException
	if !errors.As(err, &refusal) {
		t.Errorf("%s: the SDK's error is out of reach", what)
	} else if refusal.Item != nil {
		t.Errorf("%s: the error carries the whole item", what)
	}
}

func wantInvalid(t testing.TB, what string, err error, field string, mentions ...string) {
	t.Helper()
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("%s: error %v, want an InvalidError", what, err)
	}
	if invalid.Field != field {
		t.Errorf("%s: field %q, want %q", what, invalid.Field, field)
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%s: error %q does not mention %q", what, err, m)
		}
	}
}

type (
	request  = http.Request
	response = http.Response
	sender   = func() (*response, error)

	// fault answers a request itself, or sends it.
	fault func(op string, req *request, send sender) (*response, error)
)

// wire counts requests by operation, and lets a test intercept them.
type wire struct {
	base http.RoundTripper

	mu     sync.Mutex // guards the rest
	counts map[string]int
	fault  fault
}

func newWire() *wire { return &wire{base: http.DefaultTransport, counts: map[string]int{}} }

func (w *wire) client(s *dynamodbtest.Server, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return s.Client(append([]func(*dynamodb.Options){func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{Transport: w}
	}}, opts...)...)
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	w.mu.Lock()
	w.counts[op]++
	fault := w.fault
	w.mu.Unlock()
	send := func() (*http.Response, error) { return w.base.RoundTrip(req) }
	if fault != nil {
		return fault(op, req, send)
	}
	return send()
}

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.counts)
	w.fault = nil
}

// between calls f in place of each request from now on; send sends it.
func (w *wire) between(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// want fails unless exactly these requests were sent since its last call.
func (w *wire) want(t testing.TB, what string, ops ...string) {
	t.Helper()
	want := map[string]int{}
	for _, op := range ops {
		want[op]++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.counts, want) {
		t.Errorf("%s: requests %v, want %v", what, w.counts, want)
	}
	clear(w.counts)
}

// answer is a response as DynamoDB would give it.
func answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:          io.NopCloser(bytes.NewBufferString(body)),
		ContentLength: int64(len(body)),
	}
}

// failure is an error response of a type.
func failure(req *http.Request, status int, kind string) *http.Response {
	return answer(req, status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+kind+`","message":"made by the test"}`)
}
