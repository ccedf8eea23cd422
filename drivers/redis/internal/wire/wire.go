// Package wire is what the Redis driver asks of a client: commands in, answers out.
package wire

import "context"

// Client sends commands to a Redis, and returns what it answers. Package redis makes one of a rueidis client,
// package goredis one of a go-redis client. All methods are safe for concurrent use.
type Client interface {
	// Do sends c to the primary that has its key.
	Do(ctx context.Context, c Command) Answer

	// DoMulti sends commands, of which none is a Write, in one pipeline, or one for each primary. One
	// without a key goes with another, so that they wait for one node. It returns an answer for each,
	// in order.
	DoMulti(ctx context.Context, cs []Command) []Answer

	// Nodes returns a client of each node of a cluster by its address, as CLUSTER SLOTS has it: of
	// the primaries at least. Nil: this is no cluster.
	Nodes(ctx context.Context) (map[string]Client, error)
}

// Command is one command.
type Command struct {
	Words []string // its name, and the arguments before the key
	Key   string   // any string is a key, but see NoKey
	Args  []string // the arguments after the key
	NoKey bool     // the command has no key, and all arguments in Words

	// Write says that the command may write. A client may repeat the others after a network error. It
	// sends a Write at most once, unless the server has refused it, and on a connection on which no read waits for its answer: a server may
	// hold back all writes for a while (CLIENT PAUSE WRITE).
	Write bool
}

// With returns the command for a key.
func (c Command) With(key string, args ...string) Command {
	c.Key, c.Args = key, args
	return c
}

// Kind is the kind of an Answer.
type Kind uint8

// The kinds.
const (
	Failed  Kind = iota // no answer: the command may have been executed
	Unsent              // no answer: the command was certainly not executed
	Refused             // the server's error
	Nil
	Integer
	String
	Array
)

// Answer is a server's answer to a command, or why there is none.
type Answer struct {
	Kind    Kind
	Integer int64
	String  []byte   // not to be changed
	Array   []Answer // of a map, keys and values by turns
	Err     error    // of Failed, Unsent and Refused: the client's own. The text of Refused is the server's
}
