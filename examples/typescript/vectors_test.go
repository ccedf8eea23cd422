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

// What the vectors cannot say, for their clock is a variable: a touch goes out whatever the grace (timers of Node end
// at 24.8 days), and an access is rounded up for what it writes.
func TestTouches(t *testing.T) {
	redisAddr, endpoint, table := servers(t)
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", `
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { Redis } from 'ioredis'
import { DynamoDBDriver } from './dist/dynamodb.js'
import { Toucher } from './dist/policy.js'
import { RedisDriver, metaText } from './dist/redis.js'

let failed = 0
const want = (name, is, wanted) => { if (is !== wanted) { failed++; console.log(name, is, 'want', wanted) } }
const [port, endpoint, table] = process.argv.slice(1)
const db = new DynamoDBClient({ endpoint, region: 'local', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } })
const { PutItemCommand } = await import('@aws-sdk/client-dynamodb')
const day = 86_400_000
for (const days of [10, 30, 60, 36_500]) {
	const created = Date.now() - 3_600_000, expires = Math.ceil((created + days * day) / 1000)
	const key = { pk: { S: 'grace of ' + days + ' days' } }
	await db.send(new PutItemCommand({ TableName: table, Item: { ...key, created_at: { S: new Date(created).toISOString() }, ttl: { N: String(expires) }, slidingttl_version: { N: '7' } } }))
	const toucher = new Toucher(new DynamoDBDriver(db, table), { idle: days * day, max: 10 * days * day })
	await toucher.get(key.pk.S, (err) => want(key.pk.S, String(err), 'no error'))
	want(key.pk.S, (await toucher.peek(key.pk.S)).life.expires > expires * 1000, true)
}

const redis = new Redis(Number(port))
const now = (await redis.time())[0] * 1000
await redis.set('up', '\0sl1 ' + metaText({ created: now, expires: now + 10_000 }, '9f86d081884c7d65') + ' {}')
const store = new RedisDriver(redis, { now: () => now + 0.001 })
want('an access in the middle of a millisecond', (await new Toucher(store, { idle: 20_000, max: 50_000 }).get('up')).life.expires, now + 20_001)
redis.disconnect()
process.exit(failed ? 1 : 0)
`, portOf(t, redisAddr), endpoint, table)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
