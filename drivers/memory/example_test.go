package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// OnExpiry tells an idle session from one that has reached its longest lifetime.
func ExampleOptions_onExpiry() {
	const idle, most = 20 * time.Millisecond, 50 * time.Millisecond
	told := make(chan string)
	d, err := memory.New(&memory.Options[string]{
		MaxLifetime: most,
		OnExpiry: func(_ string, last driver.Entry[string], why memory.Reason) {
			told <- fmt.Sprintf("%s: %v", last.Value, why)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	// A slidingttl.Store decides on expiries; here they are written by hand.
	ctx, now := context.Background(), driver.Floor(d.Now())
	for name, ttl := range map[string]time.Duration{"left": idle, "in use to the end": most} {
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(ttl)}
		if _, err := d.Insert(ctx, "session of "+name, name, life, now); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(<-told)
	fmt.Println(<-told)
	// Unordered output:
	// left: idle
	// in use to the end: cap
}
