package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A panic of a client's middleware in one of several batches of a GetMulti is its error, and the others are read.
func TestBatchThatPanics(t *testing.T) {
	var asked atomic.Int64
	tbl := open[session](t, &Options{})
	keys := numberedKeys("k", 150)
	for _, key := range []string{keys[0], keys[149]} {
		tbl.mustInsert(t, key, session{User: "ann"}, lasting(time.Hour), base)
	}
	tbl.Driver.client = panicking{tbl.Driver.client, &asked}
	found, err := tbl.GetMulti(t.Context(), keys)
	if _, ok := errors.AsType[*driver.PanicError](err); !ok || len(found) != 1 {
		t.Errorf("%d found, %v; want one and the panic", len(found), err)
	}
}

// panicking panics in its first BatchGetItem.
type panicking struct {
	api
	asked *atomic.Int64
}

func (p panicking) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	if p.asked.Add(1) == 1 {
		panic("a middleware's")
	}
	return p.api.BatchGetItem(ctx, in, o...)
}

// A key on which a function of Options panics is one failed key of a GetMulti. In a call for that key alone
// the panic is the caller's, and nothing hangs afterwards.
func TestKeyThatPanics(t *testing.T) {
	of := func(key string) string {
		if key == "s3cret" {
			panic("no UUID: " + key)
		}
		return key
	}
	for name, opts := range map[string]*Options{"plain": {}, "life table": apartly()} {
		opts.PartitionKey.Of = of
		opts.KeyOf = func(partition, _ string) (string, bool) { return partition, true }
		tbl := open[session](t, opts)
		s, err := slidingttl.New(tbl.Driver, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range map[string]func(key string) error{
			"Get":    func(key string) error { _, err := s.Get(t.Context(), key); return err },
			"Upsert": func(key string) error { return s.Upsert(t.Context(), key, session{User: "ann"}) },
			"Touch":  func(key string) error { _, err := s.Touch(t.Context(), key); return err },
			"Delete": func(key string) error { return s.Delete(t.Context(), key) },
		} {
			func() {
				defer func() { _ = recover() }()
				if err := call("s3cret"); err == nil {
					t.Errorf("%s, %s of a key that panics: no error", name, what)
				}
			}()
		}
		if err := s.Upsert(t.Context(), "good", session{User: "ann"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		found, err := s.GetMulti(t.Context(), []string{"absent", "s3cret", "good"})
		var failed slidingttl.KeyErrors
		_ = errors.As(err, &failed)
		if len(found) != 1 || len(failed) != 1 || failed[0].Index != 1 || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: found %v, %v; want an error of key 1 alone", name, found, err)
		}
		if _, ok := errors.AsType[*driver.PanicError](err); !ok || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the panic is not told, or with its key: %s", name, fmt.Sprint(err))
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
}
