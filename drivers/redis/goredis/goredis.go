package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// New returns a client over c, which is a *redis.Client or a *redis.ClusterClient of go-redis.
//
// The caller closes c. A client that cannot keep the driver's promises is a *driver.InvalidError.
func New(c goredis.UniversalClient) (redis.Client, error) {
	invalid := func(field, value, rule string) (redis.Client, error) {
		return nil, &driver.InvalidError{Field: field, Value: value, Rule: rule}
	}
	var pool, most int
	var read, write time.Duration
	own := &client{all: c}
	switch c := c.(type) {
	case *goredis.Client:
		o := c.Options()
		pool, most, read, write = o.PoolSize, o.MaxActiveConns, o.ReadTimeout, o.WriteTimeout
		if o.ClientSideCache != nil || o.ClientSideCacheConfig != nil {
			return invalid("ClientSideCache or ClientSideCacheConfig", "set", "must not be set: the cache returns deleted records")
		}
	case *goredis.ClusterClient:
		o := c.Options()
		pool, most, read, write = o.PoolSize, o.MaxActiveConns, o.ReadTimeout, o.WriteTimeout
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return invalid("ReadOnly, RouteByLatency or RouteRandomly", "set", "must not be set: replicas are behind")
		}
		own.cluster = c
	default:
		return invalid("client", "of another type", "must be a *redis.Client or a *redis.ClusterClient of go-redis, not nil")
	}
	if read <= 0 || write <= 0 {
		return invalid("ReadTimeout and WriteTimeout", fmt.Sprintf("%v and %v", read, write), "must be positive: an abandoned call would keep its connection")
	}
	if most > 0 {
		pool = min(pool, most)
	}
	if pool < 2 {
		return invalid("PoolSize or MaxActiveConns", strconv.Itoa(pool), "must be at least 2, of which writes take half")
	}
	own.share = pool / 2
	return own, nil
}

type client struct {
	all     goredis.UniversalClient
	cluster *goredis.ClusterClient // all, if that is a cluster's
	share   int                    // how many writes a node may have under way
	writes  sync.Map               // of nodes: a channel with room for share
}

// once is a command that go-redis does not retry.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

func command(ctx context.Context, c redis.Command) *goredis.Cmd {
	args := make([]any, 0, len(c.Words)+1+len(c.Args))
	for _, w := range c.Words {
		args = append(args, w)
	}
	if !c.NoKey {
		args = append(args, c.Key)
		for _, a := range c.Args {
			args = append(args, a)
		}
	}
	cmd := goredis.NewCmd(ctx, args...)
	if !c.NoKey {
		cmd.SetFirstKeyPos(int8(len(c.Words)))
	}
	return cmd
}

// Do implements redis.Client.
func (c *client) Do(ctx context.Context, cmd redis.Command) redis.Answer {
	sent := command(ctx, cmd)
	if !cmd.Write {
		return until(ctx, func() redis.Answer {
			_ = c.all.Process(ctx, sent)
			return answerTo(sent)
		})
	}
	leave, err := c.enter(ctx, cmd.Key)
	if err != nil {
		return redis.Answer{Kind: redis.Unsent, Err: err}
	}
	return until(ctx, func() redis.Answer {
		defer leave()
		_ = c.all.Process(ctx, once{sent})
		return answerTo(sent)
	})
}

