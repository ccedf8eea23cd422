package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// node is a primary and the slots it serves.
type node struct {
	client rueidis.Client
	part   string // "0-5460,10923"; whole outside a cluster
}

const whole = "all"

// nodes returns the primaries. Outside a cluster there is one.
func (d *Driver[T]) nodes(ctx context.Context) ([]node, error) {
	if d.client.Mode() != rueidis.ClientModeCluster {
		return []node{{d.client, whole}}, nil
	}
	shards, err := d.client.Do(ctx, d.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, failed(ctx, err)
	}
	parts := make(map[string][][2]int64) // by address
	for _, shard := range shards {
		first, last, address, err := slots(shard)
		if err != nil {
			return nil, fmt.Errorf("CLUSTER SLOTS: %w", err)
		}
		parts[address] = append(parts[address], [2]int64{first, last})
	}
	clients := d.client.Nodes()
	var all []node
	for address, part := range parts {
		client, ok := clients[address]
		if !ok {
			return nil, fmt.Errorf("the client does not know the node at %s yet", address)
		}
		all = append(all, node{client, partOf(part)})
	}
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.part, b.part) })
	return all, nil
}

// slots reads one element of CLUSTER SLOTS: first slot, last slot, then the nodes, primary first.
func slots(shard rueidis.RedisMessage) (first, last int64, address string, err error) {
	fields, err := shard.ToArray()
	if err != nil || len(fields) < 3 {
		return 0, 0, "", errors.Join(errors.New("a shard has no nodes"), err)
	}
	first, err1 := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	primary, err3 := fields[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil || len(primary) < 2 {
		return 0, 0, "", errors.Join(errors.New("a node has no address"), err)
	}
	host, err1 := primary[0].ToString()
	port, err2 := primary[1].AsInt64()
	return first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10)), errors.Join(err1, err2)
}

// partOf returns a name for a set of slots, independent of their order.
func partOf(part [][2]int64) string {
	slices.SortFunc(part, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	names := make([]string, len(part))
	for i, slots := range part {
		names[i] = fmt.Sprintf("%d-%d", slots[0], slots[1])
	}
	return strings.Join(names, ",")
}

// parseInfo returns the fields of INFO.
func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
