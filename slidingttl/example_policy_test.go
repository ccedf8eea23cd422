package slidingttl_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// A policy can be parsed from a line of text, for flags and environment variables, and from JSON,
// for files. It prints and logs as the line.
func ExampleParsePolicy() {
	p, err := slidingttl.ParsePolicy("idle 30d, max 90d, slack 72h")
	if err != nil {
		panic(err)
	}
	fmt.Println(p)

	j, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(j))

	undated := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	slog.New(slog.NewTextHandler(os.Stdout, undated)).Info("starting", "policy", p)

	_, err = slidingttl.ParsePolicy("idle 30d, max 90d, slack 300d")
	fmt.Println(err)
	// Output:
	// idle 30d, max 90d, slack 3d
	// {"idle_grace":"30d","max_lifetime":"90d","slack":"3d"}
	// level=INFO msg=starting policy="idle 30d, max 90d, slack 3d"
	// Policy.Slack is 300d: must be at most Policy.IdleGrace, 30d
}
