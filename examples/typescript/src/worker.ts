// Reads and touches keys until its input ends, and prints each access, for the test at night:
// node dist/worker.js STORE ADDRESS TABLE POLICY KEYS

import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { Redis } from 'ioredis'
import { DynamoDBDriver } from './dynamodb.js'
import { Toucher, type Policy } from './policy.js'
import { RedisDriver } from './redis.js'

const [store, address, table, text, keys] = process.argv.slice(2)
const policy: Policy = JSON.parse(text)
const toucher: Toucher<any, any> = store === 'redis'
	? new Toucher(new RedisDriver(new Redis(Number(address))), policy, 'adopt', 1000)
	: new Toucher(new DynamoDBDriver(new DynamoDBClient({ endpoint: address, region: 'local', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } }), table), policy)

let open = true
process.stdin.on('end', () => { open = false }).resume()

while (open) {
	const began = Date.now()
	// Half of the keys are left alone for a while, and die of idleness.
	const n = Math.floor(Math.random() * Number(keys) / 2) * 2 + Math.floor(began / (4 * policy.idle)) % 2
	let failed = ''
	const r = await toucher.get(`k${n}`, (err) => { failed = String(err) })
	const value = r && (store === 'redis' ? JSON.parse(r.value.toString()).v : r.value.v.S)
	console.log(JSON.stringify({ key: `k${n}`, began, ended: Date.now(), created: r?.life.created ?? 0, value: value ?? '', failed }))
}
process.exit(0)
