package dynamodb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// impatient has the SDK retry without waiting, attempts times in all.
func impatient(attempts int) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
}

// everyCall makes each call of a driver once.
func everyCall(ctx context.Context, d *Driver[session], key string, was driver.Meta) map[string]error {
	_, get := d.Get(ctx, key)
	_, insert := d.Insert(ctx, key, session{}, lasting(time.Minute), base)
	_, replace := d.Replace(ctx, key, session{}, was, was.Life, base)
	_, touch := d.Touch(ctx, key, was, was.Life, base)
	_, getMulti := d.GetMulti(ctx, []string{key})
	return map[string]error{
		"Get": get, "Insert": insert, "Replace": replace, "Touch": touch,
		"GetMulti": getMulti, "Delete": d.Delete(ctx, key), "Check": d.Check(ctx, time.Hour),
	}
}

// TestFailures has DynamoDB fail for good: its own error arrives, and nothing of a key.
func TestFailures(t *testing.T) {
	const secret = "4d1f-secret"
	for _, tt := range []struct {
		kind     string
		status   int
		attempts int
	}{
		{"ThrottlingException", 400, 3},
		{"ProvisionedThroughputExceededException", 400, 3},
		{"RequestLimitExceeded", 400, 3},
		{"InternalServerError", 500, 3},
		{"ServiceUnavailable", 503, 3},
		{"AccessDeniedException", 400, 1},
		{"ValidationException", 400, 1},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			tbl := open[session](t, nil, impatient(3))
			m := tbl.mustInsert(t, secret, session{User: "one"}, lasting(time.Minute), base)
			var sent atomic.Int64
			tbl.wire.between(func(_ string, req *request, _ sender) (*response, error) {
				sent.Add(1)
				return failure(req, tt.status, tt.kind), nil
			})
			calls := everyCall(t.Context(), tbl.Driver, secret, m)
			for call, err := range calls {
				var api smithy.APIError
				if !errors.As(err, &api) || api.ErrorCode() != tt.kind {
					t.Errorf("%s: error %v, want the SDK's %s", call, err, tt.kind)
				}
				if errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s: error %v claims more than is known", call, err)
				}
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error quotes the key: %v", call, err)
				}
			}
			if got, want := int(sent.Load()), tt.attempts*len(calls); got != want {
				t.Errorf("%d requests, want %d: as many as the client's retryer makes", got, want)
			}
			tbl.wire.reset()
			if e := tbl.mustGet(t, secret); e.Meta != m {
				t.Errorf("the record became %+v", e)
			}
		})
	}
}

