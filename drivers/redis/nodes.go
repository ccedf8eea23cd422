package redis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// node is a primary and the slots it serves.
type node struct {
	client wire.Client
	part   string // "0-5460,10923"; whole outside a cluster
	slots  [][2]int64
}

const whole = "all"

// nodes returns the primaries. Outside a cluster there is one.
func (d *Driver[T]) nodes(ctx context.Context) ([]node, error) {
	clients, err := d.client.Nodes(ctx)
	if err != nil {
		return nil, kit.Ended(ctx, err)
	} else if clients == nil {
		return []node{{client: d.client, part: whole}}, nil
	}
	shards := d.client.Do(ctx, wire.Command{Words: []string{"CLUSTER", "SLOTS"}, NoKey: true})
	if shards.Kind != wire.Array {
		return nil, failed(ctx, shards)
	}
	parts := make(map[string][][2]int64) // by address
	for _, shard := range shards.Array {
		first, last, address, err := slotsOf(shard)
		if err != nil {
			return nil, err
		}
		parts[address] = append(parts[address], [2]int64{first, last})
	}
	var all []node
	for address, part := range parts {
		client, ok := clients[address]
		if !ok {
			return nil, fmt.Errorf("the client does not know the node at %s yet", address)
		}
		all = append(all, node{client, partOf(part), part})
	}
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.part, b.part) })
	return all, nil
}

// slotsOf reads one element of CLUSTER SLOTS: first slot, last slot, then the nodes, primary first.
func slotsOf(shard wire.Answer) (first, last int64, address string, err error) {
	fields := shard.Array
	if len(fields) < 3 || len(fields[2].Array) < 2 || len(fields[2].Array[0].String) == 0 {
		return 0, 0, "", &driver.InvalidError{Field: "CLUSTER SLOTS", Value: "a node without an address", Rule: "must tell addresses, for Check and scans (cluster-preferred-endpoint-type)"}
	}
	primary := fields[2].Array
	return fields[0].Integer, fields[1].Integer, net.JoinHostPort(string(primary[0].String), strconv.FormatInt(primary[1].Integer, 10)), nil
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
