package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// openHTTP2 is open with clients that speak HTTP/2.
func openHTTP2(t testing.TB, opts *Options) *fixture[session] {
	t.Helper()
	return openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{HTTP2: true}), opts)
}

// protocolError makes net/http itself resend any request.
const protocolError = 1

// A write over HTTP/2 whose answer is lost is not resent, so it does not undo later writes of
// others.
func TestNotResentOverHTTP2(t *testing.T) {
	for name, fault := range map[string]cosmostest.Fault{
		"reset":  {Drop: true, Applied: true},
		"silent": {Silence: true, Applied: true},
	} {
		for _, w := range allWrites(t) {
			t.Run(name+" "+w.name, func(t *testing.T) {
				t.Parallel()
				fault := fault // of this test alone
				f := openHTTP2(t, nil)
				was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
				other := f.another(t)
				ctx := context.Background()
				fault.Ops = []cosmostest.Op{w.op}
				fault.Then = func() {
					for _, key := range []string{secret, secret + "new"} {
						if err := other.Delete(ctx, key); err != nil {
							t.Error(err)
						}
						if _, err := other.Insert(ctx, key, session{User: "theirs"}, lasting(time.Hour), base); err != nil {
							t.Error(err)
						}
					}
				}
				before := f.account.Counts()
				f.inject(t, fault)
				wantAmbiguous(t, w.name, w.call(t.Context(), f.Driver, was))
				after := f.account.Counts().Since(before)
				// The other process made two deletes and two creates.
				if theirs := (cosmostest.Counts{Create: 2, Delete: 2}); countOf(after, w.op) != countOf(theirs, w.op)+1 {
					t.Errorf("the account saw %+v: it was sent again", after)
				}
				for _, key := range []string{secret, secret + "new"} {
					if e := f.mustGet(t, key); e.Value.User != "theirs" {
						t.Errorf("another process's record is gone, there is %+v", e)
					}
				}
			})
		}
	}
}

// azcosmos takes ETIMEDOUT for a connection that could not be made, also where it ends one that was made. Only in the
// first case is the write sent again.
func TestTimedOut(t *testing.T) {
	for _, dialled := range []bool{true, false} {
		for _, w := range allWrites(t) {
			t.Run(fmt.Sprint(w.name, ", sent ", dialled), func(t *testing.T) {
				t.Parallel()
				var armed atomic.Bool
				then := func() {}
				f := open[session](t, nil, func(o *azcosmos.ClientOptions) {
					client := *o.Transport.(*http.Client)
					below := client.Transport
					client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
						if req.Method == http.MethodGet || !armed.CompareAndSwap(true, false) {
							return below.RoundTrip(req)
						}
						failed := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}
						trace := httptrace.ContextClientTrace(req.Context())
						trace.GetConn(req.URL.Host)
						if dialled {
							failed = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}
							trace.GotConn(httptrace.GotConnInfo{})
							trace.WroteHeaders()
							res, err := below.RoundTrip(req.WithContext(context.Background()))
							if err != nil {
								return nil, err
							}
							_ = res.Body.Close()
							then()
						}
						return nil, failed
					})
					o.Transport = &client
				})
				was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
				other := f.another(t)
				then = func() {
					for _, key := range []string{secret, secret + "new"} {
						if err := other.Delete(context.Background(), key); err != nil {
							t.Error(err)
						}
					}
					if _, err := other.Insert(context.Background(), secret, session{User: "theirs"}, lasting(time.Hour), base); err != nil {
						t.Error(err)
					}
				}
				armed.Store(true)
				err := w.call(t.Context(), f.Driver, was)
				if !dialled {
					if err != nil || !w.landed(f.Driver) {
						t.Errorf("error %v; want it to be sent again", err)
					}
					return
				}
				wantAmbiguous(t, w.name, err)
				if errors.Is(err, context.Canceled) || strings.Contains(err.Error(), secret) {
					t.Errorf("error %v", err)
				}
				if e := f.mustGet(t, secret); e.Value.User != "theirs" || f.raw(t, secret+"new") != "" {
					t.Errorf("it was sent again: another process's record is %+v, and a deleted one %q", e, f.raw(t, secret+"new"))
				}
			})
		}
	}
}

