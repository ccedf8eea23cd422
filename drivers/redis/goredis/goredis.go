package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// New is redis.New over c, which is a *redis.Client or a *redis.ClusterClient of go-redis.
//
// The caller closes c. A client that cannot keep the driver's promises is a *driver.InvalidError.
func New[T any](c goredis.UniversalClient, opts *redis.Options) (*redis.Driver[T], error) {
	own, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	return redis.Over[T](own, opts)
}

func clientOf(c goredis.UniversalClient) (*client, error) {
	own := &client{all: c, bounds: new(bounds)}
	var options *goredis.Options
	switch c := c.(type) {
	case *goredis.Client:
		if c != nil {
			options = c.Options()
		}
	case *goredis.ClusterClient:
		if c == nil {
			break
		}
		o := c.Options()
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, invalid("ReadOnly, RouteByLatency or RouteRandomly", "set", "must not be set: replicas are behind")
		}
		if o.ClusterSlots != nil {
			return nil, invalid("ClusterSlots", "set, as NewFailoverClusterClient does", "must not be set: use NewFailoverClient over sentinels, whose servers are not in cluster mode")
		}
		own.cluster = c // node sees what NewClient makes of these
		options = &goredis.Options{PoolSize: o.PoolSize, MaxActiveConns: o.MaxActiveConns, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout}
	}
	if options == nil {
		return nil, invalid("client", "of another type", "must be a *redis.Client or a *redis.ClusterClient of go-redis, not nil")
	}
	if err := unsound(options); err != nil {
		return nil, err
	}
	return own, nil
}

func invalid(field, value, rule string) error {
	return &driver.InvalidError{Field: field, Value: value, Rule: rule}
}

// unsound returns an error if a client with these options cannot keep the driver's promises.
func unsound(o *goredis.Options) error {
	switch {
	case o.ClientSideCache != nil || o.ClientSideCacheConfig != nil:
		return invalid("ClientSideCache or ClientSideCacheConfig", "set", "must not be set: the cache returns deleted records")
	case o.ReadTimeout <= 0 || o.WriteTimeout <= 0:
		return invalid("ReadTimeout and WriteTimeout", fmt.Sprintf("%v and %v", o.ReadTimeout, o.WriteTimeout), "must be positive: an abandoned call would keep its connection")
	case share(o) < 1:
		return invalid("PoolSize or MaxActiveConns", strconv.Itoa(pool(o)), "must be at least 2, of which writes take half")
	}
	return nil
}

func pool(o *goredis.Options) int {
	if o.MaxActiveConns > 0 {
		return min(o.PoolSize, o.MaxActiveConns)
	}
	return o.PoolSize
}

// share is how many writes a node may have under way.
func share(o *goredis.Options) int { return pool(o) / 2 }

type client struct {
	all     goredis.UniversalClient
	cluster *goredis.ClusterClient // all, if that is a cluster's
	*bounds
}

// bounds are of all calls to a node, also those of the clients that Nodes returns.
type bounds struct {
	writes    sync.Map // of nodes: a channel with room for share
	pipelines sync.Map // of nodes: a channel with room for half as many
}

// once is a command that go-redis does not retry, nor sends once ctx has ended: it looks at a context before it
// takes a connection, and then may wait for ReadTimeout until a new one is set up.
type once struct {
	*goredis.Cmd
	ctx context.Context
}

func (once) NoRetry() bool { return true }

// Args is what go-redis calls as it writes the command.
func (c once) Args() []any {
	args := c.Cmd.Args()
	if err := c.ctx.Err(); err != nil {
		args = slices.Clone(args)
		args[0] = unwritable{err}
	}
	return args
}

// unwritable is an argument with whose error the writing of a command ends.
type unwritable struct{ err error }

func (u unwritable) MarshalBinary() ([]byte, error) { return nil, u.err }

func command(ctx context.Context, c wire.Command) *goredis.Cmd {
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
	cmd.SetStepCount(1) // else go-redis asks any node for it, and other calls wait for that one's answer
	return cmd
}

// Do implements redis.Client.
func (c *client) Do(ctx context.Context, cmd wire.Command) wire.Answer {
	sent := command(ctx, cmd)
	if !cmd.Write {
		return until(ctx, func() wire.Answer {
			if _, err := c.node(ctx, cmd.Key); err != nil {
				return wire.Answer{Kind: wire.Unsent, Err: err}
			}
			_ = c.all.Process(ctx, sent)
			return answerTo(sent)
		})
	}
	var node *goredis.Client
	if ended := until(ctx, func() (a wire.Answer) {
		node, a.Err = c.node(ctx, cmd.Key)
		return a
	}); ended.Err != nil {
		return wire.Answer{Kind: wire.Unsent, Err: ended.Err}
	}
	leave, err := enter(ctx, &c.writes, node, share(node.Options()))
	if err != nil {
		return wire.Answer{Kind: wire.Unsent, Err: err}
	}
	return until(ctx, func() wire.Answer {
		defer leave()
		_ = c.all.Process(ctx, once{sent, ctx})
		return answerTo(sent)
	})
}

// node returns the client of the node with key. It loads a cluster's state if that is unknown. go-redis
// would return that error as the command's: redis.Nil where the cluster tells no addresses.
func (c *client) node(ctx context.Context, key string) (*goredis.Client, error) {
	if c.cluster == nil {
		return c.all.(*goredis.Client), nil
	}
	node, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, stateError(err)
	}
	return node, unsound(node.Options())
}

func stateError(err error) error {
	if errors.Is(err, goredis.Nil) {
		return errors.New("the cluster does not tell its nodes' addresses: go-redis needs them (cluster-preferred-endpoint-type)")
	}
	return err
}

