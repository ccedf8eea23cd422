// Runs the vectors of spec/vectors: node dist/vectors.js DIRECTORY REDIS-PORT DYNAMODB-ENDPOINT TABLE

import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb'
import { Redis } from 'ioredis'
import { DynamoDBDriver, type Item } from './dynamodb.js'
import { ForeignError, Rule, Toucher, type Driver, type Foreign, type Life, type Meta, type Policy } from './policy.js'
import { metaText, RedisDriver } from './redis.js'

const [dir, port, endpoint, table] = process.argv.slice(2)
const load = (name: string) => JSON.parse(readFileSync(`${dir}/${name}.json`, 'utf8'))
const redis = new Redis(Number(port))
const dynamodb = new DynamoDBClient({ endpoint, region: 'local', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } })

let now = 0
let ran = 0
let failed = 0
/** A "?" in what is wanted stands for digits. */
function want(name: string, is: unknown, wanted: unknown) {
	ran++
	const sorted = (v: unknown): string => JSON.stringify(v, (_, x) => x && typeof x === 'object' && !Array.isArray(x) ? Object.fromEntries(Object.entries(x).sort()) : x)
	const pattern = sorted(wanted)?.replace(/[\\^$.*+()[\]{}|]/g, '\\$&').replaceAll('"?"', '"[0-9]+"').replaceAll('?', '[0-9a-f]')
	if (isDeepStrictEqual(is, wanted) || new RegExp(`^${pattern}$`).test(sorted(is))) return
	failed++
	console.log(`${name}: ${sorted(is)}, want ${sorted(wanted)}`)
}

interface Form<S> { name: string; layout?: string; retain?: number; stored: S | null; refused?: boolean; life?: Life; version?: string; value?: string; now?: number; do?: string; writes?: Life; answer?: string; after?: S }

/** A store of the vectors: its stored form S, and how it is read. */
interface Store<S> {
	file: string
	open(retain?: number): Driver<Meta, any>
	put(key: string, form: S): Promise<unknown>
	get(key: string): Promise<S>
	form(l: Life): S
	text(value: any): string
}

const onRedis: Store<{ string: string; pexpiretime: number }> = {
	file: 'redis',
	open: (retain) => new RedisDriver(redis, { retain, now: () => now }),
	put: (key, f) => f.pexpiretime > 0 ? redis.set(key, f.string, 'PXAT', f.pexpiretime) : redis.set(key, f.string),
	get: async (key) => ({ string: (await redis.get(key))!, pexpiretime: await redis.pexpiretime(key) }),
	form: (l) => ({ string: (l.created ? `\0sl1 ${metaText(l, '9f86d081884c7d65')} ` : '') + '{"v":"v1"}', pexpiretime: l.expires }),
	text: (value: Buffer) => value.toString(),
}

const onDynamoDB: Store<{ item: Item; life_item?: Item }> = {
	file: 'dynamodb',
	open: (retain) => new DynamoDBDriver(dynamodb, table, { retain, now: () => now }) as Driver<any, Item>,
	put: (key, f) => dynamodb.send(new PutItemCommand({ TableName: table, Item: { ...f.item, pk: { S: key } } })),
	get: async (key) => {
		const { pk, ...item } = (await dynamodb.send(new GetItemCommand({ TableName: table, Key: { pk: { S: key } }, ConsistentRead: true }))).Item!
		return { item }
	},
	form: (l) => ({
		item: {
			v: { S: 'v1' },
			...l.created && { created_at: { S: new Date(l.created).toISOString() }, slidingttl_version: { N: '4711' } },
			...l.expires && { ttl: { N: String(l.expires / 1000) } },
		},
	}),
	text: (value: Item) => JSON.stringify({ v: value.v.S }),
}

/** An access of a record that is stored: its answer, and what is stored after it. */
async function access<S>(name: string, s: Store<S>, d: { do: string; stored: Life | null; now: number; policy: Policy; skew: number; early?: number; foreign?: Foreign; answer: string; writes: Life | null }) {
	const driver = s.open()
	if (d.stored) await s.put(name, s.form(d.stored))
	now = d.now
	const toucher = new Toucher(driver, d.policy, d.foreign, d.skew)
	toucher.memory.share = () => d.early ?? 0
	let answer: string
	try {
		const fail = (err: unknown) => { throw err }
		answer = await (d.do === 'peek' ? toucher.peek(name) : toucher.get(name, fail)) ? 'ok' : 'not found'
	} catch (err) {
		if (!(err instanceof ForeignError)) throw err
		answer = 'foreign'
	}
	want(name, { answer, stored: (await driver.read(name))?.life ?? null }, { answer: d.answer, stored: d.writes ?? d.stored })
}

async function run<S>(s: Store<S>) {
	const accesses = ['get', 'peek'], step = s.open().step
	for (const d of load('decisions')) {
		if (d.step === step && accesses.includes(d.do)) await access(`${s.file}, ${d.name}, ${d.foreign ?? ''} ${d.do}`, s, d)
	}
	for (const h of load('histories')) {
		let policy: Policy, stored: Life | null = null
		for (const [i, c] of h.calls.entries()) {
			policy = c.policy ?? policy!
			if (h.step === step && accesses.includes(c.do)) {
				await access(`${s.file}, ${h.name}, call ${i}`, s, { do: c.do, stored, now: c.at, policy, skew: h.skew, answer: c.answer, writes: c.stored })
			}
			stored = c.stored
		}
	}
	for (const f of load(s.file) as Form<S>[]) {
		if (f.layout === 'life table' || !f.stored || f.do && f.do !== 'touch') continue // it neither inserts nor overwrites
		const driver = s.open(f.retain), name = `${s.file}, ${f.name}`
		await s.put(name, f.stored)
		now = f.now ?? 0
		const r = await driver.read(name).catch((err: Error) => err)
		if (f.refused || r instanceof Error || !r) {
			want(name, r instanceof Error ? 'refused' : 'read', f.refused ? 'refused' : 'read')
			continue
		}
		if (f.life) want(name, { life: r.life, value: s.text(r.value) }, { life: f.life, value: f.value })
		if (f.version) want(name, r.version, f.version)
		if (f.do !== 'touch' || !f.writes?.created) continue // it takes no adoption back
		const to = { ...f.writes, expires: new Rule({ idle: 1, max: 1 }, step, 0).up(f.writes.expires) }
		const answer = await driver.touch(name, r, to)
		want(name, { answer: answer === 'landed' ? 'ok' : 'not found', after: await s.get(name) }, { answer: f.answer, after: f.after })
	}
}

for (const c of load('arithmetic')) {
	const r = new Rule(c.policy, c.step, 0)
	want(c.name, [r.cap(c.created), r.deadline(c.created, c.access), r.expiry(c.created, c.access), r.written(c.created, c.access)], [c.cap, c.deadline, c.expiry, c.written])
}
await run(onRedis)
await run(onDynamoDB)
console.log(`${ran} vectors, ${failed} failed`)
redis.disconnect()
process.exit(failed ? 1 : 0)
