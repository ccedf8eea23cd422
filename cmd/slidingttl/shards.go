package main

import (
	"fmt"
	"path/filepath"
)

// shard returns the checkpoint file of shard i of n, counted from 1.
func (p *paceFlags) shard(i, n int) string { return fmt.Sprintf("%s.%dof%d", p.checkpoint, i, n) }

// openShards reads the checkpoints of all shards.
func (p *paceFlags) openShards() error {
	var n int
	first, err := filepath.Glob(p.checkpoint + ".1of*")
	if err == nil && len(first) == 1 {
		_, err = fmt.Sscanf(first[0][len(p.checkpoint):], ".1of%d", &n)
	}
	if err != nil || n == 0 {
		return fmt.Errorf("%w: --merge needs the files that --shards has written by the name of %s", errUsage, p.checkpoint)
	}
	for i := range n {
		c, err := readCheckpoint(p.shard(i+1, n))
		switch {
		case err != nil:
			return err
		case !c.Done():
			return fmt.Errorf("%w: the run of %s is not done: go on with it by --resume", errUsage, p.shard(i+1, n))
		case i == 0:
			p.Resume = c
		default:
			p.Beside = append(p.Beside, *c)
		}
	}
	return nil
}
