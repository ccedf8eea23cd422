package main

import (
	"testing"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// A store with a password takes it from the variable that its own client reads, and a
// wrong one fails.
func TestPassword(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for _, words := range [][]string{{"ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all"}, {"SET", "user:1", "{}"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	uri := "redis://ann@" + server.Option().InitAddress[0]
	_, errs := command(t, exitFailed, "audit", uri, "--policy", thirty)
	contains(t, errs, "WRONGPASS")
	t.Setenv("REDISCLI_AUTH", "secret")
	out, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "1 records looked at")
}

// A Cosmos DB account's key is from the environment, and where there is none its identity.
func TestCosmosCredentials(t *testing.T) {
	account := cosmostest.Start(t)
	uri := cosmosURI(account)
	t.Setenv("SLIDINGTTL_COSMOS_KEY", "not base64")
	_, errs := command(t, exitFailed, "audit", uri, "--policy", thirty)
	contains(t, errs, "SLIDINGTTL_COSMOS_KEY")
	t.Setenv("SLIDINGTTL_COSMOS_KEY", "")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "no such credential")
	_, errs = command(t, exitFailed, "audit", uri, "--policy", thirty)
	contains(t, errs, "AZURE_TOKEN_CREDENTIALS")
	t.Setenv("SLIDINGTTL_COSMOS_KEY", cosmostest.Start(t).Key())
	_, errs = command(t, exitFailed, "audit", uri, "--policy", thirty)
	contains(t, errs, "the store refuses the call", "401")
}

// What keeps the command from a bucket is told, and not only that it waited.
func TestCouchbaseCredentials(t *testing.T) {
	n := open(t)
	_, errs := command(t, exitFailed, "audit", n.ConnectionString()+"/missing", "--policy", thirty)
	contains(t, errs, "bucket not found")
	t.Setenv("SLIDINGTTL_COUCHBASE_PASSWORD", "wrong")
	_, errs = command(t, exitFailed, "audit", n.uri, "--policy", thirty)
	contains(t, errs, "authentication failure")
}
