package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// EraseEnded implements driver.Eraser. Redis keeps no lives for an archive.
func (d *Driver[T]) EraseEnded(context.Context, func(string) bool, bool) (int64, error) {
	return 0, nil
}

// Scrub implements driver.Eraser: each node that keeps an RDB file saves it again, by BGSAVE.
func (d *Driver[T]) Scrub(ctx context.Context, _ []string) (left []string) {
	nodes, err := d.client.Nodes(ctx)
	if err != nil {
		return []string{fmt.Sprintf("the RDB files, until their next save: %v", driver.Ended(ctx, err))}
	} else if nodes == nil {
		nodes = map[string]Client{"the server": d.client}
	}
	for address, node := range nodes {
		if err := snapshot(ctx, node); err != nil {
			left = append(left, fmt.Sprintf("the RDB file of %s, until its next save: %v", address, err))
		}
	}
	return left
}

func snapshot(ctx context.Context, node Client) error {
	ask := func(words ...string) Answer { return node.Do(ctx, Command{Words: words, NoKey: true}) }
	if save := ask("CONFIG", "GET", "save"); len(save.Array) == 2 && len(save.Array[1].String) == 0 {
		return nil
	}
	for asked := false; ; {
		info := ask("INFO", "persistence")
		switch {
		case info.Kind != String:
			return failed(ctx, info)
		case bytes.Contains(info.String, []byte("rdb_bgsave_in_progress:1")): // maybe one that began before the records went
		case asked && bytes.Contains(info.String, []byte("rdb_last_bgsave_status:ok")):
			return nil
		case asked:
			return errors.New("BGSAVE failed")
		default:
			save := ask("BGSAVE")
			if asked = save.Err == nil; save.Err != nil && !strings.Contains(save.Err.Error(), "in progress") {
				return failed(ctx, save)
			}
		}
		if err := driver.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