// Behind a proxy that sends each write twice, and passes the second answer on, each call recognises itself.
func TestSentTwiceByAProxy(t *testing.T) {
	f := open[session](t, nil, func(o *azcosmos.ClientOptions) {
		client := *o.Transport.(*http.Client)
		below := client.Transport
		client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Body == nil || !strings.Contains(req.URL.Path, "/docs") {
				return below.RoundTrip(req)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			first, err := below.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			_ = first.Body.Close()
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(body))
			return below.RoundTrip(req)
		})
		o.Transport = &client
	})
	s, err := slidingttl.New(f.Driver, sliding, &slidingttl.Options[session]{Now: f.account.Now, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	ctx := t.Context()
	retire := func() error { // which takes its own end for another's of the same second
		if err := s.Retire(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
			return errors.Join(errors.New("want not found"), err)
		}
		return nil
	}
	for i, step := range []struct {
		call func() error
		want string
	}{
		{func() error { return s.Insert(ctx, "k", session{User: "one"}) }, "one"},
		{func() error { return s.Upsert(ctx, "k", session{User: "two"}) }, "two"},
		{func() error {
			_, err := s.Update(ctx, "k", func(session) (session, error) { return session{User: "three"}, nil })
			return err
		}, "three"},
		{func() error { _, err := s.Touch(ctx, "k"); return err }, "three"},
		{retire, ""},
		{func() error { return s.Insert(ctx, "k", session{User: "four"}) }, "four"},
		{func() error { return s.Delete(ctx, "k") }, ""},
	} {
		f.account.Advance(time.Minute)
		if err := step.call(); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		e, err := s.Peek(ctx, "k")
		if gone := errors.Is(err, slidingttl.ErrNotFound); gone != (step.want == "") || !gone && err != nil || e.Value.User != step.want {
			t.Errorf("after step %d: %+v, %v; want %q", i, e, err, step.want)
		}
	}
}

func countOf(c cosmostest.Counts, op cosmostest.Op) uint64 {
	return map[cosmostest.Op]uint64{
		cosmostest.OpCreate: c.Create, cosmostest.OpReplace: c.Replace, cosmostest.OpPatch: c.Patch, cosmostest.OpDelete: c.Delete,
	}[op]
}

func wantAmbiguous(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrAmbiguous) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrNotFound) {
		t.Errorf("%s: error %v, want ErrAmbiguous and no more", what, err)
	}
}

// After some resets net/http resends a write, which cannot be prevented. The write then
// recognises its own result, or returns ErrAmbiguous.
func TestResentByNetHTTP(t *testing.T) {
	for _, w := range allWrites(t) {
		f := openHTTP2(t, nil)
		was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
		before := f.account.Counts()
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Drop: true, Code: protocolError, Applied: true})
		err := w.call(t.Context(), f.Driver, was)
		if sent := countOf(f.account.Counts().Since(before), w.op); sent != 2 {
			t.Fatalf("%s: it was sent %d times: the test proves nothing", w.name, sent)
		}
		if w.op == cosmostest.OpDelete {
			wantAmbiguous(t, w.name, err) // who deleted the record is unknown
		} else if err != nil {
			t.Errorf("%s does not recognise itself: %v", w.name, err)
		}
		if !w.landed(f.Driver) {
			t.Errorf("%s did not land", w.name)
		}
	}
}

// The same, with another process's write in between.
func TestResentByNetHTTPOverAnother(t *testing.T) {
	ctx := context.Background()
	for _, w := range allWrites(t) {
		f := openHTTP2(t, nil)
		was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
		other := f.another(t)
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Drop: true, Code: protocolError, Applied: true, Then: func() {
			for _, key := range []string{secret, secret + "new"} {
				if err := other.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
			if _, err := other.Insert(ctx, secret, session{User: "theirs"}, lasting(time.Hour), base); err != nil {
				t.Error(err)
			}
		}})
		wantAmbiguous(t, w.name, w.call(t.Context(), f.Driver, was))
		if e, err := f.Get(t.Context(), secret); w.name != "Delete" && (err != nil || e.Value.User != "theirs") {
			t.Errorf("%s: another process's record is gone: %+v, %v", w.name, e, err)
		}
	}
}

// Three updates whose answers are lost count three at most.
func TestUpdatesOverHTTP2(t *testing.T) {
	type counter struct {
		N int `json:"n"`
	}
	t.Parallel()
	f := openOn[counter](t, cosmostest.StartWith(t, &cosmostest.Options{HTTP2: true}), nil)
	s, err := slidingttl.New(f.Driver, sliding, &slidingttl.Options[counter]{Now: f.account.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	if err := s.Insert(t.Context(), "k", counter{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpReplace}, Silence: true, Applied: true})
		if _, err := s.Update(t.Context(), "k", func(c counter) (counter, error) { return counter{c.N + 1}, nil }); !errors.Is(err, slidingttl.ErrAmbiguous) {
			t.Errorf("Update of a connection that fell silent: %v, want ErrAmbiguous", err)
		}
	}
	if n := f.mustGet(t, "k").Value.N; n != 3 {
		t.Errorf("three updates have left %d", n)
	}
}

