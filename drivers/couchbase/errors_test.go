package couchbase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// failFast gives up at the first temporary failure.
type failFast struct{}

func (failFast) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

const secret = "session:8f14e45fceea167a"

// calls are the methods of a driver that talk to the server, on a record that is alive.
func calls(d *couchbase.Driver[profile], was driver.Meta) map[string]func(context.Context) error {
	life := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Minute)}
	now := driver.Floor(start)
	return map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error {
			_, err := d.Get(ctx, secret)
			return err
		},
		"GetMulti": func(ctx context.Context) error {
			_, err := d.GetMulti(ctx, []string{secret})
			return err
		},
		"Insert": func(ctx context.Context) error {
			_, err := d.Insert(ctx, secret+"new", profile{}, life, now)
			return err
		},
		"Replace": func(ctx context.Context) error {
			_, err := d.Replace(ctx, secret, profile{}, was, life, now)
			return err
		},
		"Touch": func(ctx context.Context) error {
			_, err := d.Touch(ctx, secret, was, life, now)
			return err
		},
		"Upsert": func(ctx context.Context) error {
			_, err := d.Upsert(ctx, secret, profile{}, nil, func(*driver.Meta) (driver.Life, error) { return life, nil }, now)
			return err
		},
		"Delete": func(ctx context.Context) error { return d.Delete(ctx, secret) },
		"Remove": func(ctx context.Context) error { return d.Remove(ctx, secret, was, now) },
	}
}

// record creates the record that calls works on.
func record(t testing.TB, f *fixture) driver.Meta {
	t.Helper()
	now := driver.Floor(start)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}
	version, err := newDriver[profile](t, f, nil).Insert(t.Context(), secret, profile{Name: "kept"}, life, now)
	ok(t, "Insert", err)
	return driver.Meta{Life: life, Version: version}
}

// Failures of the server or the network are returned as gocb's own error, without the key in its
// text, and nothing is written.
func TestFailuresPassAsGocbsOwn(t *testing.T) {
	kv := func(t *testing.T, err error) {
		var own *gocb.KeyValueError
		if !errors.As(err, &own) {
			t.Errorf("no *gocb.KeyValueError in %v", err)
		} else if own.DocumentID != "" {
			t.Errorf("the error tells the key: %q", own.DocumentID)
		}
	}
	timeout := func(t *testing.T, err error) {
		var own *gocb.TimeoutError
		if !errors.As(err, &own) {
			t.Errorf("no *gocb.TimeoutError in %v", err)
		}
	}
	refused := func(t *testing.T, err error) { // by each attempt
		if errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%v: nothing was written", err)
		}
	}
	for _, c := range []struct {
		name  string
		opts  couchbase.Options
		fault couchbasetest.Fault
		read  error // what a read matches
		write error // what a write matches
		own   func(*testing.T, error)
	}{
		{"temporary failure", couchbase.Options{RetryStrategy: failFast{}}, couchbasetest.Fault{Status: memd.StatusTmpFail}, gocb.ErrTemporaryFailure, gocb.ErrTemporaryFailure, kv},
		{"busy", couchbase.Options{RetryStrategy: failFast{}}, couchbasetest.Fault{Status: memd.StatusBusy}, gocb.ErrTemporaryFailure, gocb.ErrTemporaryFailure, kv},
		{"locked", couchbase.Options{RetryStrategy: failFast{}}, couchbasetest.Fault{Status: memd.StatusLocked}, gocb.ErrDocumentLocked, gocb.ErrDocumentLocked, kv},
		{"durable write in progress", couchbase.Options{RetryStrategy: failFast{}}, couchbasetest.Fault{Status: memd.StatusSyncWriteInProgress}, gocb.ErrDurableWriteInProgress, gocb.ErrDurableWriteInProgress, kv},
		{"no access", couchbase.Options{}, couchbasetest.Fault{Status: memd.StatusAccessError}, gocb.ErrAuthenticationFailure, gocb.ErrAuthenticationFailure, kv},
		{"temporary failure to the end", couchbase.Options{Timeout: time.Second}, couchbasetest.Fault{Status: memd.StatusTmpFail}, gocb.ErrUnambiguousTimeout, gocb.ErrTemporaryFailure, refused},
		{"locked to the end", couchbase.Options{Timeout: time.Second}, couchbasetest.Fault{Status: memd.StatusLocked}, gocb.ErrUnambiguousTimeout, gocb.ErrDocumentLocked, refused},
		{"no answer", couchbase.Options{Timeout: 50 * time.Millisecond}, couchbasetest.Fault{Silent: true}, gocb.ErrUnambiguousTimeout, gocb.ErrAmbiguousTimeout, timeout},
		{"no answer in a short context", couchbase.Options{}, couchbasetest.Fault{Silent: true}, context.DeadlineExceeded, context.DeadlineExceeded, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			was := record(t, f)
			d := newDriver[profile](t, f, &c.opts)
			for name, call := range calls(d, was) {
				fault := c.fault
				fault.Count = 1 << 20
				ok(t, "Inject", f.Inject(fault))
				ctx, cancel := context.WithCancel(t.Context())
				if c.own == nil {
					ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				}
				var err error
				counts := f.during(func() {
					err = call(ctx)
					cancel()
					f.drain(t) // a last attempt may be under way although it timed out
				})
				f.ClearFaults()
				want := c.write
				if strings.HasPrefix(name, "Get") {
					want = c.read
				}
				if !errors.Is(err, want) {
					t.Errorf("%s: %v; want %v", name, err, want)
					continue
				}
				if c.own != nil {
					c.own(t, err)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the error's text has the key: %v", name, err)
				}
				if errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s: the error takes part in the contract: %v", name, err)
				}
				if counts.Mutations != 0 {
					t.Errorf("%s: %d mutations", name, counts.Mutations)
				}
			}
			if e, err := newDriver[profile](t, f, nil).Get(t.Context(), secret); err != nil || e.Meta != was || e.Value.Name != "kept" {
				t.Errorf("afterwards the record is %+v, %v", e, err)
			}
		})
	}
}

