// Stores shows the quickstart on any store.
//
//	go run ./examples/stores -driver redis
//
// This program says what will be downloaded. Then it runs the one in run/, which needs
// that, by the go command.
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
