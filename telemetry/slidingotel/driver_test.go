package slidingotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

const secret = "a-session-token"

var database = slidingotel.Database{System: "redis", Namespace: "0", Collection: "session", Address: "redis.local", Port: 6379}

// failing is a driver some of whose calls fail.
type failing struct {
	driver.Driver[string]
	touch error
}

func (f *failing) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if f.touch != nil {
		return 0, f.touch
	}
	return f.Driver.Touch(ctx, key, was, life, now)
}

// wrapped returns a traced driver over memory, and what can fail below it.
func wrapped(t *testing.T, c *collector, db slidingotel.Database) (driver.Driver[string], *failing) {
	t.Helper()
	inner := &failing{Driver: remote[string]{inMemory[string](t)}}
	d, err := slidingotel.Wrap(c.tel, driver.Driver[string](inner), db)
	ok(t, err)
	return d, inner
}

// about is a span in a line.
func about(s sdktrace.ReadOnlySpan) string {
	line := s.Name() + " " + s.SpanKind().String()
	if s.Status().Code != codes.Unset {
		line += fmt.Sprintf(" %v(%s)", s.Status().Code, s.Status().Description)
	}
	for _, a := range s.Attributes() {
		line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
	}
	return line
}

// Spans are as the conventions for databases have them.
func TestSpans(t *testing.T) {
	c := collect(t)
	d, inner := wrapped(t, c, database)
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	v, err := d.Insert(t.Context(), secret, "v", life, now)
	ok(t, err)
	was := driver.Meta{Life: life, Version: v}
	for _, call := range []struct {
		name string
		run  func() error
		want string
	}{
		{"insert of what is there", func() error { _, err := d.Insert(t.Context(), secret, "v", life, now); return err },
			"insert session client * db.operation.name=insert slidingttl.answer=conflict"},
		{"get", func() error { _, err := d.Get(t.Context(), secret); return err },
			"get session client * db.operation.name=get"},
		{"get of nothing", func() error { _, err := d.Get(t.Context(), "nobody"); return err },
			"get session client * db.operation.name=get slidingttl.answer=not_found"},
		{"touch", func() error { _, err := d.Touch(t.Context(), secret, was, life, now); return err },
			"touch session client * db.operation.name=touch"},
		{"touch that fails", func() error {
			inner.touch = errors.New("disk on fire")
			_, err := d.Touch(t.Context(), secret, was, life, now)
			return err
		}, "touch session client Error(disk on fire) * db.operation.name=touch error.type=_OTHER"},
		{"touch that is late", func() error {
			inner.touch = fmt.Errorf("%w: %w", driver.ErrAmbiguous, context.DeadlineExceeded)
			_, err := d.Touch(t.Context(), secret, was, life, now)
			return err
		}, "touch session client Error(the write may have landed: context deadline exceeded) * db.operation.name=touch error.type=timeout"},
		{"replace", func() error { _, err := d.Replace(t.Context(), secret, "w", was, life, now); return err },
			"replace session client * db.operation.name=replace"},
		{"delete", func() error { return d.Delete(t.Context(), secret) },
			"delete session client * db.operation.name=delete"},
	} {
		before := len(c.spans.Ended())
		inner.touch = nil
		if err := call.run(); inner.touch != nil && err != inner.touch {
			t.Errorf("%s: %v; want the driver's own error", call.name, err)
		}
		ended := c.spans.Ended()[before:]
		const base = "db.system.name=redis server.address=redis.local db.namespace=0 db.collection.name=session server.port=6379"
		if want := strings.Replace(call.want, "*", base, 1); len(ended) != 1 || about(ended[0]) != want {
			t.Errorf("%s: %d spans, the first %s\nwant %s", call.name, len(ended), about(ended[0]), want)
		}
	}
}

// Spans are named for the narrowest place there is.
func TestSpanNames(t *testing.T) {
	c := collect(t)
	for want, db := range map[string]slidingotel.Database{
		"get":            {System: "memory"},
		"get host":       {System: "redis", Address: "host", Port: 1},
		"get namespace":  {System: "redis", Address: "host", Namespace: "namespace"},
		"get collection": {System: "redis", Address: "host", Namespace: "namespace", Collection: "collection"},
	} {
		d, _ := wrapped(t, c, db)
		_, _ = d.Get(t.Context(), secret)
		ended := c.spans.Ended()
		if got := ended[len(ended)-1].Name(); got != want {
			t.Errorf("%+v: span %q, want %q", db, got, want)
		}
	}
}