// A connection that drops with an operation under way fails a write, which may have
// landed, and not a read; the next operation finds a new connection.
func TestDroppedConnection(t *testing.T) {
	f := open(t)
	was := record(t, f)
	d := newDriver[profile](t, f, nil)
	for _, applied := range []bool{false, true} {
		for _, name := range []string{"Get", "Touch", "Get"} {
			ok(t, "Inject", f.Inject(couchbasetest.Fault{Drop: true, Applied: applied}))
			err := calls(d, was)[name](t.Context())
			if left := f.ClearFaults(); left != 0 {
				t.Fatalf("%s: the fault did not strike", name)
			}
			if name == "Get" {
				ok(t, "Get on a connection that drops", err)
			} else if err == nil {
				t.Errorf("%s: passes, though there was no answer", name)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error's text has the key: %v", name, err)
			}
			e, gerr := d.Get(t.Context(), secret)
			ok(t, "Get after the drop", gerr)
			if name == "Touch" {
				// A write without an answer may have landed, but never in part.
				if landed := e.ExpiresAt == was.ExpiresAt.Add(time.Minute); landed != applied || !landed && e.Meta != was {
					t.Errorf("after a touch that was applied: %t, the record is %+v; it was %+v; the error is %v", applied, e.Meta, was, err)
				}
			}
			was = e.Meta
		}
	}
	counts := f.during(f.DropConnections)
	if counts.Mutations != 0 {
		t.Error("dropping connections has written")
	}
	_, err := d.Get(t.Context(), secret)
	ok(t, "Get after all connections dropped", err)
}

// If the server is slower than the touch timeout, the touch fails and not the read: neither the
// touch sent with the read nor the one after it is answered. It is tried again.
func TestSlowTouch(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}
	failed := make(chan error, 1)
	s := newStore(t, f, d, policy, &slidingttl.Options[profile]{
		TouchTimeout: 500 * time.Millisecond,
		OnTouchError: func(_ context.Context, _ string, err error) { failed <- err },
	})
	ok(t, "Insert", s.Insert(t.Context(), "k", profile{Name: "a"}))
	f.Advance(time.Minute)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpMutateIn}, Silent: true, Count: 2}))
	v, err := s.Get(t.Context(), "k")
	if err != nil || v.Name != "a" {
		t.Errorf("Get: %v, %v", v, err)
	}
	if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the touch failed with %v; want its deadline", err)
	}
	if st := s.Stats(); st.TouchFails != 1 {
		t.Errorf("%d touches failed; want 1", st.TouchFails)
	}
	before, _ := stored(t, f.c, "k")
	ok(t, "Flush", s.Flush(t.Context()))
	if after, _ := stored(t, f.c, "k"); after != before+60 {
		t.Errorf("the touch moved the expiry by %d s when it was tried again; want 60", after-before)
	}
}

