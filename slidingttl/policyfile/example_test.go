package policyfile_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

// A program starts with the policies that the file has, and takes over what is later
// written there. apply is SetPolicy, and a channel for this example to wait on.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "policies.json")
	write := func(content string) { // beside it first, so that nobody reads half of it
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			panic(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			panic(err)
		}
	}

	write(`{"web": {"idle_grace": "30m", "max_lifetime": "12h"}}`)
	f, err := policyfile.Open(path, "web")
	if err != nil {
		panic(err)
	}
	p, _ := f.Policy("web")
	fmt.Println("starts with", p)
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	web, err := slidingttl.New(d, p, nil)
	if err != nil {
		panic(err)
	}
	defer web.Close(context.Background())

	applied := make(chan slidingttl.Policy)
	apply := func(p slidingttl.Policy) error {
		err := web.SetPolicy(p)
		applied <- p
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- f.Follow(ctx, map[string]func(slidingttl.Policy) error{"web": apply}, &policyfile.Options{
			Interval: time.Millisecond, // 10 s unless it is set
			OnError:  func(err error) { log.Println(err) },
		})
	}()
	fmt.Println("follows from", <-applied)

	write(`{"web": {"idle_grace": "10m", "max_lifetime": "8h"}}`)
	fmt.Println("goes over to", <-applied)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// starts with idle 30m, max 12h
	// follows from idle 30m, max 12h
	// goes over to idle 10m, max 8h
	// context canceled
}

// A file counts whole or not at all.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tenants.json")
	for _, content := range []string{
		`{"default": {"idle_grace": "30d", "max_lifetime": "90d"}}`,
		`{"acme": {"idle_grace": "60d", "max_lifetime": "none"}}`,
		`{"default": {"idle_grace": "30d", "max_lifetime": "90d", "slack": "300d"}}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			panic(err)
		}
		f, err := policyfile.Open(path, "default")
		if err != nil {
			// The path, which is another each time, is left out.
			fmt.Println(err.Error()[len("policyfile: "+path+": "):])
			continue
		}
		p, ok := f.Policy("default")
		fmt.Println(p, ok)
	}
	// Output:
	// idle 30d, max 90d true
	// policy "default" is missing: must be there, for this program uses it
	// policy "default": Policy.Slack is 300d: must be at most Policy.IdleGrace, 30d
}
