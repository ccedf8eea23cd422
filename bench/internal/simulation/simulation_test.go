package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// TestSimulation lives through some minutes and holds what comes out against what can
// be known beforehand.
func TestSimulation(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			var got runner.Sample
			synctest.Test(t, func(t *testing.T) {
				var err error
				got, err = simulate(s, task{Rate: 200, Nodes: 4, WarmUp: time.Minute, Length: 5 * time.Minute})
				if err != nil {
					t.Fatal(err)
				}
			})
			if reads := got["reads"]; reads < 55_000 || reads > 65_000 {
				t.Errorf("%v reads, want about 60,000", reads)
			}
			early, late, writes := got["early-s"], got["late-s"], got["writes-per-read"]
			if most := got["slack-s"] + resolution.Seconds(); late > most {
				t.Errorf("late by %v s, want at most %v", late, most)
			}
			if s.name == localName {
				if early < 100 {
					t.Errorf("throttling is early by %v s, want more than 100", early)
				}
				return
			}
			if early > 0 {
				t.Errorf("early by %v s", early)
			}
			if s.name == naiveName && writes < 0.9 || s.name == own10 && writes > 0.25 {
				t.Errorf("%v writes per read", writes)
			}
		})
	}
}