// A named write that net/http has sent anew, since the server refused its stream, waits for the store as others do. Any other may
// undo what came between.
func TestRefusedStreamThenThrottled(t *testing.T) {
	for _, s := range []int{429, 410, statusRetryWith} {
		for _, w := range allWrites(t) {
			t.Run(fmt.Sprint(s, " ", w.name), func(t *testing.T) {
				f := openHTTP2(t, nil)
				was := f.mustInsert(t, secret, session{User: "old"}, lasting(time.Hour), base)
				f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Drop: true, Code: 7}) // REFUSED_STREAM
				fault := cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Status: s}
				if s == 429 {
					fault.RetryAfter = time.Millisecond
				}
				f.inject(t, fault)
				err := w.call(t.Context(), f.Driver, was)
				if left := f.account.ClearFaults(); left != 0 {
					t.Fatalf("%d faults are left", left)
				}
				named := w.name == "Replace" || w.name == "Touch" || w.name == "Remove"
				if named && (err != nil || !w.landed(f.Driver)) || !named && (!errors.Is(err, driver.ErrAmbiguous) || w.landed(f.Driver)) {
					t.Errorf("landed %t, error %v", w.landed(f.Driver), err)
				}
			})
		}
	}
}

// A write that is not named, and of whose attempts one may have landed, is not sent again by azcore either: it would undo
// what another process has written since.
func TestThrottledAfterALostAnswer(t *testing.T) {
	for _, op := range []cosmostest.Op{cosmostest.OpDelete, cosmostest.OpCreate} {
		f := openHTTP2(t, nil)
		other := f.another(t)
		ctx := t.Context()
		if op == cosmostest.OpDelete {
			f.mustInsert(t, "k", session{User: "old"}, lasting(time.Hour), base)
		}
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{op}, Drop: true, Code: protocolError, Applied: true})
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{op}, Status: 429, RetryAfter: time.Millisecond, Then: func() {
			var err error
			if op == cosmostest.OpDelete {
				_, err = other.Insert(ctx, "k", session{User: "theirs"}, lasting(time.Hour), base)
			} else {
				err = other.Delete(ctx, "k")
			}
			if err != nil {
				t.Error(err)
			}
		}})
		var err error
		if op == cosmostest.OpDelete {
			err = f.Delete(ctx, "k")
		} else {
			_, err = f.Insert(ctx, "k", session{User: "mine"}, lasting(time.Hour), base)
		}
		if !errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%v: %v", op, err)
		}
		e, err := other.Latest(ctx, "k")
		if op == cosmostest.OpDelete && (err != nil || e.Value.User != "theirs") || op == cosmostest.OpCreate && !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%v undid what another process wrote: %+v, %v", op, e, err)
		}
	}
}

// Of two processes that retire a record at once one is told that it has, though net/http sends its patch again.
func TestOneRetiresThoughItIsSentAgain(t *testing.T) {
	var armed atomic.Bool
	arm := func() {}
	f := openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{HTTP2: true}), nil, func(o *azcosmos.ClientOptions) {
		client := *o.Transport.(*http.Client)
		below := client.Transport
		client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			res, err := below.RoundTrip(req)
			if req.Method == http.MethodGet && armed.CompareAndSwap(true, false) {
				arm() // the next patch ends the life
			}
			return res, err
		})
		o.Transport = &client
	})
	process := func(d *Driver[session]) *slidingttl.Store[session] {
		s, err := slidingttl.New(d, sliding, &slidingttl.Options[session]{Now: f.account.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	}
	one, two := process(f.Driver), process(f.another(t))
	if err := one.Insert(t.Context(), "token", session{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	f.account.Advance(time.Minute)
	if _, err := two.Peek(t.Context(), "token"); err != nil {
		t.Fatal(err)
	}
	other := errors.New("not called")
	arm = func() {
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpPatch}, Drop: true, Code: 7, Then: func() { // REFUSED_STREAM
			other = two.Retire(t.Context(), "token")
		}})
	}
	armed.Store(true)
	err := one.Retire(t.Context(), "token")
	if other != nil || !errors.Is(err, slidingttl.ErrAmbiguous) && !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("%v and %v, want one nil", other, err)
	}
}
