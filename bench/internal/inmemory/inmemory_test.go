package inmemory

import (
	"testing"
	"time"
)

// TestContestantsReturnTheValue reads every key of every contestant twice: the second
// read finds what the first one's slide has left.
func TestContestantsReturnTheValue(t *testing.T) {
	const n = 500
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			st, err := f.open(idleTimeout)
			if err != nil {
				t.Fatal(err)
			}
			defer st.close()
			if _, err := insert(st, keysOf(n)); err != nil {
				t.Fatal(err)
			}
			for i := range 2 * n {
				if v, ok := st.hit(keyOf(i % n)); !ok || v != valueOf(i%n) {
					t.Fatalf("key %d: %q, %v", i%n, v, ok)
				}
			}
			if _, ok := st.hit("absent"); ok {
				t.Error("found what was never put")
			}
			reads := newStream("zipf", n)
			if hits, _, err := run(st, reads, 2, time.Millisecond); err != nil || hits == 0 {
				t.Errorf("%d hits, %v", hits, err)
			}
		})
	}
}

func TestMortals(t *testing.T) {
	for _, name := range mortals {
		t.Run(name, func(t *testing.T) {
			for _, f := range all {
				if f.name != name {
					continue
				}
				st, err := f.open(idleTimeout)
				if err != nil {
					t.Fatal(err)
				}
				defer st.close()
				m, ok := st.(mortal)
				if !ok {
					t.Fatal("cannot be given dying records")
				}
				if err := m.putUntil("a", valueOf(1), time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				if got := m.held(); got != 1 {
					t.Errorf("holds %d records, want 1", got)
				}
				return
			}
			t.Error("no such contestant")
		})
	}
}

func TestStreams(t *testing.T) {
	const n = 1000
	for workload, most := range map[string]int{"uniform": 2 * streamLen / n, "zipf": streamLen / 2} {
		seen := make(map[string]int)
		s := newStream(workload, n)
		for i := range streamLen {
			seen[s.key(i)]++
		}
		if len(seen) != n {
			t.Errorf("%s reads %d keys, want %d", workload, len(seen), n)
		}
		if got := seen[keyOf(0)]; got > most {
			t.Errorf("%s reads the first key %d times, want at most %d", workload, got, most)
		}
		if s.key(streamLen) != s.key(0) {
			t.Errorf("%s does not begin anew", workload)
		}
	}
}
