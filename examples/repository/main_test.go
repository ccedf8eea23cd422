package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// before:
	//   a profile read every ten days is there after 120 days
	//   one that nobody read is there too
	// after:
	//   a profile read every ten days is gone on day 90: slidingttl: get: not found: no such profile
	//   one that nobody read is gone too: no such profile
}

// On every store the profiles die alike; whether the store has removed them by then is
// its own affair.
func TestRun(t *testing.T) {
	const removed, kept = "no such profile", "slidingttl: get: not found: no such profile"
	for name, idle := range map[string]string{
		"couchbase": removed, "cosmos": removed, "redis": kept, "postgres": kept, "sqlite": kept,
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), name, &out); err != nil {
				t.Fatal(err)
			}
			want := `before:
  a profile read every ten days is there after 120 days
  one that nobody read is there too
after:
  a profile read every ten days is gone on day 90: ` + kept + `
  one that nobody read is gone too: ` + idle + "\n"
			if out.String() != want {
				t.Errorf("it says\n%s\nwant\n%s", &out, want)
			}
		})
	}
	if err := run(t.Context(), "tape", nil); err == nil {
		t.Error("it runs on an unknown driver")
	}
}
