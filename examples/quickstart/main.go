// Quickstart shows a sliding expiry with two limits in a few seconds of real time. Then it
// shows the same with 30 and 90 days on virtual time.
//
//	go run ./examples/quickstart
//
// Its module requires only the root module, so that a first try compiles no store's client.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/examples/quickstart/show"
)

func main() {
	log.SetFlags(0)
	d, err := memory.New[show.Note](nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("Records are kept in this process's memory.\n\n")
	if err := show.All(context.Background(), d); err != nil {
		log.Fatal(err)
	}
	if err := d.Close(); err != nil {
		log.Fatal(err)
	}
}