// If another writer changed the record, the conflict has both the record and gocb's own error.
func TestConflictCarriesGocbsError(t *testing.T) {
	f := open(t)
	was := record(t, f)
	d := newDriver[profile](t, f, nil)
	_, err := f.c.Upsert(secret, profile{Name: "other"}, &gocb.UpsertOptions{PreserveExpiry: true})
	ok(t, "Upsert", err)
	for name, own := range map[string]error{"Replace": gocb.ErrCasMismatch, "Insert": gocb.ErrDocumentExists} {
		var err error
		if name == "Insert" {
			_, err = d.Insert(t.Context(), secret, profile{}, was.Life, driver.Floor(start))
		} else {
			err = calls(d, was)[name](t.Context())
		}
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || conflict.Found.Life != was.Life {
			t.Errorf("%s: %v; want a conflict with the record found", name, err)
		}
		if !errors.Is(err, own) {
			t.Errorf("%s: %v does not match %v", name, err, own)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error's text has the key: %v", name, err)
		}
	}
}

// Bad input is refused with its name, before a request is sent if the driver can check it.
func TestInvalidInput(t *testing.T) {
	f := open(t)
	ok(t, "AddCollection", f.AddCollection(f.Bucket(), "_default", "named", nil))
	named, err := couchbase.New[profile](f.c.Bucket().Collection("named"), nil)
	ok(t, "New", err)
	now := driver.Floor(start)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}

	insert := func(key string) error {
		_, err := newDriver[profile](t, f, nil).Insert(t.Context(), key, profile{}, life, now)
		return err
	}
	encode := func(v any) error {
		_, err := newDriver[any](t, f, &couchbase.Options{Timeout: time.Minute}).Insert(t.Context(), "k", v, life, now)
		return err
	}
	for _, c := range []struct {
		name  string
		err   error
		field string // empty: no error
	}{
		{"empty key", insert(""), "key"},
		{"longest key", insert(strings.Repeat("k", 250)), ""},
		{"key too long", insert(strings.Repeat("k", 251)), "key"},
		{"longest key in a named collection", second(named.Insert(t.Context(), strings.Repeat("k", 246), profile{}, life, now)), ""},
		{"key too long in a named collection", second(named.Insert(t.Context(), strings.Repeat("k", 247), profile{}, life, now)), "key"},
		{"bytes as JSON", encode([]byte("x")), "value"},
		{"channel", encode(make(chan int)), "value"},
		{"value too large", encode(strings.Repeat("x", 21<<20)), "value"},
	} {
		var invalid *driver.InvalidError
		switch got := errors.As(c.err, &invalid); {
		case c.field == "" && c.err != nil:
			t.Errorf("%s: %v", c.name, c.err)
		case c.field != "" && (!got || invalid.Field != c.field):
			t.Errorf("%s: %v; want an InvalidError for the %s", c.name, c.err, c.field)
		}
	}
}

func second[A any](_ A, err error) error { return err }

