package main

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

//go:embed policies.json
var example []byte

// policies are those of a file that is followed.
type policies struct {
	path      string
	file      *policyfile.File
	made      string // the directory of a file that was made
	cancel    context.CancelFunc
	following sync.WaitGroup
}

// openPolicies reads the file at path, or a new one with policies.json's content.
func openPolicies(path string) (*policies, error) {
	p := &policies{path: path, cancel: func() {}}
	var err error
	if path == "" {
		if p.made, err = os.MkdirTemp("", "slidingttl-"); err != nil {
			return nil, err
		}
		p.path = filepath.Join(p.made, "policies.json")
		if err = os.WriteFile(p.path, example, 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.made))
		}
	}
	if p.file, err = policyfile.Open(p.path, storeName); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *policies) first() slidingttl.Policy {
	first, _ := p.file.Policy(storeName) // Open has seen to it that there is one
	return first
}

// follow gives the store every policy that the file comes to have.
func (p *policies) follow(store *slidingttl.Store[profile], every time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	apply := map[string]func(slidingttl.Policy) error{storeName: func(next slidingttl.Policy) error {
		if was := store.Policy(); was != next {
			log.Info("policy changes", "from", was, "to", next)
		}
		return store.SetPolicy(next)
	}}
	p.following.Go(func() {
		_ = p.file.Follow(ctx, apply, &policyfile.Options{ // it ends with ctx
			Interval: every,
			OnError:  func(err error) { log.Error("the file of policies does not count as it is", "error", err) },
		})
	})
}

func (p *policies) stop() {
	p.cancel()
	p.following.Wait()
	if p.made != "" {
		_ = os.RemoveAll(p.made)
	}
}
