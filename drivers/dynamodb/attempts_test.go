package dynamodb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// lossy is a proxy that forwards requests. If lose returns true, it drops the connection instead
// of answering.
func lossy(t testing.TB, server *dynamodbtest.Server, lose func(op string) bool) *dynamodbtest.Server {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, server.Endpoint+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header, req.ContentLength = r.Header, r.ContentLength
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if lose(op) {
			panic(http.ErrAbortHandler)
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body)
	}))
	t.Cleanup(proxy.Close)
	return &dynamodbtest.Server{Endpoint: proxy.URL}
}

// losing returns a driver on tbl's table that loses the first answer of each write. It calls
// meanwhile before the SDK may resend.
func losing(t testing.TB, tbl *table[session], meanwhile func()) (*Driver[session], *wire) {
	t.Helper()
	var lost atomic.Bool
	proxy := lossy(t, dynamodbtest.Start(t), func(op string) bool {
		if strings.HasPrefix(op, "Get") || lost.Swap(true) {
			return false
		}
		if meanwhile != nil {
			meanwhile()
		}
		return true
	})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	w := newWire()
	w.base = transport
	d, err := New[session](w.client(proxy, impatient(3)), tbl.Driver.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, w
}

func wantAmbiguous(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrAmbiguous) {
		t.Fatalf("%s: error %v, want ErrAmbiguous", what, err)
	}
	for _, known := range []error{driver.ErrConflict, driver.ErrNotFound} {
		var conflict *driver.ConflictError
		if errors.Is(err, known) || errors.As(err, &conflict) {
			t.Errorf("%s: error %v claims more than is known", what, err)
		}
	}
}

// TestLostAnswers loses the answer to a write that has landed.
func TestLostAnswers(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	life := lasting(time.Hour)

	t.Run("Insert", func(t *testing.T) {
		d, w := losing(t, tbl, nil)
		_, err := d.Insert(ctx, "a", session{User: "one"}, life, base)
		wantAmbiguous(t, "Insert", err)
		w.want(t, "Insert", "PutItem")
		if e := tbl.mustGet(t, "a"); e.Value.User != "one" {
			t.Errorf("stored %+v", e)
		}
	})
	t.Run("Insert, then a delete", func(t *testing.T) {
		d, _ := losing(t, tbl, func() {
			if err := tbl.Delete(ctx, "b"); err != nil {
				t.Error(err)
			}
		})
		_, err := d.Insert(ctx, "b", session{}, life, base)
		wantAmbiguous(t, "Insert", err)
		if tbl.raw(t, "b") != nil {
			t.Error("the deleted record came back")
		}
	})
	t.Run("Replace", func(t *testing.T) {
		m := tbl.mustInsert(t, "c", session{User: "one"}, life, base)
		d, w := losing(t, tbl, nil)
		var err error
		if m.Version, err = d.Replace(ctx, "c", session{User: "two"}, m, life, base); err != nil {
			t.Fatal(err)
		}
		w.want(t, "Replace", "PutItem", "PutItem")
		if e := tbl.mustGet(t, "c"); e.Meta != m || e.Value.User != "two" {
			t.Errorf("stored %+v, want %+v", e, m)
		}
	})
	t.Run("Replace, then another's", func(t *testing.T) {
		m := tbl.mustInsert(t, "d", session{User: "one"}, life, base)
		d, _ := losing(t, tbl, func() {
			if _, err := tbl.Replace(ctx, "d", session{User: "three"}, tbl.mustGet(t, "d").Meta, life, base); err != nil {
				t.Error(err)
			}
		})
		_, err := d.Replace(ctx, "d", session{User: "two"}, m, life, base)
		wantAmbiguous(t, "Replace", err)
		if e := tbl.mustGet(t, "d"); e.Value.User != "three" {
			t.Errorf("stored %+v", e)
		}
	})
	t.Run("Replace, then a delete", func(t *testing.T) {
		m := tbl.mustInsert(t, "e", session{User: "one"}, life, base)
		d, _ := losing(t, tbl, func() {
			if err := tbl.Delete(ctx, "e"); err != nil {
				t.Error(err)
			}
		})
		_, err := d.Replace(ctx, "e", session{User: "two"}, m, life, base)
		wantAmbiguous(t, "Replace", err)
		if tbl.raw(t, "e") != nil {
			t.Error("the deleted record came back")
		}
	})
	t.Run("Touch", func(t *testing.T) {
		m := tbl.mustInsert(t, "f", session{User: "one"}, life, base)
		d, w := losing(t, tbl, nil)
		to := lasting(2 * time.Hour)
		if _, err := d.Touch(ctx, "f", m, to, base); err != nil {
			t.Fatal(err)
		}
		w.want(t, "Touch", "UpdateItem", "UpdateItem")
		if e := tbl.mustGet(t, "f"); e.Life != to || e.Version != m.Version {
			t.Errorf("stored %+v, want %+v", e.Meta, to)
		}
	})
	t.Run("Touch of a foreign item", func(t *testing.T) {
		tbl.put(t, "g", attrs{"user": text("one")})
		d, _ := losing(t, tbl, nil)
		version, err := d.Touch(ctx, "g", driver.Meta{}, life, base)
		if want := (driver.Meta{Life: life, Version: version}); err != nil || tbl.mustGet(t, "g").Meta != want {
			t.Errorf("%v, stored %+v, want %+v", err, tbl.mustGet(t, "g").Meta, want)
		}
	})
	t.Run("Delete, then an insert", func(t *testing.T) {
		tbl.mustInsert(t, "h", session{User: "one"}, life, base)
		d, w := losing(t, tbl, func() { tbl.mustInsert(t, "h", session{User: "two"}, life, base) })
		wantAmbiguous(t, "Delete", d.Delete(ctx, "h"))
		w.want(t, "Delete", "DeleteItem")
		tbl.mustGet(t, "h")
	})
	t.Run("Remove", func(t *testing.T) {
		m := tbl.mustInsert(t, "i", session{}, life, base)
		d, _ := losing(t, tbl, nil)
		wantAmbiguous(t, "Remove", d.Remove(ctx, "i", m, base))
	})
}

