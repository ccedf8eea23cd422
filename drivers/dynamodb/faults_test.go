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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// impatient makes the SDK retry without waiting, attempts times in all.
func impatient(attempts int) func(*dynamodb.Options) { return retrying(attempts, 0) }

func retrying(attempts int, delay time.Duration) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return delay, nil })
		})
	}
}

// writes are the calls of everyCall that write.
var writes = map[string]bool{"Insert": true, "Replace": true, "Touch": true, "Delete": true}

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

// TestFailures: if DynamoDB keeps failing, its own error is returned, without a key.
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
		{"TransactionConflictException", 400, 3},
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
				item := tt.kind == "ValidationException" && (call == "Insert" || call == "Replace")
				if errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrInvalid) != item {
					t.Errorf("%s: error %v claims more than is known", call, err)
				}
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error quotes the key: %v", call, err)
				}
				if ambiguous := tt.status >= 500 && writes[call]; errors.Is(err, driver.ErrAmbiguous) != ambiguous {
					t.Errorf("%s: error %v, want ErrAmbiguous: %t", call, err, ambiguous)
				}
			}
			want := tt.attempts * len(calls)
			switch {
			case tt.status >= 500:
				want -= 2 * 2 // of Insert and Delete, which may have landed
			case tt.kind == "TransactionConflictException":
				want -= 2 * 3 // of reads, which have no conflicts
			}
			if got := int(sent.Load()); got != want {
				t.Errorf("%d requests, want %d: as many as the client's retryer makes of what may be sent again", got, want)
			}
			tbl.wire.reset()
			if e := tbl.mustGet(t, secret); e.Meta != m {
				t.Errorf("the record became %+v", e)
			}
		})
	}
}