// enter waits until fewer than most calls of those counted in at are under way at a node.
func enter(ctx context.Context, at *sync.Map, node *goredis.Client, most int) (leave func(), err error) {
	found, ok := at.Load(node)
	if !ok {
		found, _ = at.LoadOrStore(node, make(chan struct{}, most))
	}
	under := found.(chan struct{})
	select {
	case under <- struct{}{}:
		return func() { <-under }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// few commands are a read with its question for the time. It waits for no batch.
const few = 2

// DoMulti implements redis.Client. In a cluster it sends each node a pipeline of its own: one of
// go-redis for all nodes would have no answers before the last node's. Commands without a key would
// go to any node: a script runs them, with the key of another command.
func (c *client) DoMulti(ctx context.Context, cs []wire.Command) []wire.Answer {
	answers := make([]wire.Answer, len(cs))
	if c.cluster != nil {
		with := slices.IndexFunc(cs, func(cmd wire.Command) bool { return !cmd.NoKey })
		cs = slices.Clone(cs)
		for i, cmd := range cs {
			if cmd.NoKey && with >= 0 {
				cs[i] = wire.Command{Words: []string{"EVAL_RO", "return redis.call(unpack(ARGV))", "1"}, Key: cs[with].Key, Args: cmd.Words}
			}
		}
	}
	places := make(map[*goredis.Client][]int) // in cs, of the commands for each node
	if ended := until(ctx, func() (a wire.Answer) {
		for i, cmd := range cs {
			node, err := c.node(ctx, cmd.Key)
			if err != nil {
				return wire.Answer{Kind: wire.Unsent, Err: err}
			}
			places[node] = append(places[node], i)
		}
		return a
	}); ended.Err != nil {
		for i := range answers {
			answers[i] = ended
		}
		return answers
	}
	var pipelines sync.WaitGroup
	for node, places := range places {
		pipelines.Go(func() {
			sent := make([]*goredis.Cmd, len(places))
			var ended wire.Answer
			leave, err := func() {}, error(nil)
			if len(places) > few {
				leave, err = enter(ctx, &c.pipelines, node, max(1, share(node.Options())/2))
			}
			if err != nil {
				ended = wire.Answer{Kind: wire.Unsent, Err: err}
			} else {
				ended = until(ctx, func() (a wire.Answer) {
					defer leave()
					pipe := c.all.Pipeline()
					for n, i := range places {
						sent[n] = command(ctx, cs[i])
						_ = pipe.Process(ctx, sent[n])
					}
					// Of a connection that could not be set up, and of a hook, this error may be the only one.
					if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
						for _, cmd := range sent {
							if cmd.Val() == nil && cmd.Err() == nil {
								cmd.SetErr(err)
							}
						}
					}
					return a
				})
			}
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

// Nodes implements redis.Client.
func (c *client) Nodes(ctx context.Context) (map[string]wire.Client, error) {
	if c.cluster == nil {
		return nil, nil
	}
	var mu sync.Mutex // guards all
	all := make(map[string]wire.Client)
	ended := until(ctx, func() wire.Answer {
		return wire.Answer{Err: c.cluster.ForEachShard(ctx, func(_ context.Context, node *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all[node.Options().Addr] = &client{all: node, bounds: c.bounds}
			return nil
		})}
	})
	if ended.Err != nil {
		return nil, stateError(ended.Err)
	}
	return all, nil
}

// until returns f's answer, or Failed when ctx ends before: go-redis does not notice that a context
// is cancelled while it waits for an answer. Failed, too, is what a panic in f, as of a caller's hook, becomes.
func until(ctx context.Context, f func() wire.Answer) wire.Answer {
	answer := make(chan wire.Answer, 1)
	go func() {
		var a wire.Answer
		hook.Try(func() error {
			a = f()
			return a.Err
		}, func(err error) {
			a.Err = err
			answer <- a
		})
	}()
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return wire.Answer{Err: ctx.Err()}
	}
}

func answerTo(cmd *goredis.Cmd) wire.Answer {
	v, err := cmd.Result()
	var network *net.OpError
	switch _, refused := errors.AsType[goredis.Error](err); {
	case err == nil && v == nil: // nil of the server's is redis.Nil
		return wire.Answer{Err: errors.New("goredis: neither a value nor an error, as from a hook that returns nil")}
	case err == nil:
		return answerIn(v)
	case errors.Is(err, goredis.Nil):
		return wire.Answer{Kind: wire.Nil}
	case refused:
		return wire.Answer{Kind: wire.Refused, Err: err}
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, goredis.ErrClosed),
		errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return wire.Answer{Kind: wire.Unsent, Err: err}
	}
	return wire.Answer{Err: err}
}

func answerIn(v any) wire.Answer {
	switch v := v.(type) {
	case nil:
		return wire.Answer{Kind: wire.Nil}
	case int64:
		return wire.Answer{Kind: wire.Integer, Integer: v}
	case string:
		return wire.Answer{Kind: wire.String, String: []byte(v)}
	case []any:
		a := wire.Answer{Kind: wire.Array, Array: make([]wire.Answer, len(v))}
		for i, one := range v {
			a.Array[i] = answerIn(one)
		}
		return a
	case map[any]any:
		a := wire.Answer{Kind: wire.Array}
		for key, value := range v {
			a.Array = append(a.Array, answerIn(key), answerIn(value))
		}
		return a
	case error:
		return wire.Answer{Kind: wire.Refused, Err: v}
	}
	return wire.Answer{Kind: wire.Failed, Err: errors.New("goredis: an answer of another kind")}
}