// The durations carry what the conventions ask for, and nothing of which there are many.
func TestCallDurations(t *testing.T) {
	c := collect(t)
	d, inner := wrapped(t, c, database)
	_, _ = d.Get(t.Context(), secret)
	inner.touch = context.DeadlineExceeded
	_, _ = d.Touch(t.Context(), secret, driver.Meta{}, driver.Life{}, 1)
	m := c.metrics()["db.client.operation.duration"]
	h, is := m.Data.(metricdata.Histogram[float64])
	if !is || m.Unit != "s" {
		t.Fatalf("db.client.operation.duration is a %T in %q", m.Data, m.Unit)
	}
	var got []string
	for _, p := range h.DataPoints {
		var labels []string
		for _, a := range p.Attributes.ToSlice() {
			labels = append(labels, string(a.Key)+"="+a.Value.String())
		}
		got = append(got, fmt.Sprint(p.Count, " ", strings.Join(labels, " ")))
		if !slices.Equal(p.Bounds, []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10}) {
			t.Errorf("buckets %v", p.Bounds)
		}
	}
	slices.Sort(got)
	const base = "db.system.name=redis"
	want := []string{
		"1 db.collection.name=session db.namespace=0 db.operation.name=get " + base + " server.address=redis.local server.port=6379",
		"1 db.collection.name=session db.namespace=0 db.operation.name=touch " + base + " error.type=timeout server.address=redis.local server.port=6379",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// batch is a driver of one trip for many keys.
type batch struct{ driver.Driver[string] }

func (b batch) GetMulti(context.Context, []string) (map[string]driver.Entry[string], error) {
	return nil, nil
}

// A batch is one of two or more.
func TestBatch(t *testing.T) {
	c := collect(t)
	d, err := slidingotel.Wrap(c.tel, driver.Driver[string](batch{}), database)
	ok(t, err)
	for _, keys := range [][]string{{"a"}, {"a", "b", "c"}} {
		_, err := driver.GetMulti(t.Context(), d, keys)
		ok(t, err)
	}
	var got []string
	for _, s := range c.spans.Ended() {
		size := "-"
		for _, a := range s.Attributes() {
			if a.Key == "db.operation.batch.size" {
				size = a.Value.String()
			}
		}
		got = append(got, s.Name()+" "+size)
	}
	if want := []string{"get session -", "BATCH get session 3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A touch belongs to the trace of the read that found it due.
func TestTouchBelongsToItsRead(t *testing.T) {
	c := collect(t)
	d, _ := wrapped(t, c, database)
	now := startClock()
	s := store(t, d, &slidingttl.Options[string]{Now: now.time})
	ok(t, s.Insert(t.Context(), secret, "v"))
	now.pass(10 * time.Minute)
	ctx, request := c.tracer.Tracer("test").Start(t.Context(), "request")
	_, err := s.Get(ctx, secret)
	ok(t, err)
	request.End()
	found := make(map[string]trace.SpanID)
	for _, span := range c.spans.Ended() {
		if span.SpanContext().TraceID() == request.SpanContext().TraceID() {
			found[span.Name()] = span.Parent().SpanID()
		}
	}
	id := request.SpanContext().SpanID()
	if want := map[string]trace.SpanID{"request": {}, "get session": id, "touch session": id}; !maps.Equal(found, want) {
		t.Errorf("spans and their parents: %v, want %v", found, want)
	}
}

// No key is in a span or a metric, whatever happens to it.
func TestNoKeys(t *testing.T) {
	c := collect(t)
	d, inner := wrapped(t, c, database)
	now := startClock()
	observer, err := c.tel.Observer("sessions")
	ok(t, err)
	s := store(t, d, &slidingttl.Options[string]{Now: now.time, Observer: observer})
	ok(t, c.tel.Add("sessions", s))
	ctx := t.Context()
	_, _ = s.Get(ctx, secret)
	ok(t, s.Upsert(ctx, secret, "v"))
	_ = s.Insert(ctx, secret, "v")
	now.pass(10 * time.Minute)
	inner.touch = errors.New("disk on fire")
	_, _ = s.Get(ctx, secret)
	inner.touch = nil
	_, _ = s.GetMulti(ctx, []string{secret, secret + "2"})
	_, _ = s.Update(ctx, secret, func(v string) (string, error) { return v + "w", nil })
	ok(t, s.Delete(ctx, secret))
	for _, span := range c.spans.Ended() {
		if strings.Contains(fmt.Sprintf("%s %+v", about(span), span.Events()), secret) {
			t.Errorf("a span holds the key: %s", about(span))
		}
	}
	if n := len(c.spans.Ended()); n < 8 {
		t.Errorf("%d spans: too few to prove anything", n)
	}
	if strings.Contains(fmt.Sprintf("%+v", c.metrics()), secret) {
		t.Error("a metric holds the key")
	}
}

func TestWrapRejectsBadInput(t *testing.T) {
	c := collect(t)
	d := driver.Driver[string](remote[string]{})
	for field, wrap := range map[string]func() error{
		"Database.System": func() error { _, err := slidingotel.Wrap(c.tel, d, slidingotel.Database{}); return err },
		"driver":          func() error { _, err := slidingotel.Wrap[string](c.tel, nil, database); return err },
		"telemetry":       func() error { _, err := slidingotel.Wrap(nil, d, database); return err },
	} {
		var invalid *slidingttl.InvalidError
		if err := wrap(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%v, want an InvalidError of %s", err, field)
		}
	}
}