// A document that the driver cannot read is refused, with the name of what is wrong.
func TestInvalidDocument(t *testing.T) {
	f := open(t)
	for _, c := range []struct {
		name, body string
		created    any // the xattr, nil: none
		opts       couchbase.Options
		field      string
	}{
		{"another type", `{"name":1}`, nil, couchbase.Options{}, "stored value"},
		{"number out of range", `{"count":4111e99}`, nil, couchbase.Options{}, "stored value"},
		{"no JSON", "\x00\x01", nil, couchbase.Options{}, "stored value"},
		{"xattr of another type", `{}`, "yesterday", couchbase.Options{}, "xattr slidingttl.created_at"},
		{"empty", "", nil, couchbase.Options{}, "stored value"},
		{"empty, with the field to be in it", "", nil, couchbase.Options{CreatedIn: couchbase.Body}, "stored value"},
		{"field of another type", `{"created_at":1700000000}`, nil, couchbase.Options{CreatedIn: couchbase.Body}, "field created_at"},
		{"field that is no time", `{"created_at":"yesterday"}`, nil, couchbase.Options{CreatedIn: couchbase.Body}, "field created_at"},
	} {
		ok(t, "plant", plant(t.Context(), f.c, "k", []byte(c.body), jsonFlags, 0))
		if c.created != nil {
			_, err := f.c.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("slidingttl.created_at", c.created, &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true})}, nil)
			ok(t, "MutateIn", err)
		}
		_, err := newDriver[profile](t, f, &c.opts).Get(t.Context(), "k")
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: %v; want an InvalidError for the %s", c.name, err, c.field)
		}
		if err != nil && (strings.Contains(err.Error(), "yesterday") || strings.Contains(err.Error(), "4111")) {
			t.Errorf("%s: the error quotes the document: %v", c.name, err)
		}
	}
}

// gocb's JSON transcoder stores a json.RawMessage as it is. One that no read could decode is refused.
func TestInvalidRawMessage(t *testing.T) {
	f := open(t)
	d := newDriver[any](t, f, nil)
	life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start).Add(time.Hour)}
	for _, text := range []string{`{bad`, `{} {}`, ` `} {
		raw := json.RawMessage(text)
		var boxed any = raw
		for _, v := range []any{raw, &raw, &boxed} {
			var invalid *driver.InvalidError
			if _, err := d.Insert(t.Context(), "k", v, life, life.CreatedAt); !errors.As(err, &invalid) || invalid.Field != "value" {
				t.Errorf("Insert of a %T of %q: %v; want an InvalidError for the value", v, raw, err)
			}
		}
	}
}

// A nil pointer to what gocb's JSON transcoder stores as it is, is null, like any other.
func TestNilRawMessage(t *testing.T) {
	f := open(t)
	d := newDriver[any](t, f, nil)
	var inner any = (*json.RawMessage)(nil)
	for i, v := range []any{(*json.RawMessage)(nil), (*any)(nil), &inner, (*profile)(nil)} {
		key := fmt.Sprint("k", i)
		life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start).Add(time.Hour)}
		_, err := d.Insert(t.Context(), key, v, life, life.CreatedAt)
		ok(t, "Insert", err)
		if e, err := d.Get(t.Context(), key); err != nil || e.Value != nil {
			t.Errorf("a nil %T: %v, %v", v, e.Value, err)
		}
	}
}

// A pointer to itself is refused: gocb would follow it until the stack ends the process.
func TestPointerCycle(t *testing.T) {
	d := newDriver[any](t, open(t), nil)
	var x any
	x = &x
	life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start).Add(time.Hour)}
	if _, err := d.Insert(t.Context(), "k", x, life, life.CreatedAt); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v; want ErrInvalid", err)
	}
}

// The server counts the xattrs too, so a value below 20 MiB may be too large.
func TestTooLarge(t *testing.T) {
	f := open(t)
	d := newDriver[[]byte](t, f, &couchbase.Options{Transcoder: gocb.NewRawBinaryTranscoder()})
	life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start).Add(time.Hour)}
	_, err := d.Insert(t.Context(), "k", make([]byte, 20<<20-1), life, life.CreatedAt)
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "value" || !strings.Contains(invalid.Rule, "xattrs") {
		t.Errorf("%v; want an InvalidError that tells of the xattrs", err)
	}
}

