// Run is the quickstart on the store that its flags choose. The command in the directory
// above compiles and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/quickstart/show"
)

func main() {
	log.SetFlags(0)
	var choice backend.Choice
	choice.Flags()
	flag.Parse()
	if err := run(context.Background(), choice); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, choice backend.Choice) (err error) {
	b, err := backend.Open[show.Note](ctx, choice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	fmt.Printf("Records are kept in %s.\n\n", b.About)
	return show.All(ctx, b.Driver)
}
