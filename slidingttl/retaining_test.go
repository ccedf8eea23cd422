package slidingttl_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// The program of docs/retaining.md does what its comments say. Its lines stand here as they stand there.
func TestRetainingGuide(t *testing.T) {
	type Link struct{ URL string }
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		d, err := memory.New(&memory.Options[Link]{Retain: 30 * 24 * time.Hour})
		must(t, err)
		defer func() { must(t, d.Close()) }()
		links, err := slidingttl.New(d, policy, nil)
		must(t, err)
		must(t, links.Insert(ctx, "spring-sale", Link{"https://example.com"}))
		died := time.Now().Add(time.Hour)
		time.Sleep(2 * time.Hour)
		_, err = links.Get(ctx, "spring-sale") // ErrNotFound: it died
		wantErr(t, err, slidingttl.ErrNotFound)
		past, err := links.History(ctx, "spring-sale")
		must(t, err)
		if past.Value.URL != "https://example.com" || !past.DiedAt.Time().Equal(died) || past.Cause != slidingttl.ReadDiedIdle {
			t.Errorf("past is %+v", past)
		}
		time.Sleep(30 * 24 * time.Hour)
		_, err = links.History(ctx, "spring-sale")
		wantErr(t, err, slidingttl.ErrNotFound)
		must(t, errors.Join(links.Insert(ctx, "spring-sale", Link{}), links.Close(ctx)))
	})
	here, err := os.ReadFile("retaining_test.go")
	must(t, err)
	guide, err := os.ReadFile("../docs/retaining.md")
	must(t, err)
	_, program, _ := strings.Cut(string(guide), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line != "..." && !strings.HasPrefix(line, "//") && !strings.Contains(string(here), line) {
			t.Errorf("docs/retaining.md says %q, which this test does not do", line)
		}
	}
}
