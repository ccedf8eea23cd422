package main

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
)

var redisKind = kind{
	schemes:     []string{"redis", "rediss", "valkey", "valkeys"},
	form:        "redis://[user@]host[:port][/db][?prefix=P&addr=another&retain=D]",
	credentials: "set REDISCLI_AUTH",
	open:        openRedis,
}

func openRedis(_ context.Context, u *url.URL, l layout) (*store, error) {
	if err := l.into(&struct{}{}); err != nil {
		return nil, err
	}
	if u.Host == "" {
		return nil, errForm
	}
	opts := redis.Options{Prefix: parameter(u, "prefix")}
	var err error
	if opts.Retain, err = retention(u); err != nil {
		return nil, err
	}
	connect, err := rueidis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	connect.Password = os.Getenv("REDISCLI_AUTH")
	connect.DisableCache = true // of servers before 6 and some proxies, and of no use here
	client, err := rueidis.NewClient(connect)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Host, err)
	}
	d, err := redis.New[any](client, &opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	return storeOf[any](d, client.Close), nil
}
