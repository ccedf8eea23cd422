package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// What docs/adopting.md says of the order on Redis: an old reader, an old writer and the new
// program side by side, through its steps.
func TestOrderOnRedis(t *testing.T) {
	type session struct{ User string }
	ctx := t.Context()
	server := redistest.Start(t)
	client := server.Client(t)
	oldWrite := func(key, user string) {
		t.Helper()
		value, _ := json.Marshal(session{user})
		if err := client.Do(ctx, client.B().Set().Key("s:"+key).Value(string(value)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	oldRead := func(key string) (s session, err error) {
		text := must(client.Do(ctx, client.B().Get().Key("s:"+key).Build()).ToString())(t)
		return s, json.Unmarshal([]byte(text), &s)
	}
	program := func(foreign slidingttl.Foreign) *slidingttl.Store[session] {
		d := must(redis.New[session](server.Client(t), &redis.Options{Prefix: "s:"}))(t)
		p := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
		store := must(slidingttl.New(d, p, &slidingttl.Options[session]{Foreign: foreign}))(t)
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		return store
	}
	newRead := func(s *slidingttl.Store[session], key, want string) {
		t.Helper()
		if v, err := s.Get(ctx, key); err != nil || v.User != want {
			t.Errorf("the new program reads %q as %q, %v; want %q", key, v.User, err, want)
		}
	}
	old := func(key, want string) {
		t.Helper()
		if v, err := oldRead(key); err != nil || v.User != want {
			t.Errorf("the old program reads %q as %q, %v; want %q", key, v.User, err, want)
		}
	}
	uri := "redis://" + server.Option().InitAddress[0] + "?prefix=s:"

	oldWrite("a", "ann")
	oldWrite("b", "bob")
	readOnly := program(slidingttl.ReadOnly)
	newRead(readOnly, "a", "ann")
	old("a", "ann") // the read-only program has written nothing to it

	out, _ := command(t, 0, "adopt", uri, "--policy", thirty)
	contains(t, out, "breaks", "ReadOnly")
	old("a", "ann") // neither has the dry run
	command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--no-undo")
	if _, err := oldRead("a"); err == nil {
		t.Error("the old program reads what is adopted: docs/adopting.md says that it breaks")
	}
	newRead(readOnly, "a", "ann")

	oldWrite("a", "amy") // by a writer that is left over
	old("a", "amy")
	newRead(readOnly, "a", "amy")
	full := program(slidingttl.Adopt)
	newRead(full, "a", "amy") // its next access adopts it again
	newRead(full, "b", "bob")
	if err := full.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := oldRead("a"); err == nil {
		t.Error("the access has not adopted what the old writer wrote")
	}
	audit, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, audit, "slides 2", "no created at 0")
	if _, err := full.Get(ctx, "a"); !errors.Is(err, slidingttl.ErrClosed) || strings.Contains(err.Error(), "amy") {
		t.Errorf("after Close: %v", err)
	}
}