// enter waits until the node with key has fewer than share writes under way.
func (c *client) enter(ctx context.Context, key string) (leave func(), err error) {
	var node any = c.all
	if c.cluster != nil {
		if node, err = c.cluster.MasterForKey(ctx, key); err != nil {
			return nil, err
		}
	}
	found, ok := c.writes.Load(node)
	if !ok {
		found, _ = c.writes.LoadOrStore(node, make(chan struct{}, c.share))
	}
	under := found.(chan struct{})
	select {
	case under <- struct{}{}:
		return func() { <-under }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// DoMulti implements redis.Client. In a cluster it sends each node a pipeline of its own: one of
// go-redis for all nodes would have no answers before the last node's.
func (c *client) DoMulti(ctx context.Context, cs []redis.Command) []redis.Answer {
	answers := make([]redis.Answer, len(cs))
	var nodes map[*goredis.Client][]int
	if ended := until(ctx, func() redis.Answer {
		nodes = c.byNode(ctx, cs)
		return redis.Answer{Kind: redis.Nil}
	}); ended.Err != nil {
		for i := range answers {
			answers[i] = ended
		}
		return answers
	}
	var pipelines sync.WaitGroup
	for _, places := range nodes {
		pipelines.Go(func() {
			sent := make([]*goredis.Cmd, len(places))
			ended := until(ctx, func() redis.Answer {
				pipe := c.all.Pipeline()
				for n, i := range places {
					sent[n] = command(ctx, cs[i])
					_ = pipe.Process(ctx, sent[n])
				}
				_, _ = pipe.Exec(ctx)
				return redis.Answer{Kind: redis.Nil}
			})
			for n, i := range places {
				if answers[i] = ended; ended.Err == nil {
					answers[i] = answerTo(sent[n])
				}
			}
		})
	}
	pipelines.Wait()
	return answers
}

// byNode returns the places in cs of the commands for each node, as the client knows the cluster.
func (c *client) byNode(ctx context.Context, cs []redis.Command) map[*goredis.Client][]int {
	places := make(map[*goredis.Client][]int)
	known := c.cluster != nil
	for i, cmd := range cs {
		var node *goredis.Client
		if known && !cmd.NoKey {
			var err error
			node, err = c.cluster.MasterForKey(ctx, cmd.Key)
			known = err == nil // else the pipeline of those without a node says why
		}
		places[node] = append(places[node], i)
	}
	return places
}

// Nodes implements redis.Client.
func (c *client) Nodes(ctx context.Context) (map[string]redis.Client, error) {
	if c.cluster == nil {
		return nil, nil
	}
	var mu sync.Mutex // guards all
	all := make(map[string]redis.Client)
	err := c.cluster.ForEachShard(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all[node.Options().Addr] = &client{all: node, share: c.share}
		return nil
	})
	return all, err
}

// until returns f's answer, or Failed when ctx ends before: go-redis does not notice that a context
// is cancelled while it waits for an answer.
func until(ctx context.Context, f func() redis.Answer) redis.Answer {
	if ctx.Done() == nil {
		return f()
	}
	answer := make(chan redis.Answer, 1)
	go func() { answer <- f() }()
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return redis.Answer{Err: ctx.Err()}
	}
}

func answerTo(cmd *goredis.Cmd) redis.Answer {
	v, err := cmd.Result()
	var network *net.OpError
	switch _, refused := errors.AsType[goredis.Error](err); {
	case err == nil:
		return answerIn(v)
	case errors.Is(err, goredis.Nil):
		return redis.Answer{Kind: redis.Nil}
	case refused:
		return redis.Answer{Kind: redis.Refused, Err: err}
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, goredis.ErrClosed),
		errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return redis.Answer{Kind: redis.Unsent, Err: err}
	}
	return redis.Answer{Err: err}
}

func answerIn(v any) redis.Answer {
	switch v := v.(type) {
	case nil:
		return redis.Answer{Kind: redis.Nil}
	case int64:
		return redis.Answer{Kind: redis.Integer, Integer: v}
	case string:
		return redis.Answer{Kind: redis.String, String: []byte(v)}
	case []any:
		a := redis.Answer{Kind: redis.Array, Array: make([]redis.Answer, len(v))}
		for i, one := range v {
			a.Array[i] = answerIn(one)
		}
		return a
	case map[any]any:
		a := redis.Answer{Kind: redis.Array}
		for key, value := range v {
			a.Array = append(a.Array, answerIn(key), answerIn(value))
		}
		return a
	case error:
		return redis.Answer{Kind: redis.Refused, Err: v}
	}
	return redis.Answer{Kind: redis.Failed, Err: errors.New("goredis: an answer of another kind")}
}