// TestPassingFailures has each request fail once.
func TestPassingFailures(t *testing.T) {
	tbl := open[session](t, nil, impatient(3))
	m := tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	var last atomic.Value
	last.Store("")
	tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
		if id := req.Header.Get("Amz-Sdk-Invocation-Id"); last.Swap(id) != id {
			return failure(req, 400, "ThrottlingException"), nil
		}
		return send()
	})
	for call, err := range everyCall(t.Context(), tbl.Driver, "k", m) {
		var conflict *driver.ConflictError
		switch {
		case call == "Insert":
			if !errors.As(err, &conflict) {
				t.Errorf("%s: error %v, want a conflict", call, err)
			}
		case err != nil:
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestLostAnswers drops the answer to each write once, so that the SDK sends again what
// has landed.
func TestLostAnswers(t *testing.T) {
	tbl := open[session](t, nil, impatient(3))
	ctx := t.Context()
	lose := func(what string, write func() error) {
		t.Helper()
		var lost atomic.Bool
		tbl.wire.between(func(_ string, _ *request, send sender) (*response, error) {
			resp, err := send()
			if err == nil && !lost.Swap(true) {
				_ = resp.Body.Close()
				return nil, errors.New("connection reset by the test")
			}
			return resp, err
		})
		defer tbl.wire.reset()
		if err := write(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !lost.Load() {
			t.Fatalf("%s: no answer was lost", what)
		}
	}
	m := driver.Meta{Life: lasting(time.Minute)}
	lose("Insert", func() (err error) {
		m.Version, err = tbl.Insert(ctx, "k", session{User: "one"}, m.Life, base)
		return err
	})
	if e := tbl.mustGet(t, "k"); e.Meta != m {
		t.Fatalf("stored %+v, want %+v", e.Meta, m)
	}
	lose("Replace", func() (err error) {
		m.Version, err = tbl.Replace(ctx, "k", session{User: "two"}, m, m.Life, base)
		return err
	})
	if e := tbl.mustGet(t, "k"); e.Meta != m || e.Value.User != "two" {
		t.Fatalf("stored %+v, want %+v", e, m)
	}
	// A touch cannot tell its own from another's; it finds what it wanted.
	to := driver.Meta{Life: lasting(time.Hour), Version: m.Version}
	lose("Touch", func() error {
		_, err := tbl.Touch(ctx, "k", m, to.Life, base)
		wantConflict(t, "Touch", err, to)
		return nil
	})
	lose("Delete", func() error { return tbl.Delete(ctx, "k") })
	_, err := tbl.Get(ctx, "k")
	wantNotFound(t, "Get", err)
}

// TestContextEndsMidCall ends the context while DynamoDB is thinking.
func TestContextEndsMidCall(t *testing.T) {
	const secret = "4d1f-secret"
	tbl := open[session](t, nil)
	m := tbl.mustInsert(t, secret, session{}, lasting(time.Minute), base)
	calls := everyCall(t.Context(), tbl.Driver, "another", m)
	for call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		tbl.wire.between(func(_ string, req *request, _ sender) (*response, error) {
			cancel()
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		if err := oneCall(ctx, call, tbl.Driver, secret, m); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want the context's", call, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes the key: %v", call, err)
		}
		cancel()

		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		tbl.wire.between(func(_ string, req *request, _ sender) (*response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		if err := oneCall(ctx, call, tbl.Driver, secret, m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want the context's", call, err)
		}
		cancel()
	}
}

func oneCall(ctx context.Context, call string, d *Driver[session], key string, was driver.Meta) (err error) {
	switch call {
	case "Get":
		_, err = d.Get(ctx, key)
	case "Insert":
		_, err = d.Insert(ctx, key, session{}, was.Life, base)
	case "Replace":
		_, err = d.Replace(ctx, key, session{}, was, was.Life, base)
	case "Touch":
		_, err = d.Touch(ctx, key, was, was.Life, base)
	case "GetMulti":
		_, err = d.GetMulti(ctx, []string{key})
	case "Delete":
		err = d.Delete(ctx, key)
	case "Check":
		err = d.Check(ctx, time.Hour)
	}
	return err
}

func TestGetMulti(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	var keys []string
	want := map[string]driver.Meta{}
	for i := range 250 {
		key := fmt.Sprint("k", i)
		keys = append(keys, key, key)
		if i%5 != 0 {
			want[key] = tbl.mustInsert(t, key, session{User: key}, lasting(time.Minute), base)
		}
	}
	tbl.wire.reset()
	found, err := tbl.GetMulti(ctx, keys)
	if err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "250 keys", "BatchGetItem", "BatchGetItem", "BatchGetItem")
	if len(found) != len(want) {
		t.Fatalf("found %d, want %d", len(found), len(want))
	}
	for key, m := range want {
		if e := found[key]; e.Meta != m || e.Value.User != key {
			t.Fatalf("%s: %+v, want %+v", key, e, m)
		}
	}
	if found, err := tbl.GetMulti(ctx, nil); err != nil || len(found) != 0 {
		t.Errorf("no keys: %v, %v", found, err)
	}
}

// TestGetMultiOfLargeItems exceeds the 16 MB that one answer brings, so that DynamoDB
// itself leaves keys over.
func TestGetMultiOfLargeItems(t *testing.T) {
	tbl := open[session](t, nil)
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("k", i))
		tbl.mustInsert(t, keys[i], session{User: strings.Repeat("x", 380<<10)}, lasting(time.Minute), base)
	}
	tbl.wire.reset()
	found, err := tbl.GetMulti(t.Context(), keys)
	if err != nil || len(found) != len(keys) {
		t.Fatalf("found %d of %d: %v", len(found), len(keys), err)
	}
	tbl.wire.want(t, "19 MB", "BatchGetItem", "BatchGetItem")
}

// leaving answers a BatchGetItem with its first n keys, and leaves the others over.
func leaving(n func() int) fault {
	return func(op string, req *request, _ sender) (*response, error) {
		var body struct {
			RequestItems map[string]struct{ Keys []json.RawMessage }
		}
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			return nil, err
		}
		for table, request := range body.RequestItems {
			n := min(n(), len(request.Keys))
			reply := map[string]any{"Responses": map[string]any{table: request.Keys[:n]}, "UnprocessedKeys": map[string]any{}}
			if n < len(request.Keys) {
				reply["UnprocessedKeys"] = map[string]any{table: map[string]any{"Keys": request.Keys[n:]}}
			}
			out, err := json.Marshal(reply)
			return answer(req, http.StatusOK, string(out)), err
		}
		return nil, errors.New("no table")
	}
}

// faked is a driver whose every request f answers, on no network, so that time can be
// virtual.
func faked(t *testing.T, opts *Options, f fault) *Driver[session] {
	t.Helper()
	w := newWire()
	w.between(f)
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: &http.Client{Transport: w},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	})
	d, err := New[session](client, "t", opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestUnprocessedKeys(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e"}
	synctest.Test(t, func(t *testing.T) {
		// Some at a time: it goes on at once.
		d := faked(t, nil, leaving(func() int { return 2 }))
		start := time.Now()
		found, err := d.GetMulti(t.Context(), keys)
		if err != nil || len(found) != len(keys) || time.Since(start) != 0 {
			t.Errorf("found %d, %v, after %v", len(found), err, time.Since(start))
		}

		// None now and then: it waits.
		calls := 0
		d = faked(t, nil, leaving(func() int { calls++; return calls / 3 % 2 }))
		start = time.Now()
		found, err = d.GetMulti(t.Context(), keys)
		if err != nil || len(found) != len(keys) || time.Since(start) == 0 {
			t.Errorf("found %d, %v, after %v", len(found), err, time.Since(start))
		}

		// None any more: it says so, and hands out what it has.
		calls = 0
		d = faked(t, nil, leaving(func() int { calls++; return max(0, 2-calls) }))
		found, err = d.GetMulti(t.Context(), keys)
		if !errors.Is(err, ErrUnprocessed) || len(found) != 1 || calls != 1+1+batchStalls {
			t.Errorf("found %d, %v, in %d calls", len(found), err, calls)
		}

		// The context ends while it waits.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		d = faked(t, nil, leaving(func() int { return 0 }))
		for ctx.Err() == nil {
			if _, err = d.GetMulti(ctx, keys); err == nil {
				t.Fatal("no error")
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestConsistentRead(t *testing.T) {
	for _, consistent := range []bool{false, true} {
		tbl := open[session](t, &Options{ConsistentRead: consistent})
		asked := 0
		tbl.wire.between(func(_ string, req *request, send sender) (*response, error) {
			raw, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			req.Body = io.NopCloser(bytes.NewReader(raw))
			if strings.Contains(string(raw), `"ConsistentRead":true`) {
				asked++
			}
			return send()
		})
		_, err := tbl.Get(t.Context(), "k")
		wantNotFound(t, "Get", err)
		if _, err := tbl.GetMulti(t.Context(), []string{"k"}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 2}[consistent]; asked != want {
			t.Errorf("ConsistentRead %t: %d reads were, want %d", consistent, asked, want)
		}
	}
}

// TestCapacity shows what each operation costs, on items of 1 KB and 10 KB.
func TestCapacity(t *testing.T) {
	for _, tt := range []struct {
		bytes       int
		read, write float64 // capacity units of one, the read eventually consistent
	}{{1000, 0.5, 1}, {10_000, 1.5, 10}} {
		t.Run(fmt.Sprint(tt.bytes), func(t *testing.T) {
			tbl := open[session](t, &Options{Capacity: true})
			ctx := t.Context()
			var before Stats
			cost := func(what string, read, write, touch float64, refused uint64) {
				t.Helper()
				s := tbl.Stats()
				if s.ReadUnits-before.ReadUnits != read || s.WriteUnits-before.WriteUnits != write ||
					s.TouchUnits-before.TouchUnits != touch || s.Refused-before.Refused != refused {
					t.Errorf("%s: from %+v to %+v, want %v read, %v write, %v touch units and %d refused", what, before, s, read, write, touch, refused)
				}
				before = s
			}
			v := session{User: strings.Repeat("x", tt.bytes-100)} // names, key and life take the rest
			m := tbl.mustInsert(t, "k", v, lasting(time.Minute), base)
			cost("Insert", 0, tt.write, 0, 0)
			tbl.mustGet(t, "k")
			cost("Get", tt.read, 0, 0, 0)
			if _, err := tbl.GetMulti(ctx, []string{"k"}); err != nil {
				t.Fatal(err)
			}
			cost("GetMulti", tt.read, 0, 0, 0)
			var err error
			if m.Version, err = tbl.Replace(ctx, "k", v, m, m.Life, base); err != nil {
				t.Fatal(err)
			}
			cost("Replace", 0, tt.write, 0, 0)
			to := lasting(time.Hour)
			if _, err := tbl.Touch(ctx, "k", m, to, base); err != nil {
				t.Fatal(err)
			}
			cost("Touch", 0, 0, tt.write, 0)
			if _, err := tbl.Touch(ctx, "k", m, to, base); err == nil {
				t.Fatal("no conflict")
			}
			cost("Touch that is refused", 0, 0, 0, 1)
			if err := tbl.Delete(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			cost("Delete", 0, tt.write, 0, 0)
		})
	}
	tbl := open[session](t, nil)
	tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	if s := tbl.Stats(); s.WriteUnits != 0 {
		t.Errorf("Stats: %+v, though nobody asked", s)
	}
}
