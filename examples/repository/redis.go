package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// values is a repository with Redis commands of its own: a string of JSON for each
// profile. It sets no expiry.
type values struct{ client rueidis.Client }

// Get returns the profile of id. It skips the header that the driver puts before the value,
// which is the only change in this repository.
func (r values) Get(ctx context.Context, id string) (profile, error) {
	var v profile
	text, err := r.client.Do(ctx, r.client.B().Get().Key(profileKey(id)).Build()).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return v, errNoProfile
	case err != nil:
		return v, err
	}
	const mark, headerLen = "\x00sl1 ", 54
	if strings.HasPrefix(text, mark) {
		text = text[min(headerLen, len(text)):]
	}
	return v, json.Unmarshal([]byte(text), &v)
}

// Upsert writes the profile of id.
func (r values) Upsert(ctx context.Context, id string, v profile) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.client.Do(ctx, r.client.B().Set().Key(profileKey(id)).Value(string(text)).Build()).Error()
}

// redis starts a Redis server.
func (t *team) redis(ctx context.Context) error {
	server, err := redistest.Run(ctx)
	if err != nil {
		return err
	}
	t.close = append(t.close, server.Close)
	client, err := rueidis.NewClient(server.Option())
	if err != nil {
		return err
	}
	t.close = append(t.close, func() error { client.Close(); return nil })
	t.repo, t.clock = values{client}, &ownClock{time.Now()}
	t.driver = func(context.Context) (driver.Driver[profile], error) {
		return redis.New[profile](client, nil)
	}
	return nil
}
