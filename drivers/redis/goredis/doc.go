// Package goredis lets drivers/redis send its commands by an application's own go-redis client.
//
// That is for a single server, sentinels or a cluster, with TLS and credentials as the client has them.
//
//	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}) // of go-redis
//	...
//	d, err := goredis.New[Session](rdb, &slidingredis.Options{Prefix: "session:"}) // of drivers/redis
//
// A write is sent once, whatever the client's MaxRetries is: its command says so to the client. At
// most half of a node's pool (PoolSize) is under writes, so that reads find connections while a
// server holds back writes. A call returns when its context ends, also where the client goes on
// waiting until its ReadTimeout, and a write that was not sent by then is not sent later. There are
// no redis.Invalidations.
package goredis