func TestInvalidOptions(t *testing.T) {
	f := open(t)
	f.SetTime(time.Time{}) // Check compares with this process's clock
	for field, opts := range map[string]couchbase.Options{
		"CreatedIn":       {CreatedIn: 7},
		"CreatedPath":     {CreatedPath: "_system.created_at"},
		"CreatedPath ":    {CreatedPath: "$document.created_at"},
		"CreatedPath  ":   {CreatedPath: "an_xattr_too_long.created_at"},
		"CreatedPath   ":  {CreatedPath: "scalar"},
		"CreatedPath    ": {CreatedIn: couchbase.Body, CreatedPath: "meta.created_at"},
		"CreatedPath 1":   {CreatedPath: "app.born[0]"},
		"CreatedPath 2":   {CreatedPath: "app.ttl..born"},
		"CreatedPath 3":   {CreatedPath: "app.`born"},
		"CreatedPath 4":   {CreatedPath: "app[0].born"},
		"CreatedPath 5":   {CreatedPath: "app.flags", Transcoder: gocb.NewRawBinaryTranscoder()},
		"CreatedPath 6":   {CreatedPath: "app.flags.born", Transcoder: gocb.NewRawBinaryTranscoder()},
		"CreatedPath 7":   {CreatedIn: couchbase.Body, CreatedPath: "born\n"},
		"CreatedPath 8":   {CreatedIn: couchbase.Body, CreatedPath: "geb\xff"},
		"CreatedPath 9":   {CreatedIn: couchbase.Body, CreatedPath: strings.Repeat("x", 1025)},
		"CreatedPath 10":  {CreatedPath: "app.bo\nrn"},
		"CreatedPath 11":  {CreatedPath: "a\xffp.born"},
		"CreatedPath 12":  {CreatedPath: "app" + strings.Repeat(".x", 31)},
		"CreatedPath 13":  {CreatedPath: "app." + strings.Repeat("x", 1021)},
		"Transcoder":      {CreatedIn: couchbase.Body, Transcoder: gocb.NewRawBinaryTranscoder()},
		"Timeout":         {Timeout: -1},
		"Timeout ":        {Timeout: time.Second, Durability: gocb.DurabilityLevelMajority},
		"Durability":      {Durability: 200},
	} {
		field = "Options." + strings.TrimRight(field, " 0123456789")
		var invalid *driver.InvalidError
		if _, err := couchbase.New[profile](f.c, &opts); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v; want an InvalidError for %s", opts, err, field)
		}
	}
	for _, first := range "!#%&'()*+,-/:;<=>?@^_{|}~$\x7f" {
		path := string(first) + "app.born"
		if _, err := couchbase.New[profile](f.c, &couchbase.Options{CreatedPath: path}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("CreatedPath %q: %v; want ErrInvalid", path, err)
		}
	}
	for _, sound := range []couchbase.Options{
		{CreatedPath: "app.flags"},
		{CreatedPath: "app.flags", Transcoder: gocb.NewJSONTranscoder()},
		{CreatedPath: "app.flags_born", Transcoder: gocb.NewRawBinaryTranscoder()},
		{CreatedPath: "flags.born", Transcoder: gocb.NewRawBinaryTranscoder()},
		{CreatedPath: "app" + strings.Repeat(".x", 30)},
		{CreatedPath: " app.born"},
		{CreatedPath: "été.born"},
		{CreatedPath: "app." + strings.Repeat("x", 1020)},
		{CreatedIn: couchbase.Body, CreatedPath: strings.Repeat("x", 1024)},
		{CreatedIn: couchbase.Body, CreatedPath: "geboren am\x7f\u200b"},
	} {
		sound.ProbeKey = strings.Repeat("k", 237)
		d := newDriver[profile](t, f, &sound)
		ok(t, "Check with "+sound.CreatedPath, d.Check(t.Context(), day))
	}
	if _, err := couchbase.New[profile](f.c, &couchbase.Options{ProbeKey: strings.Repeat("k", 238)}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a long ProbeKey: %v", err)
	}
	var invalid *driver.InvalidError
	if _, err := couchbase.New[profile](nil, nil); !errors.As(err, &invalid) || invalid.Field != "collection" {
		t.Errorf("no collection: %v", err)
	}
}

