package couchbase_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/internal/golden"
)

// TestGolden puts documents with the body, flags, expiry and extended attributes that they had,
// at the time when they were written: their CAS tells that.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden.Run(t, func(t *testing.T, layout string, retain time.Duration) golden.Store {
		opts, known := configurations[layout]
		if !known {
			t.Fatalf("no configuration is named %s", layout)
		}
		opts.Retain = retain
		f := open(t)
		f.SetTime(time.Now())
		return golden.Store{
			Driver: newDriver[golden.Value](t, f, &opts),
			Now:    f.Now,
			Plant: func(raw json.RawMessage) error {
				var stored struct {
					Key, Body      string
					Flags, Exptime uint32
					Xattrs         map[string]string
				}
				if err := json.Unmarshal(raw, &stored); err != nil {
					return err
				}
				now := f.Now()
				f.SetTime(golden.Written.Add(time.Second).Time())
				defer f.SetTime(now)
				err := plant(t.Context(), f.c, stored.Key, []byte(stored.Body), stored.Flags, stored.Exptime)
				var specs []gocb.MutateInSpec
				for name, text := range stored.Xattrs {
					specs = append(specs, gocb.UpsertSpec(name, json.RawMessage(text), &gocb.UpsertSpecOptions{IsXattr: true}))
				}
				if len(specs) > 0 {
					_, failed := f.c.MutateIn(stored.Key, specs, &gocb.MutateInOptions{PreserveExpiry: true})
					err = errors.Join(err, failed)
				}
				return err
			},
		}
	})
}
