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
// and a version that is random and another with every write of the value. The key's own
// expiry (PEXPIREAT) is the one in the header, so that Redis deletes what has died, or
// later by [Options].Retain: reads and conditions go by the header's. A touch writes both and moves no value.
//
// A string without the mark was written by another program. It has no created_at, its
// expiry is the key's, and its version is a hash of its content. The touch that adopts
// it puts the header before it. A SET by another program takes the header away, and with
// it created_at: the record is one to adopt again. A key of another type is a
// *driver.InvalidError.
//
// # Conditions
//
// A write, a touch and a removal are each one Lua script for one key, so that they work
// in a cluster, called by EVALSHA; a server that does not know the script, after SCRIPT
// FLUSH or a failover, is sent its text. A record is dead to them when its expiry has come by the
// server's time as they run, or by the caller's: a write that waited in the server until its
// record was dead does not land.
//
// All reads go to primaries, also where the client has SendToReplicas: a replica's value
// and life are some time behind, so that a session logged out would be let in, and one
// just touched found dead.
//
// # Errors
//
// The client's errors stay reachable with errors.As; a *rueidis.RedisError is what the
// server said. The client sends reads again after network errors until the context
// ends, as configured there, so give it one with a deadline. A write whose answer was lost
// matches driver.ErrAmbiguous, also where the client has sent it again by itself (ConnLifetime)
// and what the second attempt met does not tell.
package redis
