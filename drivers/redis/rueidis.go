package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/hook"
)

// A client sends its writes by connections of rueidis's pool for blocking commands, one for each
// write under way. So no read waits behind a write in a pipeline, and rueidis never resends one:
// it does that only when a connection's lifetime ends, which is not while the pool has lent it.
// Sources: rueidis's ClientOption.ConnLifetime, BlockingPoolSize.
type rueidisClient struct {
	rueidis.Client

	// shares bound the writes under way. In a cluster each bounds those to one range of slots, so that a
	// node that answers no writes does not hold back those to other nodes.
	shares *[ranges]chan struct{}
}

const (
	ranges = 16
	share  = 8

	// silence is how long a write waits for its answer. rueidis bounds no blocking command.
	silence = 10 * time.Second

	// grace is how long after its context's end a batch waits for what a cluster's answering nodes have.
	grace = time.Second
)

func newRueidisClient(c rueidis.Client) wire.Client {
	r := rueidisClient{c, new([ranges]chan struct{})}
	all := make(chan struct{}, ranges*share)
	for i := range r.shares {
		if r.shares[i] = all; c.Mode() == rueidis.ClientModeCluster {
			r.shares[i] = make(chan struct{}, share)
		}
	}
	return r
}

func (c rueidisClient) Do(ctx context.Context, cmd wire.Command) wire.Answer {
	if cmd.Write {
		return c.write(ctx, cmd)
	}
	return within(ctx, 0, func() wire.Answer {
		a := answerOf(c.Client.Do(ctx, c.build(cmd)))
		if a.Err != nil && ctx.Err() == nil && !unknownScript(a) {
			a = answerOf(c.Client.Do(ctx, c.repeated(cmd)))
		}
		return a
	})
}

func (c rueidisClient) DoMulti(ctx context.Context, cs []wire.Command) []wire.Answer {
	cmds := make(rueidis.Commands, len(cs))
	for i, cmd := range cs {
		cmds[i] = c.repeated(cmd)
	}
	wait := time.Duration(0)
	if c.Mode() == rueidis.ClientModeCluster {
		wait = grace
	}
	all := within(ctx, wait, func() wire.Answer {
		answers := make([]wire.Answer, len(cs))
		for i, res := range c.Client.DoMulti(ctx, cmds...) {
			answers[i] = answerOf(res)
		}
		return wire.Answer{Array: answers}
	})
	if all.Err != nil {
		return slices.Repeat([]wire.Answer{all}, len(cs))
	}
	if len(cs) > 1 && errors.Is(all.Array[0].Err, rueidis.ErrNoSlot) { // the answer to all, if one slot has no node
		var each sync.WaitGroup
		for i, cmd := range cs {
			if !cmd.NoKey {
				each.Go(func() { all.Array[i] = c.Do(ctx, cmd) })
			}
		}
		each.Wait()
	}
	return all.Array
}

// within returns f's answer, or Failed once ctx has ended and wait has passed. rueidis does not notice a
// cancellation while it opens a connection, nor always while it waits for an answer. Failed, too, is what a
// panic in f, as of a caller's hook, becomes.
func within(ctx context.Context, wait time.Duration, f func() wire.Answer) wire.Answer {
	if ctx.Err() != nil {
		return wire.Answer{Kind: wire.Unsent, Err: ctx.Err()}
	}
	return begin(ctx, wait, f)
}

// begin is within, and begins f in any case.
func begin(ctx context.Context, wait time.Duration, f func() wire.Answer) wire.Answer {
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
	}
	select {
	case a := <-answer:
		return a
	case <-time.After(wait):
		return wire.Answer{Err: ctx.Err()}
	}
}

func (c rueidisClient) Nodes(context.Context) (map[string]wire.Client, error) {
	if c.Mode() != rueidis.ClientModeCluster {
		return nil, nil
	}
	all := make(map[string]wire.Client)
	for address, node := range c.Client.Nodes() {
		all[address] = rueidisClient{node, c.shares}
	}
	return all, nil
}