// TestPassingFailures: each request fails once.
func TestPassingFailures(t *testing.T) {
	tbl := open[session](t, nil, impatient(3))
	m := tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	var last atomic.Value
	last.Store("")
	tbl.wire.between(func(_ string, req *request, send sender) (*response, error) {
		if id := req.Header.Get("Amz-Sdk-Invocation-Id"); last.Swap(id) != id {
			return failure(req, 400, "ThrottlingException"), nil
		}
		return send()
	})
	for call, err := range everyCall(t.Context(), tbl.Driver, "k", m) {
		var conflict *driver.ConflictError
		switch {
		case call == "Insert" || call == "Touch": // over what Replace has left
			if !errors.As(err, &conflict) {
				t.Errorf("%s: error %v, want a conflict", call, err)
			}
		case err != nil:
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestContextEndsMidCall ends the context before DynamoDB answers.
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
		} else if errors.Is(err, driver.ErrAmbiguous) != writes[call] {
			t.Errorf("%s: error %v, want ErrAmbiguous: %t", call, err, writes[call])
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

// TestGetMultiOfLargeItems exceeds the 16 MB of one answer, so that DynamoDB itself leaves keys
// unprocessed.
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

// leaving answers a BatchGetItem for its first n keys, with items or without, and leaves the
// others unprocessed.
func leaving(absent bool, n func() int) fault {
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
			reply := map[string]any{"Responses": map[string]any{}, "UnprocessedKeys": map[string]any{}}
			if !absent {
				reply["Responses"] = map[string]any{table: request.Keys[:n]}
			}
			if n < len(request.Keys) {
				reply["UnprocessedKeys"] = map[string]any{table: map[string]any{"Keys": request.Keys[n:]}}
			}
			out, err := json.Marshal(reply)
			return answer(req, http.StatusOK, string(out)), err
		}
		return nil, errors.New("no table")
	}
}

// faked returns a driver all of whose requests f answers, without a network, so that time can be
// virtual.
func faked(t *testing.T, opts *Options, f fault, client ...func(*dynamodb.Options)) *Driver[session] {
	t.Helper()
	w := newWire()
	w.between(f)
	fake := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: &http.Client{Transport: w},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	}, client...)
	d, err := New[session](fake, "t", opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestUnprocessedKeys(t *testing.T) {
	var keys []string
	for i := range batchSize {
		keys = append(keys, fmt.Sprint("k", i))
	}
	stalling := 0
	for name, tt := range map[string]struct {
		keys, calls int
		absent      bool
		atOnce      bool // it goes on without waiting
		n           func() int
	}{
		"as many as fit into 16 MB":  {keys: 100, calls: 3, atOnce: true, n: func() int { return 40 }},
		"ten of what is there":       {keys: 100, calls: 10, n: func() int { return 10 }},
		"ten of what is not there":   {keys: 100, calls: 10, absent: true, n: func() int { return 10 }},
		"one at a time":              {keys: 50, calls: 50, n: func() int { return 1 }},
		"one of what is not there":   {keys: 50, calls: 50, absent: true, n: func() int { return 1 }},
		"all but none, and then all": {keys: 100, calls: batchStalls, n: func() int { stalling++; return 100 * (stalling / batchStalls) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			var waits []time.Duration
			last := time.Now()
			d := faked(t, nil, leaving(tt.absent, func() int {
				calls++
				waits = append(waits, time.Since(last))
				last = time.Now()
				return tt.n()
			}))
			found, err := d.GetMulti(t.Context(), keys[:tt.keys])
			want := tt.keys
			if tt.absent {
				want = 0
			}
			if err != nil || len(found) != want || calls != tt.calls {
				t.Errorf("%s: found %d, %v, in %d calls; want %d in %d", name, len(found), err, calls, want, tt.calls)
			}
			for i, w := range waits[1:] {
				if most := min(batchDelay<<min(i, 10), maxBatchDelay); tt.atOnce && w != 0 || !tt.atOnce && (w == 0 || w >= most) {
					t.Errorf("%s: it waits %v before call %d, want up to %v", name, w, i+2, most)
				}
			}
		})
	}

	synctest.Test(t, func(t *testing.T) {
		// No more keys: it returns an error with what it has.
		calls := 0
		d := faked(t, nil, leaving(false, func() int { calls++; return max(0, 2-calls) }))
		found, err := d.GetMulti(t.Context(), keys)
		if !errors.Is(err, ErrUnprocessed) || len(found) != 1 || calls != 1+batchStalls {
			t.Errorf("found %d, %v, in %d calls", len(found), err, calls)
		}

		// The context ends while it waits.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		d = faked(t, nil, leaving(false, func() int { return 0 }))
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
		asked = 0
		_, err = tbl.Latest(t.Context(), "k")
		wantNotFound(t, "Latest", err)
		if asked != 1 {
			t.Errorf("ConsistentRead %t: Latest is not strongly consistent", consistent)
		}
	}
}

// TestCapacityOfAnIndex touches a 10 KB item of a table with an index.
func TestCapacityOfAnIndex(t *testing.T) {
	for projection, want := range map[types.ProjectionType]float64{types.ProjectionTypeAll: 20, types.ProjectionTypeKeysOnly: 10} {
		tbl := unmade(t, nil)
		ctx := t.Context()
		_, err := tbl.client.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName:   &tbl.Driver.table,
			KeySchema:   []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
			BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
				{AttributeName: aws.String("user"), AttributeType: types.ScalarAttributeTypeS},
			},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
				IndexName:  aws.String("by-user"),
				KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("user"), KeyType: types.KeyTypeHash}},
				Projection: &types.Projection{ProjectionType: projection},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := tbl.mustInsert(t, "k", session{User: "one", Note: strings.Repeat("x", 9900)}, lasting(time.Minute), base)
		if _, err := tbl.Touch(ctx, "k", m, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
		if s := tbl.Stats(); s.TouchUnits != want {
			t.Errorf("with an index of projection %s a touch costs %v, want %v", projection, s.TouchUnits, want)
		}
	}
}
