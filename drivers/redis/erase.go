package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
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
// save points has one if it saved or loaded it since it started. Else it may have an older one. Of a cluster it also
// tells of keys that a node holds and another serves.
func (d *Driver[T]) Scrub(ctx context.Context, what driver.Erasure) (left []string, err error) {
	nodes, err := d.client.Nodes(ctx)
	if err != nil {
		return nil, kit.Ended(ctx, err)
	} else if nodes == nil {
		nodes = map[string]wire.Client{"the server": d.client}
	}
	for address, node := range nodes {
		if err := snapshot(ctx, node); errors.Is(err, errNoSnapshot) {
			left = append(left, fmt.Sprintf("an RDB file of %s, if it has one: %v", address, err))
		} else if err != nil {
			left = append(left, fmt.Sprintf("the RDB file of %s, until its next save: %v", address, err))
		}
	}
	serving, err := d.nodes(ctx)
	if err != nil {
		return left, err
	}
	for _, n := range serving {
		if n.part == whole {
			continue
		}
		if held, err := d.stranded(ctx, n, what); err != nil {
			left = append(left, fmt.Sprintf("at the node of slots %s, keys in slots that another serves, if there are: %v", n.part, err))
		} else if held > 0 {
			left = append(left, fmt.Sprintf("at the node of slots %s, keys in slots that another serves (%d): end its resharding (redis-cli --cluster fix), and erase again", n.part, held))
		}
	}
	slices.Sort(left)
	return left, nil
}

const clusterSlots = 16384

// stranded returns how many keys of what a node holds in slots that others serve, as a resharding leaves them that was
// given up: no call by key finds them.
func (d *Driver[T]) stranded(ctx context.Context, n node, what driver.Erasure) (held int, err error) {
	ask := func(word string, slots []int64, more ...string) ([]wire.Answer, error) {
		cs := make([]wire.Command, len(slots))
		for i, slot := range slots {
			cs[i] = wire.Command{Words: append([]string{"CLUSTER", word, strconv.FormatInt(slot, 10)}, more...), NoKey: true}
		}
		answers := n.client.DoMulti(ctx, cs)
		for _, a := range answers {
			if a.Err != nil {
				return nil, failed(ctx, a)
			}
		}
		return answers, nil
	}
	var others []int64
	for slot := range int64(clusterSlots) {
		if !slices.ContainsFunc(n.slots, func(s [2]int64) bool { return s[0] <= slot && slot <= s[1] }) {
			others = append(others, slot)
		}
	}
	for slots := range slices.Chunk(others, batchSize) {
		counts, err := ask("COUNTKEYSINSLOT", slots)
		if err != nil {
			return 0, err
		}
		for i, count := range counts {
			if count.Integer == 0 {
				continue
			}
			keys, err := ask("GETKEYSINSLOT", slots[i:i+1], strconv.FormatInt(count.Integer, 10))
			if err != nil {
				return 0, err
			}
			for _, key := range keys[0].Array {
				if name, ours := strings.CutPrefix(string(key.String), d.opts.Prefix); ours && what.Has(name) {
					held++
				}
			}
		}
	}
	return held, nil
}

var errNoSnapshot = errors.New("it has no save points, and INFO tells of none that was saved or loaded since it started")

func snapshot(ctx context.Context, node wire.Client) error {
	ask := func(words ...string) wire.Answer { return node.Do(ctx, wire.Command{Words: words, NoKey: true}) }
	save := ask("CONFIG", "GET", "save")
	mayLack := len(save.Array) == 2 && len(save.Array[1].String) == 0
	for asked := false; ; {
		info := ask("INFO", "persistence")
		is := parseInfo(string(info.String))
		switch {
		case info.Kind != wire.String:
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
