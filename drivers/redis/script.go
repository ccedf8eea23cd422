package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"strings"
	"time"
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
	checkScript     = newScript("check")
)

// script is a Lua script for one key. It is called by its hash; its text is sent to a server that
// does not know it. Only read.lua does not write. It is called as such (EVALSHA_RO), so that a
// server that holds back writes runs it.
type script struct{ byHash, byText wire.Command }

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
	writes, suffix := true, ""
	if names[0] == "read" {
		writes, suffix = false, "_RO"
	}
	command := func(words ...string) wire.Command { return wire.Command{Words: words, Write: writes} }
	return &script{command("EVALSHA"+suffix, hex.EncodeToString(sum[:]), "1"), command("EVAL"+suffix, string(text), "1")}
}

func (d *Driver[T]) eval(ctx context.Context, s *script, key string, args ...string) wire.Answer {
	a := d.client.Do(ctx, s.byHash.With(key, args...))
	if unknownScript(a) {
		a = d.client.Do(ctx, s.byText.With(key, args...))
	}
	return a
}

// readEach runs readScript for each of keys.
func (d *Driver[T]) readEach(ctx context.Context, keys []string) []wire.Answer {
	answers := d.pipelines(ctx, readScript.byHash, keys)
	var places []int
	var unknown []string
	for i, a := range answers {
		if unknownScript(a) {
			places, unknown = append(places, i), append(unknown, keys[i])
		}
	}
	for n, a := range d.pipelines(ctx, readScript.byText, unknown) {
		answers[places[n]] = a
	}
	return answers
}

func unknownScript(a wire.Answer) bool {
	return a.Kind == wire.Refused && strings.HasPrefix(a.Err.Error(), "NOSCRIPT")
}

// send sends a command, together with TIME if a new reading of the clock is due.
func (d *Driver[T]) send(ctx context.Context, c wire.Command) wire.Answer {
	if !d.clock.Due() {
		return d.client.Do(ctx, c)
	}
	return d.timed(ctx, c)
}

// timed sends a command together with TIME.
func (d *Driver[T]) timed(ctx context.Context, c wire.Command) wire.Answer {
	sent := time.Now()
	answers := d.client.DoMulti(ctx, []wire.Command{timeCommand, c})
	_, _ = d.observe(sent, answers[0])
	return answers[1]
}
