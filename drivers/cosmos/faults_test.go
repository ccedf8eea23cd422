package cosmos

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// secret is a key that must be in no error's text.
const secret = "s3ss10n-t0k3n"

// write is a call that writes over was, the record under secret, or beside it.
type write struct {
	name   string
	op     cosmostest.Op
	call   func(ctx context.Context, d *Driver[session], was driver.Meta) error
	landed func(d *Driver[session]) bool
}

func allWrites(t *testing.T) []write {
	get := func(d *Driver[session], key string) driver.Entry[session] {
		e, err := d.Get(context.Background(), key)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			t.Error(err)
		}
		return e
	}
	later := lasting(2 * time.Hour)
	return []write{
		{"Insert", cosmostest.OpCreate, func(ctx context.Context, d *Driver[session], _ driver.Meta) error {
			_, err := d.Insert(ctx, secret+"new", session{User: "new"}, later, base)
			return err
		}, func(d *Driver[session]) bool { return get(d, secret+"new").Value.User == "new" }},
		{"Replace", cosmostest.OpReplace, func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			_, err := d.Replace(ctx, secret, session{User: "new"}, was, later, base)
			return err
		}, func(d *Driver[session]) bool { return get(d, secret).Value.User == "new" }},
		{"Touch", cosmostest.OpPatch, func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			_, err := d.Touch(ctx, secret, was, later, base)
			return err
		}, func(d *Driver[session]) bool { return get(d, secret).Life == later }},
		{"Remove", cosmostest.OpDelete, func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			return d.Remove(ctx, secret, was, base)
		}, func(d *Driver[session]) bool { return get(d, secret).Version == 0 }},
		{"Delete", cosmostest.OpDelete, func(ctx context.Context, d *Driver[session], _ driver.Meta) error {
			return d.Delete(ctx, secret)
		}, func(d *Driver[session]) bool { return get(d, secret).Version == 0 }},
		{"Upsert", cosmostest.OpCreate, func(ctx context.Context, d *Driver[session], _ driver.Meta) error {
			_, err := d.Upsert(ctx, secret+"new", session{User: "new"}, nil, func(*driver.Meta) (driver.Life, error) { return later, nil }, base)
			return err
		}, func(d *Driver[session]) bool { return get(d, secret+"new").Value.User == "new" }},
	}
}

// Faults of a write, and whether its error says that it landed. Only a write that was not
// executed is resent.
func TestFateOfWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		fault     cosmostest.Fault
		ok        bool // it succeeds in the end
		ambiguous bool
		status    int // of the client's own error
	}{
		"lost before it was carried out": {fault: cosmostest.Fault{Drop: true}, ambiguous: true},
		"answer lost":                    {fault: cosmostest.Fault{Drop: true, Applied: true}, ambiguous: true},
		"500":                            {fault: cosmostest.Fault{Status: 500, Applied: true}, ambiguous: true, status: 500},
		"503":                            {fault: cosmostest.Fault{Status: 503}, ambiguous: true, status: 503},
		"408":                            {fault: cosmostest.Fault{Status: 408, Applied: true}, ambiguous: true, status: 408},
		"403":                            {fault: cosmostest.Fault{Status: 403}, status: 403},
		"no container":                   {fault: cosmostest.Fault{Status: 404, SubStatus: 1003}, status: 404},
		"throttled once":                 {fault: cosmostest.Fault{Status: 429, RetryAfter: time.Millisecond}, ok: true},
		"throttled for long":             {fault: cosmostest.Fault{Status: 429, RetryAfter: time.Millisecond, Count: 3}, status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range allWrites(t) {
				f := open[session](t, nil)
				was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
				fault := tt.fault
				fault.Ops = []cosmostest.Op{w.op}
				f.inject(t, fault)
				err := w.call(t.Context(), f.Driver, was)
				if left := f.account.ClearFaults(); left != 0 {
					t.Errorf("%s: %d faults are left: the test proves nothing", w.name, left)
				}
				if tt.ok {
					if err != nil || !w.landed(f.Driver) {
						t.Errorf("%s: error %v, landed %t; want it to be sent again", w.name, err, w.landed(f.Driver))
					}
					continue
				}
				if err == nil {
					t.Errorf("%s reports success", w.name)
					continue
				}
				if errors.Is(err, driver.ErrAmbiguous) != tt.ambiguous {
					t.Errorf("%s: error %v, want ErrAmbiguous: %t", w.name, err, tt.ambiguous)
				}
				if errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) {
					t.Errorf("%s: error %v claims more than is known", w.name, err)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error quotes the key: %v", w.name, err)
				}
				var answer *azcore.ResponseError
				if tt.status != 0 && (!errors.As(err, &answer) || answer.StatusCode != tt.status) {
					t.Errorf("%s: error %v, want the client's %d", w.name, err, tt.status)
				}
				if landed := w.landed(f.Driver); landed != tt.fault.Applied {
					t.Errorf("%s: landed %t, want %t", w.name, landed, tt.fault.Applied)
				}
			}
		})
	}
}

