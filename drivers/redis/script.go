package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"time"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var files embed.FS

var (
	putScript       = newScript("lookup", "put")
	overwriteScript = newScript("lookup", "overwrite")
	touchScript     = newScript("lookup", "touch")
	removeScript    = newScript("lookup", "remove")
	readScript      = newScript("read")
	readTouchScript = newScript("readtouch")
)

// script is a Lua script for one key. It is called by its hash; its text is sent to a server that
// does not know it.
type script struct{ text, hash string }

func newScript(names ...string) *script {
	var text []byte
	for _, name := range names {
		part, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // a test would tell
		}
		text = append(text, part...)
	}
	sum := sha1.Sum(text)
	return &script{string(text), hex.EncodeToString(sum[:])}
}

func (d *Driver[T]) eval(ctx context.Context, s *script, key string, args ...string) rueidis.RedisResult {
	res := d.send(ctx, d.byHash(s, key, args))
	if unknownScript(res) {
		if a, ok := ctx.(*attempts); ok {
			a.sent.Add(-1) // that attempt did nothing
		}
		res = d.client.Do(ctx, d.byText(s, key, args))
	}
	return res
}

// evalEach runs s for each of keys, without arguments, in one pipeline.
func (d *Driver[T]) evalEach(ctx context.Context, client rueidis.CoreClient, s *script, keys []string) []rueidis.RedisResult {
	cmds := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		cmds[i] = again(d.byHash(s, key, nil)) // they only read
	}
	results := client.DoMulti(ctx, cmds...)
	for i, res := range results {
		if unknownScript(res) {
			results[i] = client.Do(ctx, again(d.byText(s, keys[i], nil)))
		}
	}
	return results
}

func (d *Driver[T]) byHash(s *script, key string, args []string) rueidis.Completed {
	return d.client.B().Evalsha().Sha1(s.hash).Numkeys(1).Key(key).Arg(args...).Build()
}

func (d *Driver[T]) byText(s *script, key string, args []string) rueidis.Completed {
	return d.client.B().Eval().Script(s.text).Numkeys(1).Key(key).Arg(args...).Build()
}

func unknownScript(res rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(res.Error())
	return ok && err.IsNoScript()
}

// send sends a command, together with TIME if a new reading of the clock is due.
func (d *Driver[T]) send(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if !d.clock.Due() {
		return d.client.Do(ctx, cmd)
	}
	sent := time.Now()
	res := d.client.DoMulti(ctx, d.client.B().Time().Build(), cmd)
	_, _ = d.observe(sent, res[0])
	return res[1]
}