// Durability, retries and spans reach the server and gocb's tracer.
func TestOptionsPassThrough(t *testing.T) {
	node := couchbasetest.Start(t)
	node.SetTime(start)
	opts := node.ClusterOptions()
	tracer := &recorder{}
	opts.Tracer = tracer
	cluster, err := gocb.Connect(node.ConnectionString(), opts)
	ok(t, "Connect", err)
	t.Cleanup(func() { _ = cluster.Close(nil) })
	bucket := cluster.Bucket(node.Bucket())
	ok(t, "WaitUntilReady", bucket.WaitUntilReady(30*time.Second, nil))
	f := &fixture{node, bucket.DefaultCollection()}
	was := record(t, f)

	tried := 0
	d := newDriver[profile](t, f, &couchbase.Options{
		Durability: gocb.DurabilityLevelMajority,
		RetryStrategy: gocb.NewBestEffortRetryStrategy(func(uint32) time.Duration {
			tried++
			return time.Millisecond
		}),
		ParentSpan: func(ctx context.Context) gocb.RequestSpan { return span(fmt.Sprint(ctx.Value(spanKey{}))) },
	})
	for _, name := range []string{"Get", "Insert", "Replace", "Touch", "Upsert", "Delete"} {
		tracer.reset()
		tried = 0
		ok(t, "Inject", node.Inject(couchbasetest.Fault{Status: memd.StatusTmpFail, Count: 2}))
		call := calls(d, was)[name]
		if name == "Touch" { // after Replace
			e, err := d.Get(t.Context(), secret)
			ok(t, "Get", err)
			call = calls(d, e.Meta)[name]
		}
		ok(t, name, call(context.WithValue(t.Context(), spanKey{}, "caller of "+name)))
		if tried != 2 && name != "Touch" {
			t.Errorf("%s: the strategy was asked %d times; want 2", name, tried)
		}
		if !tracer.saw("caller of " + name) {
			t.Errorf("%s: no span has the caller's as its parent: %v", name, tracer.parents)
		}
	}
}

// A write that was answered, or refused, does not wait for the lookup that was sent with it, nor long for the
// write of the flags that follows.
func TestLookupBesideIsSilent(t *testing.T) {
	life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start).Add(time.Hour)}
	plan := func(*driver.Meta) (driver.Life, error) { return life, nil }
	for name, call := range map[string]func(context.Context, *couchbase.Driver[profile], driver.Meta) error{
		"Insert": func(ctx context.Context, d *couchbase.Driver[profile], _ driver.Meta) error {
			_, err := d.Insert(ctx, "new", profile{}, life, life.CreatedAt)
			return err
		},
		"Upsert": func(ctx context.Context, d *couchbase.Driver[profile], _ driver.Meta) error {
			_, err := d.Upsert(ctx, "new", profile{}, nil, plan, life.CreatedAt)
			return err
		},
		"Upsert of a known record": func(ctx context.Context, d *couchbase.Driver[profile], was driver.Meta) error {
			_, err := d.Upsert(ctx, secret, profile{}, &was, plan, life.CreatedAt)
			return err
		},
		"Replace": func(ctx context.Context, d *couchbase.Driver[profile], was driver.Meta) error {
			_, err := d.Replace(ctx, secret, profile{}, was, life, life.CreatedAt)
			return err
		},
	} {
		for _, c := range []struct {
			faults []couchbasetest.Fault
			want   error
		}{
			{nil, nil},
			{[]couchbasetest.Fault{{Ops: []couchbasetest.Op{couchbasetest.OpReplace}, Silent: true}}, nil},
			{[]couchbasetest.Fault{{Ops: []couchbasetest.Op{couchbasetest.OpMutateIn}, Status: memd.StatusAccessError}}, driver.ErrRefused},
		} {
			f := open(t)
			was := record(t, f)
			d := newDriver[profile](t, f, &couchbase.Options{Retain: time.Hour})
			for _, fault := range append(c.faults, couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpLookupIn}, Silent: true, Count: 1000}) {
				ok(t, "Inject", f.Inject(fault))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := call(ctx, d, was); !errors.Is(err, c.want) || ctx.Err() != nil {
				t.Errorf("%s with %+v: %v; its context: %v", name, c.faults, err, ctx.Err())
			}
			cancel()
			f.ClearFaults()
		}
	}
}

// A replacement of what has changed does not wait for the flags before it looks up what is there.
func TestMismatchBesideSilence(t *testing.T) {
	f := open(t)
	was := record(t, f)
	d := newDriver[profile](t, f, nil)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpLookupIn}, Silent: true}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stale := driver.Meta{Life: was.Life, Version: was.Version - 1}
	longer := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Hour)}
	if _, err := d.Replace(ctx, secret, profile{}, stale, longer, was.CreatedAt); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("%v; want a conflict", err)
	}
}