// A 409 to a replacement is of a unique key of the container: a create alone meets an item of its id.
// It is told as such, and no write is sent again.
func TestUniqueKey(t *testing.T) {
	for name, known := range map[string]bool{"of a live record": true, "of a dead one": false} {
		f := open[session](t, nil)
		was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpReplace}, Status: http.StatusConflict, Count: 1 << 20})
		counts := f.during(func() {
			var err error
			if known {
				_, err = f.Replace(t.Context(), secret, session{User: "taken"}, was, was.Life, base)
			} else {
				now := base.Add(time.Hour)
				_, err = f.Insert(t.Context(), secret, session{User: "taken"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
			}
			wantInvalid(t, name, err, "value", "unique keys", "409")
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error quotes the key: %v", name, err)
			}
		})
		f.account.ClearFaults()
		if counts.Replace != 1 {
			t.Errorf("%s: %+v, want one replacement", name, counts)
		}
	}
}

// A write that conflicted with another (449) was not executed, and is resent.
func TestRetryWith(t *testing.T) {
	for _, w := range allWrites(t) {
		if w.name == "Delete" {
			continue // without a condition it conflicts with none
		}
		f := open[session](t, nil)
		was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Status: statusRetryWith, Count: 2})
		if err := w.call(t.Context(), f.Driver, was); err != nil || !w.landed(f.Driver) {
			t.Errorf("%s: error %v, landed %t; want it to be sent again", w.name, err, w.landed(f.Driver))
		}
	}
}

// The pause before each grows. Only its lower bound is checked.
func TestRetryWithPauses(t *testing.T) {
	t.Parallel()
	f := open[session](t, nil)
	d, err := New[session](f.container, nil) // whose pauses are the default
	if err != nil {
		t.Fatal(err)
	}
	was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
	var sent []time.Time
	f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpPatch}, Status: statusRetryWith, Count: 10, Then: func() { sent = append(sent, time.Now()) }})
	_, err = d.Touch(t.Context(), secret, was, lasting(2*time.Hour), base)
	if status(err) != statusRetryWith || errors.Is(err, driver.ErrAmbiguous) || len(sent) != 4 {
		t.Fatalf("after %d sends: error %v, want the client's 449 after 4", len(sent), err)
	}
	for i, least := range []time.Duration{40, 120, 280} {
		if pause := sent[i+1].Sub(sent[i]); pause < least*time.Millisecond {
			t.Errorf("it waited %v before it sent it again the %d. time, want at least %d ms", pause, i+1, least)
		}
	}
}

// A read that keeps failing returns that error, and not ErrNotFound.
func TestFailedReads(t *testing.T) {
	for _, fault := range []cosmostest.Fault{
		{Status: 403}, {Status: 404, SubStatus: 1003}, {Status: 500}, {Status: 429, RetryAfter: time.Millisecond},
	} {
		f := open[session](t, nil)
		f.mustInsert(t, secret, session{}, lasting(time.Hour), base)
		if _, err := f.GetMulti(t.Context(), []string{secret}); err != nil { // so that it knows the container
			t.Fatal(err)
		}
		fault.Count = 1000
		f.inject(t, fault)
		_, get := f.Get(t.Context(), secret)
		_, latest := f.Latest(t.Context(), secret)
		_, multi := f.GetMulti(t.Context(), []string{secret})
		_, raw := f.Raw(t.Context(), secret)
		cursors, err := f.Segments(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		_, scan := f.Scan(t.Context(), cursors[0], 10)
		for call, err := range map[string]error{"Get": get, "Latest": latest, "GetMulti": multi, "Raw": raw, "Scan": scan, "Check": f.Check(t.Context(), time.Hour)} {
			var answer *azcore.ResponseError
			if !errors.As(err, &answer) || answer.StatusCode != fault.Status || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("%d: %s: error %v, want the client's", fault.Status, call, err)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error quotes the key: %v", call, err)
			}
		}
	}
}

