package show_test

import (
	"context"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/examples/quickstart/show"
)

func ExampleVirtualTime() {
	d, err := memory.New[show.Note](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	if err := show.VirtualTime(context.Background(), d); err != nil {
		panic(err)
	}
	// Output:
	// The same with 30 days of grace, 90 days of life and 3 days of slack, on virtual time:
	//
	//   nobody's     never read                   gone on day 33
	//   ann's        read on day 20, then never   gone on day 53
	//   bob's        read once a week             gone on day 90
	//   everybody's  read ten times a day         gone on day 90
	//
	// 903 reads of live records, 25 touches written.
}