// TestOkMeansOnce: four writers count while one in ten PutItem loses its answer.
func TestOkMeansOnce(t *testing.T) {
	type counter struct {
		N int `dynamodbav:"n"`
	}
	tbl := open[counter](t, nil)
	tbl.mustInsert(t, "k", counter{}, lasting(time.Hour), base)
	const writers, updates = 4, 50
	proxy := lossy(t, dynamodbtest.Start(t), func(op string) bool { return op == "PutItem" && rand.N(10) == 0 })
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	var ok, ambiguous atomic.Int64
	var group sync.WaitGroup
	for range writers {
		d, err := New[counter](proxy.Client(impatient(5), func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: transport} }), tbl.Driver.table, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := openStore(t, d, policy, slidingttl.Options[counter]{Now: handsAt(base).Now})
		group.Go(func() {
			for range updates {
				switch _, err := s.Update(t.Context(), "k", func(c counter) (counter, error) { return counter{c.N + 1}, nil }); {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, driver.ErrAmbiguous):
					ambiguous.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	n := int64(tbl.mustGet(t, "k").Value.N)
	t.Logf("%d done, %d ambiguous, the counter is at %d", ok.Load(), ambiguous.Load(), n)
	if n < ok.Load() || n > ok.Load()+ambiguous.Load() {
		t.Errorf("the counter is at %d, after %d successes and %d of unknown fate", n, ok.Load(), ambiguous.Load())
	}
}

// TestSentAgain: attempts that cannot have landed are resent: after a refused connection, a
// conflict with a transaction, a throttle.
func TestSentAgain(t *testing.T) {
	tbl := open[session](t, nil, impatient(3))
	d, m := tbl.Driver, driver.Meta{}
	for name, first := range map[string]fault{
		"refused": func(_ string, req *request, send sender) (*response, error) {
			req.URL.Host = "127.0.0.1:1"
			return send()
		},
		"transaction": func(_ string, req *request, _ sender) (*response, error) {
			return failure(req, 400, "TransactionConflictException"), nil
		},
		"throttle": func(_ string, req *request, _ sender) (*response, error) {
			return failure(req, 400, "ThrottlingException"), nil
		},
	} {
		for _, call := range []struct {
			name string
			op   string
			make func(ctx context.Context) error
		}{
			{"Insert", "PutItem", func(ctx context.Context) (err error) {
				m.Life = lasting(time.Hour)
				m.Version, err = d.Insert(ctx, name, session{}, m.Life, base)
				return err
			}},
			{"Replace", "PutItem", func(ctx context.Context) (err error) {
				m.Version, err = d.Replace(ctx, name, session{}, m, m.Life, base)
				return err
			}},
			{"Touch", "UpdateItem", func(ctx context.Context) error {
				_, err := d.Touch(ctx, name, m, m.Life, base)
				return err
			}},
			{"Delete", "DeleteItem", func(ctx context.Context) error { return d.Delete(ctx, name) }},
		} {
			var failed atomic.Bool
			tbl.wire.reset()
			tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
				if !failed.Swap(true) {
					return first(op, req, send)
				}
				return send()
			})
			if err := call.make(t.Context()); err != nil {
				t.Fatalf("%s, %s: %v", name, call.name, err)
			}
			tbl.wire.want(t, name+", "+call.name, call.op, call.op)
		}
	}
}

// TestNotSent: calls that were not sent cannot have landed.
func TestNotSent(t *testing.T) {
	tbl := open[session](t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range everyCall(ctx, tbl.Driver, "k", driver.Meta{Life: lasting(time.Hour)}) {
		if errors.Is(err, driver.ErrAmbiguous) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error alone", call, err)
		}
	}
	client := dynamodbtest.Start(t).Client(func(o *dynamodb.Options) {
		o.Credentials = nil
	})
	d, err := New[session](client, tbl.Driver.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "k"); err == nil || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("no credentials: %v", err)
	}
}

