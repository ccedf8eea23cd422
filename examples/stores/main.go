// Stores shows on any store what the quickstart shows in memory.
//
//	go run ./examples/stores -driver redis
//
// This program only says what is about to be downloaded, and then has go compile and run the
// one that needs it.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
)

func main() {
	log.SetFlags(0)
	fmt.Println("The clients and test servers of all stores: the first run downloads some 70 modules (75 MB), and compiles them for a minute or two.")
	cmd := exec.Command("go", append([]string{"run", "github.com/slidingttl/slidingttl/examples/stores/run"}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		log.Fatal(err)
	}
}
