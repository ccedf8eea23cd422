package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
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
	open:        openRedis,
}

// allKeys is the prefix that stands for every key of a server.
const allKeys = "*"

func openRedis(_ context.Context, a *address, l layout) (*store, error) {
	if err := l.into(&struct{}{}); err != nil {
		return nil, err
	}
	if a.Host == "" {
		return nil, errForm
	}
	opts := redis.Options{Prefix: a.own["prefix"], Retain: a.retain}
	switch {
	case opts.Prefix == allKeys:
		opts.Prefix = ""
	case opts.Prefix == "" && a.writes:
		return nil, fmt.Errorf("%w: a Redis is often shared: say by prefix=P in the store's URI whose keys are written, or by prefix=%s that all are", errUsage, allKeys)
	}
	connect, err := rueidis.ParseURL(a.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	connect.Password = os.Getenv("REDISCLI_AUTH")
	connect.DisableCache = true // of servers before 6 and some proxies, and of no use here
	client, err := rueidis.NewClient(connect)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", a.Host, err)
	}
	d, err := redis.New[any](client, &opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	return storeOf[any](d, client.Close), nil
}
