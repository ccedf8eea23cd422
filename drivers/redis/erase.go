package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Whole implements driver.Eraser. It shows keys of other types.
func (d *Driver[T]) Whole(what driver.Erasure) driver.Scanner { return unfiltered[T]{d, what} }

type unfiltered[T any] struct {
	*Driver[T]
	what driver.Erasure
}

func (u unfiltered[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return u.scan(ctx, from, limit, &u.what)
}

// EraseEnded implements driver.Eraser. Redis keeps no lives beside its records.
func (d *Driver[T]) EraseEnded(context.Context, driver.Erasure, bool) (ended, later int64, err error) {
	return 0, 0, nil
}

// Scrub implements driver.Eraser: each node that has an RDB file saves it again, by BGSAVE. A node without
// save points has one if it saved or loaded it since it started. Else it may have an older one.
func (d *Driver[T]) Scrub(ctx context.Context, _ driver.Erasure) (left []string, err error) {
	nodes, err := d.client.Nodes(ctx)
	if err != nil {
		return nil, kit.Ended(ctx, err)
	} else if nodes == nil {
		nodes = map[string]Client{"the server": d.client}
	}
	for address, node := range nodes {
		if err := snapshot(ctx, node); errors.Is(err, errNoSnapshot) {
			left = append(left, fmt.Sprintf("an RDB file of %s, if it has one: %v", address, err))
		} else if err != nil {
			left = append(left, fmt.Sprintf("the RDB file of %s, until its next save: %v", address, err))
		}
	}
	slices.Sort(left)
	return left, nil
}

var errNoSnapshot = errors.New("it has no save points, and INFO tells of none that was saved or loaded since it started")

func snapshot(ctx context.Context, node Client) error {
	ask := func(words ...string) Answer { return node.Do(ctx, Command{Words: words, NoKey: true}) }
	save := ask("CONFIG", "GET", "save")
	mayLack := len(save.Array) == 2 && len(save.Array[1].String) == 0
	for asked := false; ; {
		info := ask("INFO", "persistence")
		is := parseInfo(string(info.String))
		switch {
		case info.Kind != String:
			return failed(ctx, info)
		case is["rdb_bgsave_in_progress"] == "1": // maybe one that began before the records went
		case asked && is["rdb_last_bgsave_status"] == "ok":
			return nil
		case asked:
			return errors.New("BGSAVE failed")
		case mayLack && cmp.Or(is["rdb_saves"], "0") == "0" && cmp.Or(is["rdb_last_load_keys_loaded"], "0") == "0":
			return errNoSnapshot
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
