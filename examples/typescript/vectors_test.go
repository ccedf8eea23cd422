package typescript

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// build compiles the TypeScript, and checks its types.
var build = sync.OnceValue(func() error {
	if _, err := os.Stat("node_modules/typescript"); err != nil {
		return err
	}
	cmd := exec.Command("node_modules/.bin/tsc", "-p", ".")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
})

// servers starts both stores, with a table of DynamoDB.
func servers(t *testing.T) (redisAddr, endpoint, table string) {
	t.Helper()
	if err := build(); err != nil {
		t.Fatalf("%v; make npm brings what it needs", err)
	}
	server := dynamodbtest.Start(t)
	table = server.Table(t)
	d, err := dynamodb.New[struct{}](server.Client(), table, nil)
	if err == nil {
		err = d.EnsureTable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return redistest.Start(t).Addr, server.Endpoint, table
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestVectors(t *testing.T) {
	redisAddr, endpoint, table := servers(t)
	cmd := exec.CommandContext(t.Context(), "node", "dist/vectors.js", "../../spec/vectors", portOf(t, redisAddr), endpoint, table)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