// A write whose context ends while it is throttled has not landed. One whose context ends as its
// answer comes may have landed.
func TestContextEndsOverAnAnswer(t *testing.T) {
	leave := new(leaving)
	f := open[session](t, nil, func(o *azcosmos.ClientOptions) {
		o.PerRetryPolicies = append(o.PerRetryPolicies, leave)
	})
	f.opts.Retry.MaxRetryDelay = time.Hour
	for _, w := range allWrites(t) {
		was := f.mustInsert(t, secret, session{}, lasting(time.Hour), base)
		for _, throttled := range []bool{true, false} {
			if throttled {
				f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Status: http.StatusTooManyRequests, RetryAfter: time.Minute})
			}
			ctx, cancel := context.WithCancel(t.Context())
			leave.arm(w.op, cancel)
			err := w.call(ctx, f.Driver, was)
			cancel()
			leave.arm("", nil)
			f.account.ClearFaults()
			if !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrAmbiguous) == throttled {
				t.Errorf("%s, throttled %t: error %v, want the context's, and ErrAmbiguous unless it was", w.name, throttled, err)
			}
			if w.landed(f.Driver) == throttled {
				t.Errorf("%s, throttled %t: landed %t", w.name, throttled, w.landed(f.Driver))
			}
		}
		for _, key := range []string{secret, secret + "new"} {
			if err := f.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// leaving is a policy that ends a call's context when its answer arrives: a 429 has been read by
// then, another answer has not.
type leaving struct {
	mu    sync.Mutex // guards the rest
	op    string     // the method of the call
	leave func()
}

func (l *leaving) arm(op cosmostest.Op, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op = map[cosmostest.Op]string{
		cosmostest.OpCreate: http.MethodPost, cosmostest.OpReplace: http.MethodPut, cosmostest.OpPatch: http.MethodPatch, cosmostest.OpDelete: http.MethodDelete,
	}[op]
	l.leave = leave
}

// Do implements policy.Policy.
func (l *leaving) Do(req *policy.Request) (*http.Response, error) {
	res, err := req.Next()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || req.Raw().Method != l.op {
		return res, err
	}
	if res.StatusCode == http.StatusTooManyRequests {
		res.Body = closing{res.Body, l.leave} // azcore closes it before it waits
	} else {
		l.leave()
	}
	return res, nil
}

type closing struct {
	io.ReadCloser
	then func()
}

func (c closing) Close() error {
	c.then()
	return c.ReadCloser.Close()
}

// A touch that hangs until the record's life has ended is given up.
func TestLateTouchIsGivenUp(t *testing.T) {
	f := open[session](t, &Options{MaxSkew: 500 * time.Millisecond}) // it is sent by then
	was := f.mustInsert(t, secret, session{}, lasting(500*time.Millisecond), base)
	release := f.account.Hang()
	defer release()
	_, err := f.Touch(t.Context(), secret, was, lasting(time.Hour), base)
	if !errors.Is(err, driver.ErrLate) || !errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("error %v, want one that says that the touch was given up", err)
	}
}

// A create that was answered does not wait for the read that was sent with it.
func TestReadBesideIsSilent(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Driver[session]) error{
		"Insert": func(ctx context.Context, d *Driver[session]) error {
			_, err := d.Insert(ctx, "new", session{}, lasting(time.Hour), base)
			return err
		},
		"Upsert": func(ctx context.Context, d *Driver[session]) error {
			plan := func(*driver.Meta) (driver.Life, error) { return lasting(time.Hour), nil }
			_, err := d.Upsert(ctx, "new", session{}, nil, plan, base)
			return err
		},
	} {
		f := open[session](t, &Options{Retain: time.Hour})
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpRead}, Silence: true, Count: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := call(ctx, f.Driver); err != nil || ctx.Err() != nil {
			t.Errorf("%s: %v; its context: %v", name, err, ctx.Err())
		}
		cancel()
		f.account.ClearFaults()
	}
}
