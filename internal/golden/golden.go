// Package golden tests today's drivers on records that an earlier release wrote. Each driver has
// them in its testdata, as they were stored. README.md says how they were made.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is a store and today's driver over it.
type Store struct {
	Driver driver.Driver[Value]
	Now    func() time.Time                // the store's time. Nil: time.Now
	Plant  func(raw json.RawMessage) error // writes a record of testdata, over an existing one
}

// Run reads, touches and overwrites the records of each layout in testdata by today's drivers. It
// calls open with the layout's name, once for each record and retention.
func Run(t *testing.T, open func(t *testing.T, layout string, retain time.Duration) Store) {
	files, err := filepath.Glob(filepath.Join("testdata", Release, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records of %s in testdata: %v", Release, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var records map[string]json.RawMessage
		if err := json.Unmarshal(text, &records); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		layout := filepath.Base(file[:len(file)-len(".json")])
		for retention, retain := range map[string]time.Duration{"plain": 0, "retaining": Retain} {
			t.Run(layout+"/"+retention, func(t *testing.T) {
				s := open(t, layout, retain)
				if s.Now == nil {
					s.Now = time.Now
				}
				for _, r := range Records {
					if err := s.Plant(records[r.Name]); err != nil {
						t.Fatalf("planting %s of %s: %v", r.Name, file, err)
					}
				}
				s.scan(t)
				for _, r := range Records {
					t.Run(r.Name, func(t *testing.T) { (&trial{t, s, r, records[r.Name]}).run() })
				}
			})
		}
	}
}

// scan wants a scan to return each record as it was written.
func (s Store) scan(t *testing.T) {
	scanner, ok := driver.As[driver.Scanner](s.Driver)
	if !ok {
		t.Fatal("the driver is no driver.Scanner")
	}
	cursors, err := scanner.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]driver.Scanned)
	for _, next := range cursors {
		for next != "" {
			page, err := scanner.Scan(t.Context(), next, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				found[r.Key] = r
			}
			next = page.Next
		}
	}
	for _, r := range Records {
		switch got, ok := found[r.Name]; {
		case !ok:
			t.Errorf("%s is not in a scan", r.Name)
		case got.Life != r.life(s) || got.Fault != "" || got.Problem != nil:
			t.Errorf("%s has in a scan the life %s (%q, %v), want %s", r.Name, describe(got.Life), got.Fault, got.Problem, describe(r.life(s)))
		}
	}
}

// life returns the life of r in s.
func (r Record) life(s Store) driver.Life {
	return driver.Life{CreatedAt: Written, ExpiresAt: s.rounded(r.Expires)}
}

func (s Store) rounded(at driver.Instant) driver.Instant {
	step := driver.Instant(s.Driver.Resolution().Milliseconds())
	return (at + step - 1) / step * step
}
