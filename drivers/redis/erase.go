package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// EraseEnded implements driver.Eraser. Redis keeps no lives for an archive.
func (d *Driver[T]) EraseEnded(context.Context, func(string) bool, bool) (int64, error) {
	return 0, nil
}

// Scrub implements driver.Eraser: each node that keeps an RDB file saves it again, by BGSAVE.
func (d *Driver[T]) Scrub(ctx context.Context, _ []string) (left []string) {
	for address, node := range d.client.Nodes() {
		if err := snapshot(ctx, node); err != nil {
			left = append(left, fmt.Sprintf("the RDB file of %s, until its next save: %v", address, err))
		}
	}
	return left
}

func snapshot(ctx context.Context, node rueidis.Client) error {
	if save, err := node.Do(ctx, node.B().ConfigGet().Parameter("save").Build()).AsStrMap(); err == nil && save["save"] == "" {
		return nil
	}
	for asked := false; ; {
		info, err := node.Do(ctx, node.B().Info().Section("persistence").Build()).ToString()
		switch {
		case err != nil:
			return err
		case strings.Contains(info, "rdb_bgsave_in_progress:1"): // maybe one that began before the records went
		case asked && strings.Contains(info, "rdb_last_bgsave_status:ok"):
			return nil
		case asked:
			return errors.New("BGSAVE failed")
		default:
			err := node.Do(ctx, node.B().Bgsave().Build()).Error()
			if asked = err == nil; err != nil && !strings.Contains(err.Error(), "in progress") {
				return err
			}
		}
		if err := driver.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