// TestLateWrite: DynamoDB takes an hour for a write, and the record dies before that.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := faked(t, &Options{MaxSkew: 2 * time.Second}, func(_ string, req *request, _ sender) (*response, error) {
			select {
			case <-req.Context().Done():
				return nil, req.Context().Err()
			case <-time.After(time.Hour):
				return answer(req, 200, "{}"), nil
			}
		})
		for name, tt := range map[string]struct {
			was   driver.Life
			after time.Duration
			err   error
		}{
			"a minute to live": {lasting(time.Minute), time.Minute, driver.ErrAmbiguous},
			"a moment":         {lasting(time.Millisecond), 2 * time.Second, driver.ErrAmbiguous},
			"a day":            {lasting(24 * time.Hour), time.Hour, nil},
			"for ever":         {driver.Life{CreatedAt: base}, time.Hour, nil},
		} {
			was := driver.Meta{Life: tt.was, Version: 7}
			for call, write := range map[string]func() error{
				"Replace": func() error {
					_, err := d.Replace(t.Context(), "k", session{}, was, lasting(time.Hour), base)
					return err
				},
				"Touch": func() error {
					_, err := d.Touch(t.Context(), "k", was, lasting(time.Hour), base)
					return err
				},
			} {
				began := time.Now()
				if err := write(); !errors.Is(err, tt.err) {
					t.Errorf("%s, %s: %v, want %v", name, call, err, tt.err)
				} else if err != nil && !strings.Contains(err.Error(), "life ended") {
					t.Errorf("%s, %s: error %q does not say why", name, call, err)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("%s, %s: it took %v, want %v", name, call, took, tt.after)
				}
			}
		}
	})
}

// TestThrottledToDeath: a write is throttled until its record is dead.
func TestThrottledToDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := faked(t, nil, func(_ string, req *request, _ sender) (*response, error) {
			return failure(req, 400, "ThrottlingException"), nil
		}, retrying(100, 300*time.Millisecond))
		began := time.Now()
		_, err := d.Replace(t.Context(), "k", session{}, driver.Meta{Life: lasting(time.Second), Version: 7}, lasting(time.Hour), base)
		if !errors.Is(err, driver.ErrLate) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("error %v, want one that says that the life ended and nothing was written", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v, want the second that the record had left", took)
		}
	})
}