// build builds a command that the client does not know as read-only, so that SendToReplicas does
// not apply. UnblockOnCancel is not for writes: CLIENT UNBLOCK of a client
// whose write the server holds back ends the server (Redis 7.0.15 and 8.0.2, Valkey 8.1.1).
func (c rueidisClient) build(cmd wire.Command) rueidis.Completed {
	a := c.B().Arbitrary(cmd.Words...)
	if !cmd.NoKey {
		a = a.Keys(cmd.Key).Args(cmd.Args...)
	}
	switch {
	case !cmd.Write:
		return a.Build()
	case c.Mode() == rueidis.ClientModeCluster: // which follows ASK, then with ToPipe by the pipeline of reads
		return a.Blocking()
	}
	return a.Blocking().ToPipe() // of that pool with DisableAutoPipelining too: its other pool heeds deadlines alone
}

// repeated builds a command that the client repeats until the context ends. The client may still be
// writing it then, so it must not reuse its memory (Pin), which costs allocations.
func (c rueidisClient) repeated(cmd wire.Command) rueidis.Completed {
	return c.build(cmd).ToRetryable().Pin()
}

// errSilence is the error of a write that waited for silence.
var errSilence = fmt.Errorf("no answer for %v", silence)

func (c rueidisClient) write(ctx context.Context, cmd wire.Command) wire.Answer {
	built := c.build(cmd)
	under := c.shares[int(built.Slot())%slots*ranges/slots]
	select {
	case under <- struct{}{}:
	case <-ctx.Done():
		return wire.Answer{Kind: wire.Unsent, Err: ctx.Err()}
	}
	if ctx.Err() != nil { // both were so
		<-under
		return wire.Answer{Kind: wire.Unsent, Err: ctx.Err()}
	}
	until := ctx
	if by, ok := ctx.Deadline(); !ok || time.Until(by) > silence {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeoutCause(ctx, silence, errSilence)
		defer cancel()
	}
	a := begin(until, 0, func() wire.Answer { // which gives the place back
		defer func() { <-under }()
		return answerOf(c.Client.Do(undated{until}, built))
	})
	if a.Kind == wire.Failed && context.Cause(until) == errSilence {
		a.Err = errSilence
	}
	return a
}

// undated is a context without a deadline, which ends all the same. For one with a deadline, rueidis does not
// read on a connection of the pool but while it waits, and finds out too late that an idle one has been closed.
type undated struct{ context.Context }

func (undated) Deadline() (by time.Time, ok bool) { return by, false }

const slots = 16384

func answerOf(res rueidis.RedisResult) wire.Answer {
	message, err := res.ToMessage()
	var network *net.OpError
	switch _, refused := rueidis.IsRedisErr(err); {
	case err == nil:
		return answerIn(&message)
	case rueidis.IsRedisNil(err):
		return wire.Answer{Kind: wire.Nil}
	case refused:
		return wire.Answer{Kind: wire.Refused, Err: err}
	// ErrNoCache means that the connection could not be set up.
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, rueidis.ErrNoCache), errors.Is(err, rueidis.ErrNoSlot):
		return wire.Answer{Kind: wire.Unsent, Err: err}
	}
	return wire.Answer{Err: err}
}

func answerIn(m *rueidis.RedisMessage) wire.Answer {
	if err := m.Error(); rueidis.IsRedisNil(err) {
		return wire.Answer{Kind: wire.Nil}
	} else if err != nil {
		return wire.Answer{Kind: wire.Refused, Err: err}
	}
	switch {
	case m.IsInt64():
		n, err := m.AsInt64()
		return wire.Answer{Kind: wire.Integer, Integer: n, Err: err}
	case m.IsArray():
		messages, err := m.ToArray()
		a := wire.Answer{Kind: wire.Array, Array: make([]wire.Answer, len(messages)), Err: err}
		for i := range messages {
			a.Array[i] = answerIn(&messages[i])
		}
		return a
	}
	if m.IsMap() {
		values, err := m.AsMap()
		a := wire.Answer{Kind: wire.Array, Err: err}
		for key, value := range values {
			a.Array = append(a.Array, wire.Answer{Kind: wire.String, String: []byte(key)}, answerIn(&value))
		}
		return a
	}
	b, err := m.AsBytes()
	return wire.Answer{Kind: wire.String, String: b, Err: err}
}
