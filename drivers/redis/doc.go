// Package redis keeps slidingttl's records in Redis or Valkey. It uses the application's
// own [rueidis.Client], for a single server, sentinels or a cluster.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	...
//	d, err := redis.New[Session](client, &redis.Options{Prefix: "session:"})
//	...
//	store, err := slidingttl.New(d, policy, nil)
//
// # What is stored
//
// A record is one string: a header of 54 bytes, then the value as the codec encodes it.
//
//	\x00sl1 001767225600000 001767227400000 9f86d081884c7d65 {"user":"ann"}
//
// The header has a mark, created_at and the expiry in milliseconds since the Unix epoch,
// and a random version, which every write of the value changes. The key's own expiry
// (PEXPIREAT) is the header's, or later by [Options].Retain, so that Redis deletes dead
// records. Reads and conditions use the header's expiry. A touch writes both and sends no
// value.
//
// A string without the mark was written by another program. It has no created_at, its
// expiry is the key's, and its version is a hash of its content. The touch that adopts it
// puts the header before it. A SET by another program removes the header, and with it
// created_at: the next access adopts the record again. A key of another type is a
// *driver.InvalidError.
//
// # Conditions
//
// A write, a touch and a removal are each one Lua script for one key, so that they work in
// a cluster. They are called by EVALSHA; a server without the script, after SCRIPT FLUSH or
// a failover, gets its text. A touch and a replace take a record for dead when its expiry has
// passed by the server's time or by the caller's. So one that waited in the server until its
// record was dead does not land. A new life goes by the server's time alone, unless the store
// has another clock (slidingttl.Options.Now). In a cluster any node may be asked for its time
// before a write; if it is silent, others are asked within about a second.
//
// Scripts are sent by other connections than reads, at most 128 at a time. So no read waits
// behind a write that the server holds back (CLIENT PAUSE WRITE).
//
// All reads go to primaries, even if the client has SendToReplicas. A replica is some time
// behind: it would show a session that has logged out, and find one dead that was just
// touched.
//
// # Errors
//
// errors.As finds the client's errors; a *rueidis.RedisError is what the server said. After
// network errors the client repeats reads until the context ends, so give the context a
// deadline. A write is sent once. If its answer was lost, or has not come for 10 s, the error
// matches driver.ErrAmbiguous.
//
// A batch over a cluster with a silent node has what the other nodes answer. One of more than
// 2,000 keys is then sent in growing steps, all of it before its context's deadline. A batch
// that is cancelled before its deadline, or while rueidis opens a connection to that node, may
// fail a second later without the other nodes' answers.
//
// A panic in a hook of the client is the call's error, a *slidingttl.PanicError. One in
// AuthCredentialsFn or DialCtxFn, as a connection is made, leaves rueidis waiting for that
// connection, and in a cluster, whose nodes it asks on goroutines of its own (cluster.go), may end
// the process: let these return an error.
package redis
