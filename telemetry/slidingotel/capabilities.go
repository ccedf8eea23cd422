package slidingotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.34.0"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// capabilities are the optional ones that a wrapped driver has, each by way of the
// wrapper; nil are those that it has not.
type capabilities[T any] struct {
	upserter    driver.Upserter[T]
	overwriter  driver.Overwriter[T]
	batchGetter driver.BatchGetter[T]
	readToucher driver.ReadToucher[T]
	latest      driver.Latest[T]
	remover     driver.Remover[T]
	local       driver.Local[T]
	clock       driver.Clock
	checker     driver.Checker
	scanner     driver.Scanner
	rawReader   driver.RawReader
	mender      driver.Mender
}

func capabilitiesOf[T any](d *Driver[T]) (c capabilities[T]) {
	if inner, ok := driver.As[driver.Upserter[T]](d.inner); ok {
		c.upserter = upserter[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Overwriter[T]](d.inner); ok {
		c.overwriter = overwriter[T]{d, inner}
	}
	if inner, ok := driver.As[driver.BatchGetter[T]](d.inner); ok {
		c.batchGetter = batchGetter[T]{d, inner}
	}
	if inner, ok := driver.As[driver.ReadToucher[T]](d.inner); ok {
		c.readToucher = readToucher[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Latest[T]](d.inner); ok {
		c.latest = latest[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Remover[T]](d.inner); ok {
		c.remover = remover[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Local[T]](d.inner); ok {
		c.local = local[T]{d, inner}
	}
	c.clock, _ = driver.As[driver.Clock](d.inner) // which is not measured
	if inner, ok := driver.As[driver.Checker](d.inner); ok {
		c.checker = checker[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Scanner](d.inner); ok {
		c.scanner = scanner[T]{d, inner}
	}
	if inner, ok := driver.As[driver.RawReader](d.inner); ok {
		c.rawReader = rawReader[T]{d, inner}
	}
	if inner, ok := driver.As[driver.Mender](d.inner); ok {
		c.mender = mender[T]{d, inner}
	}
	return c
}

// As implements driver.Wrapper.
func (c *capabilities[T]) As(target any) bool {
	switch to := target.(type) {
	case *driver.Upserter[T]:
		return give(to, c.upserter)
	case *driver.Overwriter[T]:
		return give(to, c.overwriter)
	case *driver.BatchGetter[T]:
		return give(to, c.batchGetter)
	case *driver.ReadToucher[T]:
		return give(to, c.readToucher)
	case *driver.Latest[T]:
		return give(to, c.latest)
	case *driver.Remover[T]:
		return give(to, c.remover)
	case *driver.Local[T]:
		return give(to, c.local)
	case *driver.Clock:
		return give(to, c.clock)
	case *driver.Checker:
		return give(to, c.checker)
	case *driver.Scanner:
		return give(to, c.scanner)
	case *driver.RawReader:
		return give(to, c.rawReader)
	case *driver.Mender:
		return give(to, c.mender)
	}
	return false
}

// give reports whether there is something to give.
func give[C any](to *C, c C) bool {
	*to = c
	return any(c) != nil
}

// A type for each capability, for a method set cannot change at run time.
type (
	upserter[T any] struct {
		*Driver[T]
		inner driver.Upserter[T]
	}
	overwriter[T any] struct {
		*Driver[T]
		inner driver.Overwriter[T]
	}
	batchGetter[T any] struct {
		*Driver[T]
		inner driver.BatchGetter[T]
	}
	readToucher[T any] struct {
		*Driver[T]
		inner driver.ReadToucher[T]
	}
	latest[T any] struct {
		*Driver[T]
		inner driver.Latest[T]
	}
	remover[T any] struct {
		*Driver[T]
		inner driver.Remover[T]
	}
	local[T any] struct {
		*Driver[T]
		inner driver.Local[T]
	}
	checker[T any] struct {
		*Driver[T]
		inner driver.Checker
	}
	scanner[T any] struct {
		*Driver[T]
		inner driver.Scanner
	}
	rawReader[T any] struct {
		*Driver[T]
		inner driver.RawReader
	}
	mender[T any] struct {
		*Driver[T]
		inner driver.Mender
	}
)

func (u upserter[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (_ driver.Meta, err error) {
	c := u.calls.begin(ctx, "upsert")
	defer c.end(&err)
	return u.inner.Upsert(c.ctx, key, v, known, plan, now)
}

func (o overwriter[T]) Overwrite(ctx context.Context, key string, v T, fresh driver.Life, a driver.Access, now driver.Instant) (_ driver.Meta, err error) {
	c := o.calls.begin(ctx, "overwrite")
	defer c.end(&err)
	return o.inner.Overwrite(c.ctx, key, v, fresh, a, now)
}

func (b batchGetter[T]) GetMulti(ctx context.Context, keys []string) (_ map[string]driver.Entry[T], err error) {
	op, size := "get", []attribute.KeyValue(nil)
	if len(keys) > 1 { // fewer are no batch
		op, size = "BATCH get", []attribute.KeyValue{semconv.DBOperationBatchSize(len(keys))}
	}
	c := b.calls.begin(ctx, op, size...)
	defer c.end(&err)
	return b.inner.GetMulti(c.ctx, keys)
}

func (r readToucher[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (_ driver.Entry[T], _ bool, err error) {
	c := r.calls.begin(ctx, "read_touch")
	defer c.end(&err)
	return r.inner.ReadTouch(c.ctx, key, known, a, now)
}

func (l latest[T]) Latest(ctx context.Context, key string) (_ driver.Entry[T], err error) {
	c := l.calls.begin(ctx, "latest")
	defer c.end(&err)
	return l.inner.Latest(c.ctx, key)
}

func (r remover[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) (err error) {
	c := r.calls.begin(ctx, "remove")
	defer c.end(&err)
	return r.inner.Remove(c.ctx, key, was, now)
}

func (l local[T]) Load(key string) (*T, driver.Meta, error) { return l.inner.Load(key) }

func (k checker[T]) Check(ctx context.Context, longest time.Duration) (err error) {
	c := k.calls.begin(ctx, "check")
	defer c.end(&err)
	return k.inner.Check(c.ctx, longest)
}

func (s scanner[T]) Segments(ctx context.Context, n int) (_ []driver.Cursor, err error) {
	c := s.calls.begin(ctx, "segments")
	defer c.end(&err)
	return s.inner.Segments(c.ctx, n)
}

func (s scanner[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (_ driver.Page, err error) {
	c := s.calls.begin(ctx, "scan")
	defer c.end(&err)
	return s.inner.Scan(c.ctx, from, limit)
}

func (r rawReader[T]) Raw(ctx context.Context, key string) (_ driver.Raw, err error) {
	c := r.calls.begin(ctx, "raw")
	defer c.end(&err)
	return r.inner.Raw(c.ctx, key)
}

func (m mender[T]) Mend(ctx context.Context, key string, apply bool) (_ string, err error) {
	c := m.calls.begin(ctx, "mend")
	defer c.end(&err)
	return m.inner.Mend(c.ctx, key, apply)
}