func TestRemove(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	wantNotFound(t, "an absent record", tbl.Remove(ctx, "k", driver.Meta{}, base))
	m := tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	other := m
	other.Version++
	wantConflict(t, "another version", tbl.Remove(ctx, "k", other, base), m)
	wantNotFound(t, "a dead record", tbl.Remove(ctx, "k", m, m.ExpiresAt))
	tbl.mustGet(t, "k")
	tbl.wire.reset()
	if err := tbl.Remove(ctx, "k", m, base); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Remove", "DeleteItem")
	if tbl.raw(t, "k") != nil {
		t.Error("something is left")
	}

	// In a form of another program.
	tbl.put(t, "k", attrs{"ttl": text(itoa(base.Add(time.Minute) / 1000)), versionName: &types.AttributeValueMemberNULL{Value: true}})
	if err := tbl.Remove(ctx, "k", tbl.mustGet(t, "k").Meta, base); err != nil {
		t.Fatal(err)
	}
	if tbl.raw(t, "k") != nil {
		t.Error("something is left")
	}
}

// Behind a proxy that sends each request twice, and passes the second answer on, which may be a refusal, each call
// recognises itself.
func TestSentTwiceByAProxy(t *testing.T) {
	for name, o := range map[string]*Options{
		"plain":                   nil,
		"a life table":            apartly(),
		"a life table, retained":  {LifeTable: "of its own", Hold: 24 * time.Hour, Retain: time.Hour},
		"a life table, held late": {LifeTable: "of its own", Hold: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			tbl, clock := open[session](t, o), handsAt(base)
			tbl.wire.between(func(_ string, req *request, send sender) (*response, error) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					return nil, err
				}
				req.Body = io.NopCloser(bytes.NewReader(body))
				first, err := send()
				if err != nil {
					return first, err
				}
				_ = first.Body.Close()
				req.Body = io.NopCloser(bytes.NewReader(body))
				return send()
			})
			s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now, Strict: true})
			ctx := t.Context()
			update := func() error {
				_, err := s.Update(ctx, "k", func(session) (session, error) { return session{User: "updated"}, nil })
				return err
			}
			retire := func() error { // which takes its own end for another's of the same second
				if err := s.Retire(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
					return errors.Join(errors.New("want not found"), err)
				}
				return nil
			}
			for i, step := range []struct {
				after time.Duration
				call  func() error
				want  string
			}{
				{0, func() error { return s.Insert(ctx, "k", session{User: "one"}) }, "one"},
				{0, func() error { return s.Upsert(ctx, "k", session{User: "two"}) }, "two"},
				{5 * time.Minute, func() error { return s.Upsert(ctx, "k", session{User: "three"}) }, "three"},
				{5 * time.Minute, update, "updated"},
				{0, update, "updated"},
				{10 * time.Minute, func() error { _, err := s.Get(ctx, "k"); return err }, "updated"},
				{25 * time.Minute, func() error { _, err := s.Get(ctx, "k"); return err }, "updated"},
				{time.Minute, func() error { _, err := s.Touch(ctx, "k"); return err }, "updated"},
				{0, retire, ""},
				{0, func() error { return s.Insert(ctx, "k", session{User: "five"}) }, "five"},
				{5 * time.Minute, func() error { _, err := s.Get(ctx, "k"); return err }, "five"},
				{0, func() error { return s.Delete(ctx, "k") }, ""},
				{0, func() error { return s.Upsert(ctx, "k", session{User: "six"}) }, "six"},
				{5 * time.Minute, func() error { return s.Upsert(ctx, "k", session{User: "seven"}) }, "seven"},
			} {
				clock.forward(step.after)
				if err := step.call(); err != nil {
					t.Errorf("step %d: %v", i, err)
				}
				e, err := s.Peek(ctx, "k")
				if gone := errors.Is(err, slidingttl.ErrNotFound); gone != (step.want == "") || !gone && err != nil || e.Value.User != step.want {
					t.Errorf("after step %d: %+v, %v; want %q", i, e, err, step.want)
				}
			}
		})
	}
}
