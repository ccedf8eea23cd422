package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// shard returns the checkpoint file of shard i of n, counted from 1.
func (p *paceFlags) shard(i, n int) string { return fmt.Sprintf("%s.%dof%d", p.checkpoint, i, n) }

// openShards reads the checkpoints of all shards.
func (p *paceFlags) openShards() error {
	var n, found int
	dir, name := filepath.Split(p.checkpoint)
	files, err := os.ReadDir(filepath.Clean(dir))
	for _, f := range files {
		if rest, ok := strings.CutPrefix(f.Name(), name+".1of"); ok {
			if of, err := strconv.Atoi(rest); err == nil { // and no lock
				n = of
				found++
			}
		}
	}
	if err != nil || found != 1 || n == 0 {
		return fmt.Errorf("%w: --merge needs the files that --shards has written by the name of %s", errUsage, p.checkpoint)
	}
	var states []string // each with the time that its run took
	for i := range n {
		c, err := readCheckpoint(p.shard(i+1, n))
		switch {
		case err != nil:
			return err
		case i > 0 && !c.Of.same(p.was):
			return fmt.Errorf("%w: %s is of the store %q: must be of %q, as the first", errUsage, p.shard(i+1, n), c.Of, p.was)
		case slices.ContainsFunc(states, func(s string) bool { return s == string(c.State) }):
			return fmt.Errorf("%w: %s is a copy of another shard", errUsage, p.shard(i+1, n))
		case !c.Done():
			return fmt.Errorf("%w: the run of %s is not done: go on with it by --resume", errUsage, p.shard(i+1, n))
		case i == 0:
			p.Resume, p.was = &c.Checkpoint, c.Of
		default:
			p.Beside = append(p.Beside, c.Checkpoint)
		}
		states = append(states, string(c.State))
	}
	return nil
}
