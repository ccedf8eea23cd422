package hostile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Each record is of a kind of its own, has a key of its own under the prefix, and stays.
func TestRecords(t *testing.T) {
	names, keys := make(map[string]bool), make(map[string]bool)
	for _, r := range Records(now, "p-", Limits{Key: 100, Value: 5000}) {
		if names[r.Name] || keys[r.Key] || r.Key == Neighbour("p-") {
			t.Errorf("%s comes twice, or its key does", r.Name)
		}
		names[r.Name], keys[r.Key] = true, true
		if own := strings.HasPrefix(r.Key, "p-"); own == (r.Name == "key/empty") {
			t.Errorf("%s has the key %q", r.Name, r.Key)
		}
		if !r.ExpiresAt.After(now) {
			t.Errorf("%s expires %v", r.Name, r.ExpiresAt)
		}
		if r.Name == "key/too-long" && len(r.Key) != 101 {
			t.Errorf("%s has %d bytes", r.Name, len(r.Key))
		}
	}
	if !names["key/too-long"] || !names["value/longest"] {
		t.Errorf("limits have no records")
	}
}

// What a store cannot hold is left out. Any other error is the loader's.
func TestLoadAll(t *testing.T) {
	records := Records(now, "p-", Limits{})
	loaded, err := LoadAll(t.Context(), func(_ context.Context, r Record) error {
		if strings.HasPrefix(r.Name, "created/") {
			return nil
		}
		return errors.ErrUnsupported
	}, records)
	if err != nil || len(loaded) == 0 || len(loaded) == len(records) {
		t.Errorf("%d of %d are loaded, and the error is %v", len(loaded), len(records), err)
	}
	broken := errors.New("no connection")
	if _, err := LoadAll(t.Context(), func(context.Context, Record) error { return broken }, records); !errors.Is(err, broken) {
		t.Errorf("the error is %v; want %v", err, broken)
	}
}
