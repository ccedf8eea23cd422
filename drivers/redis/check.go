package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// leastVersion is the major version of Redis that has PEXPIRETIME.
const leastVersion = 7

// Check implements driver.Checker, with INFO and TIME of every primary. It requires that the node
// is a primary of Redis 7 or later or Valkey, that it evicts nothing (maxmemory-policy), and that
// the system's clock is within Options.MaxSkew of its clock. A setting that the server does not
// report passes. Redis has no longest TTL. At the node of one key that does not exist it also tries
// each command that the driver sends: that the server has it, that the user may run it, and that a
// primary answers. What a server refuses for a while passes: without memory, for one.
func (d *Driver[T]) Check(ctx context.Context, _ time.Duration) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		errs = append(errs, d.checkNode(ctx, n))
	}
	return errors.Join(append(errs, d.checkRights(ctx))...)
}

func (d *Driver[T]) checkNode(ctx context.Context, n node) error {
	about := n.client.Do(ctx, wire.Command{Words: []string{"INFO"}, NoKey: true})
	if about.Kind != wire.String {
		return failed(ctx, about)
	}
	seen, err := d.time(ctx, n.client)
	if err != nil {
		return err
	}
	got := parseInfo(string(about.String))
	errs := []error{checkMode(n.part, got)}
	wrong := func(what, value, rule string) {
		field := what
		if n.part != whole {
			field += " of the node with slots " + n.part
		}
		errs = append(errs, &driver.InvalidError{Field: field, Value: value, Rule: rule})
	}
	if got["role"] == "slave" {
		wrong("server", "a replica", "must be a primary: a replica refuses writes, and its reads are behind")
	}
	if major, _, ok := strings.Cut(got["redis_version"], "."); ok {
		if n, err := strconv.Atoi(major); err == nil && n < leastVersion {
			wrong("redis_version", got["redis_version"], fmt.Sprintf("must be %d.0 or later, for PEXPIRETIME", leastVersion))
		}
	}
	if policy := got["maxmemory_policy"]; policy != "" && policy != "noeviction" && got["maxmemory"] != "0" {
		wrong("maxmemory-policy", policy, "must be noeviction: the others delete records before they expire when memory is short")
	}
	return errors.Join(append(errs, seen.CheckSkew("the server", d.opts.MaxSkew))...)
}

func (d *Driver[T]) checkRights(ctx context.Context) error {
	key := fmt.Sprintf("%scheck %x", d.opts.Prefix, kit.NewVersion(math.MaxUint64))
	var errs []error
	var replica error
	wrong := func(command string, a wire.Answer) {
		code := ""
		if a.Kind == wire.Refused {
			code, _, _ = strings.Cut(a.Err.Error(), " ")
		}
		err := failed(ctx, a)
		switch {
		case unknownScript(a), slices.Contains(passing, code):
		case code == "READONLY":
			replica = &driver.InvalidError{Field: "client", Value: "one that asks a replica", Rule: "must ask primaries: a replica refuses writes, and its reads are behind", Err: err}
		default:
			errs = append(errs, fmt.Errorf("%s: %w", command, err))
		}
	}
	for _, c := range []wire.Command{checkScript.byHash, checkScript.byText, readScript.byHash, readScript.byText} {
		a := d.client.Do(ctx, c.With(key))
		if a.Kind != wire.Array && a.Kind != wire.Nil {
			wrong(c.Words[0], a)
		} else if c.Words[0] == "EVAL" {
			for i := 0; i+1 < len(a.Array); i += 2 {
				wrong(string(a.Array[i].String), wire.Answer{Kind: wire.Refused, Err: errors.New(string(a.Array[i+1].String))})
			}
		}
	}
	if a := d.client.Do(ctx, wire.Command{Words: []string{"SCAN", "0", "COUNT", "1"}, NoKey: true}); a.Kind != wire.Array {
		wrong("SCAN", a)
	}
	return errors.Join(append(errs, replica)...)
}

// passing are the codes of refusals that end by themselves. Source: src/server.c, src/cluster.c.
var passing = []string{"OOM", "LOADING", "BUSY", "NOREPLICAS", "MISCONF", "CLUSTERDOWN", "TRYAGAIN"}

// checkMode refuses a client of a single server that belongs to a cluster, by the server's INFO.
func checkMode(part string, info map[string]string) error {
	if part != whole || cmp.Or(info["redis_mode"], info["server_mode"]) != "cluster" {
		return nil
	}
	return &driver.InvalidError{Field: "client", Value: "one of a single server", Rule: "must be a cluster's where the server belongs to one, or it sees a part of the records as all (IsClusterMode of go-redis, no ForceSingleClient of rueidis)"}
}
