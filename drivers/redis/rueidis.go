package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
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
)

func newRueidisClient(c rueidis.Client) Client {
	r := rueidisClient{c, new([ranges]chan struct{})}
	all := make(chan struct{}, ranges*share)
	for i := range r.shares {
		if r.shares[i] = all; c.Mode() == rueidis.ClientModeCluster {
			r.shares[i] = make(chan struct{}, share)
		}
	}
	return r
}

func (c rueidisClient) Do(ctx context.Context, cmd Command) Answer {
	if cmd.Write {
		return c.write(ctx, cmd)
	}
	a := answerOf(c.Client.Do(ctx, c.build(cmd)))
	if a.Err != nil && ctx.Err() == nil && !unknownScript(a) {
		a = answerOf(c.Client.Do(ctx, c.repeated(cmd)))
	}
	return a
}

func (c rueidisClient) DoMulti(ctx context.Context, cs []Command) []Answer {
	cmds := make(rueidis.Commands, len(cs))
	for i, cmd := range cs {
		cmds[i] = c.repeated(cmd)
	}
	answers := make([]Answer, len(cs))
	for i, res := range c.Client.DoMulti(ctx, cmds...) {
		answers[i] = answerOf(res)
	}
	return answers
}

func (c rueidisClient) Nodes(context.Context) (map[string]Client, error) {
	if c.Mode() != rueidis.ClientModeCluster {
		return nil, nil
	}
	all := make(map[string]Client)
	for address, node := range c.Client.Nodes() {
		all[address] = rueidisClient{node, c.shares}
	}
	return all, nil
}

// build builds a command that the client does not know as read-only, so that SendToReplicas does
// not apply. UnblockOnCancel is not for writes: CLIENT UNBLOCK of a client
// whose write the server holds back ends the server (Redis 7.0.15 and 8.0.2, Valkey 8.1.1).
func (c rueidisClient) build(cmd Command) rueidis.Completed {
	a := c.B().Arbitrary(cmd.Words...)
	if !cmd.NoKey {
		a = a.Keys(cmd.Key).Args(cmd.Args...)
	}
	if cmd.Write {
		return a.Blocking()
	}
	return a.Build()
}

// repeated builds a command that the client repeats until the context ends. The client may still be
// writing it then, so it must not reuse its memory (Pin), which costs allocations.
func (c rueidisClient) repeated(cmd Command) rueidis.Completed {
	return c.build(cmd).ToRetryable().Pin()
}

// errSilence is the error of a write that waited for silence.
var errSilence = fmt.Errorf("no answer for %v", silence)

func (c rueidisClient) write(ctx context.Context, cmd Command) Answer {
	built := c.build(cmd)
	under := c.shares[built.Slot()%slots*ranges/slots]
	select {
	case under <- struct{}{}:
		defer func() { <-under }()
	case <-ctx.Done():
		return Answer{Kind: Unsent, Err: ctx.Err()}
	}
	if by, ok := ctx.Deadline(); !ok || time.Until(by) > silence {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, silence, errSilence)
		defer cancel()
	}
	a := answerOf(c.Client.Do(undated{ctx}, built))
	if a.Kind == Failed && context.Cause(ctx) == errSilence {
		a.Err = errSilence
	}
	return a
}

// undated is a context without a deadline, which ends all the same: while rueidis waits for a
// deadline on a connection of its own, it does not notice that the context was cancelled.
type undated struct{ context.Context }

func (undated) Deadline() (by time.Time, ok bool) { return by, false }

const slots = 16384

func answerOf(res rueidis.RedisResult) Answer {
	message, err := res.ToMessage()
	var network *net.OpError
	switch _, refused := rueidis.IsRedisErr(err); {
	case err == nil:
		return answerIn(&message)
	case rueidis.IsRedisNil(err):
		return Answer{Kind: Nil}
	case refused:
		return Answer{Kind: Refused, Err: err}
	// ErrNoCache means that the connection could not be set up.
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, rueidis.ErrNoCache), errors.Is(err, rueidis.ErrNoSlot):
		return Answer{Kind: Unsent, Err: err}
	}
	return Answer{Err: err}
}

func answerIn(m *rueidis.RedisMessage) Answer {
	if err := m.Error(); rueidis.IsRedisNil(err) {
		return Answer{Kind: Nil}
	} else if err != nil {
		return Answer{Kind: Refused, Err: err}
	}
	switch {
	case m.IsInt64():
		n, err := m.AsInt64()
		return Answer{Kind: Integer, Integer: n, Err: err}
	case m.IsArray():
		messages, err := m.ToArray()
		a := Answer{Kind: Array, Array: make([]Answer, len(messages)), Err: err}
		for i := range messages {
			a.Array[i] = answerIn(&messages[i])
		}
		return a
	}
	if m.IsMap() {
		values, err := m.AsMap()
		a := Answer{Kind: Array, Err: err}
		for key, value := range values {
			a.Array = append(a.Array, Answer{Kind: String, String: []byte(key)}, answerIn(&value))
		}
		return a
	}
	b, err := m.AsBytes()
	return Answer{Kind: String, String: b, Err: err}
}
