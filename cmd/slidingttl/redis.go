package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var redisKind = kind{
	schemes: []string{"redis", "rediss", "valkey", "valkeys"},
	form:    "redis://[user@]host[:port][/db][?prefix=P|*&addr=another&retain=D]",
	params: parameters{
		"prefix": text, "retain": span,
		"addr": clients, "db": client, "dial_timeout": client, "write_timeout": client, "protocol": client,
		"client_name": client, "master_set": client, "skip_verify": client, "max_retries": client,
	},
	credentials: "set REDISCLI_AUTH",
	adopts: "On Redis adoption puts a header before the value of each key. A program that reads these keys by a plain GET\n" +
		"breaks: let every reader and writer know the header (slidingttl with ReadOnly) before, see docs/adopting.md.",
	keeps: "an AOF until BGREWRITEAOF, the files of replicas until their next save, and backups",
	open:  openRedis,
}

// allKeys is the prefix that stands for every key of a server.
const allKeys = "*"

func openRedis(ctx context.Context, a *address, l layout) (*store, error) {
	if err := l.into(&struct{}{}); err != nil {
		return nil, err
	}
	if a.Host == "" {
		return nil, errForm
	}
	if a.Query().Has("db") && strings.Trim(a.Path, "/") != "" {
		return nil, fmt.Errorf("%w: the store's URI has the database twice, as %s and as db", errUsage, a.Path)
	}
	opts := redis.Options{Prefix: a.own["prefix"], Retain: a.retain}
	switch {
	case opts.Prefix == allKeys:
		opts.Prefix = ""
	case opts.Prefix == "" && a.writes:
		return nil, fmt.Errorf("%w: the database may hold keys of other programs: name those to write by prefix=P in the store's URI, or all by prefix=%s", errUsage, allKeys)
	}
	connect, err := rueidis.ParseURL(a.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	connect.Password = os.Getenv("REDISCLI_AUTH")
	connect.DisableCache = true // of servers before 6 and some proxies, and of no use here
	client, notice, err := looking(ctx, connect)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", a.Host, err)
	}
	d, err := redis.New[any](client, &opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	s := &store{walked: d, close: client.Close}
	s.sessions = func() (driver.Driver[session.Record], error) { return redis.New[session.Record](client, &opts) }
	s.notice = notice
	s.name = fmt.Sprint(" db ", connect.SelectDB)
	s.ids = func(ctx context.Context) (ids []string, err error) {
		for _, node := range client.Nodes() {
			about, err := infoOf(ctx, node)
			if err != nil {
				return nil, err
			}
			for name, id := range about {
				if strings.HasPrefix(name, "master_replid") && strings.Trim(id, "0") != "" {
					ids = append(ids, id)
				}
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(ids))), nil
	}
	s.about = func(ctx context.Context) (n int64) {
		for _, node := range client.Nodes() {
			if keys, err := node.Do(ctx, node.B().Dbsize().Build()).AsInt64(); opts.Prefix == "" && err == nil {
				n += keys
			}
		}
		return n // of a prefix, Redis does not know
	}
	s.memory = func(ctx context.Context, keys int64) string {
		need, used, most, policy := float64(keys*adoptedBytes)/1e6, 0.0, 0.0, ""
		for _, node := range client.Nodes() {
			about, err := infoOf(ctx, node)
			if err != nil {
				return ""
			}
			if about["role"] == "master" {
				uses, _ := strconv.ParseFloat(about["used_memory"], 64)
				may, _ := strconv.ParseFloat(about["maxmemory"], 64)
				used, most, policy = used+uses/1e6, most+may/1e6, about["maxmemory_policy"]
			}
		}
		text := fmt.Sprintf("memory: adoption needs about %.1f MB more, %d bytes a key, and up to three times that if values have about 1 kB; %.1f MB are used", need, adoptedBytes, used)
		switch {
		case most == 0:
			return text + ", and maxmemory sets no bound"
		case used+need > most:
			return text + fmt.Sprintf(" of %.1f MB: TOO LITTLE: with maxmemory-policy %s Redis will refuse writes, or evict keys", most, policy)
		}
		return text + fmt.Sprintf(" of %.1f MB", most)
	}
	return s, nil
}

// adoptedBytes is about what adoption adds to a key: a header of 54 bytes and, unless the key has an
// expiry, some 40 for one, as measured on Redis 7.0 (48 to 106, and 300 for values of 1,000 bytes).
const adoptedBytes = 100

// infoOf returns what a node says of itself.
func infoOf(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	about := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		about[name] = value
	}
	return about, err
}

// looking returns a client whose reads keep the keys' idle times, if the server supports that.
// Else notice says what the reads affect.
func looking(ctx context.Context, connect rueidis.ClientOption) (client rueidis.Client, notice string, err error) {
	if client, err = rueidis.NewClient(connect); err != nil {
		return nil, "", err
	}
	about, err := infoOf(ctx, client)
	if err != nil {
		return client, "", nil // nothing is known of it; what follows says why
	}
	var major, minor int
	_, _ = fmt.Sscanf(about["redis_version"], "%d.%d", &major, &minor)
	if major > 7 || major == 7 && minor >= 2 {
		client.Close()
		connect.ClientNoTouch = true
		client, err = rueidis.NewClient(connect)
		return client, "", err
	}
	if policy := about["maxmemory_policy"]; strings.Contains(policy, "-lru") || strings.Contains(policy, "-lfu") {
		notice = "this Redis counts each key that is looked at as used, and maxmemory-policy " + policy + " evicts by that: going through all keys flattens the order of eviction (not on Redis 7.2 or later)"
	}
	return client, notice, nil
}
