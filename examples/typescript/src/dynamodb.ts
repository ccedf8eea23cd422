// Records on DynamoDB, by docs/specification.md. Items whose lives stand in a second table are refused.

import { ConditionalCheckFailedException, GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb'
import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb'
import type { Driver, Life, Meta, Stored } from './policy.js'

export type Item = Record<string, AttributeValue>

const written = ['created_at', 'ttl', 'slidingttl_version', 'slidingttl_expiry'] as const

/** The Number n as an instant: seconds below 1e11, else milliseconds. cut: it was finer than that. */
function parseNumber(text: string): { at: number; cut: boolean } | undefined {
	const m = /^(\d+)\.?(\d*)$/.exec(text)
	const n = Number(m?.[1] ?? NaN)
	if (!m || !(n < 1e14)) return undefined
	const digits = n < 1e11 ? 3 : 0
	const at = n * 10 ** digits + Number(m[2].padEnd(digits, '0').slice(0, digits))
	return { at, cut: /[1-9]/.test(m[2].slice(digits)) }
}

/** RFC 3339 as milliseconds, rounded down, and whether it was finer. */
function parseTime(text: string): { at: number; cut: boolean } | undefined {
	const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text)
	if (!m || new Date(Date.parse(m[1] + 'Z') || 0).toISOString().slice(0, 19) !== m[1]) return undefined // no such day or hour
	const at = Date.parse(m[1] + m[3]) + Number((m[2] ?? '').padEnd(3, '0').slice(0, 3))
	return Number.isFinite(at) ? { at, cut: /[1-9]/.test((m[2] ?? '').slice(3)) } : undefined
}

const zeroTime = Date.parse('0001-01-01T00:00:00Z') // Go's, for none
const none = (av?: AttributeValue) => av === undefined || av.NULL === true

function odd(name: string): Error { return new Error(`attribute ${name} cannot be read`) }

export function parseCreated(av?: AttributeValue): number {
	if (none(av) || av!.S === '') return 0
	const i = av!.S !== undefined ? parseTime(av!.S) : av!.N !== undefined ? parseNumber(av!.N) : undefined
	if (i?.at === zeroTime) return 0
	if (!i || i.at < 0) throw odd('created_at')
	return i.at
}

export function parseExpiry(av?: AttributeValue): number {
	if (none(av)) return 0
	if (av!.N?.startsWith('-')) return 1
	const i = parseNumber(av!.N ?? av!.S ?? '') ?? (av!.S !== undefined ? parseTime(av!.S) : undefined)
	if (!i) throw odd('ttl')
	return Math.max(i.at + (i.cut ? 1 : 0), 1)
}

export function lifeOf(item: Item): Life {
	const life = { created: parseCreated(item.created_at), expires: parseExpiry(item.ttl) }
	const beside = item.slidingttl_expiry?.M
	if (beside?.ttl?.N === undefined || beside.ttl.N !== item.ttl?.N) return life
	if (beside.generation) throw new Error('the expiry is in a life table')
	if (beside.at?.N === undefined) throw odd('slidingttl_expiry')
	return { ...life, expires: Math.min(parseExpiry(beside.at), life.expires) }
}

const seconds = (at: number): AttributeValue => ({ N: String(at / 1000) })

/** created_at as it is written; a Number, and the form without trailing zeros, are kept. */
function createdAt(av: AttributeValue | undefined, created: number): AttributeValue {
	const text = new Date(created).toISOString()
	const short = text.replace(/\.?0+Z$/, 'Z')
	return av?.N !== undefined || av?.S === short ? av! : { S: text }
}

export interface DynamoDBMeta extends Meta { item: Item }

export interface Options {
	partitionKey?: string // its name; the value is the record's key
	retain?: number // as in every other process
	now?: () => number
}

export class DynamoDBDriver implements Driver<DynamoDBMeta, Item> {
	readonly step = 1000
	private readonly now: () => number
	constructor(private readonly client: DynamoDBClient, private readonly table: string, private readonly opts: Options = {}) {
		this.now = opts.now ?? Date.now
	}

	private key(key: string): Item { return { [this.opts.partitionKey ?? 'pk']: { S: key } } }

	private meta(item: Item, began: number): DynamoDBMeta {
		const now = this.now()
		return { item, life: lifeOf(item), version: item.slidingttl_version?.N ?? '', began, now, up: this.opts.now ? now : now + 1 } // Date.now rounds down
	}

	/** Reads are strongly consistent: a stale one could show a record dead that was just touched. */
	async read(key: string): Promise<DynamoDBMeta & Stored<Item> | undefined> {
		const began = this.now()
		const { Item: item } = await this.client.send(new GetItemCommand({ TableName: this.table, Key: this.key(key), ConsistentRead: true }))
		return item && { ...this.meta(item, began), value: item }
	}

	/** The item must still have the four attributes that were read. So it does no harm if the SDK sends it twice. */
	async touch(key: string, was: DynamoDBMeta, to: Life): Promise<'landed' | 'gone' | DynamoDBMeta> {
		if (was.life.expires !== 0 && was.life.expires <= this.now()) return 'gone'
		const held = Math.ceil((to.expires + (this.opts.retain ?? 0)) / 1000) * 1000
		const next: Item = { created_at: createdAt(was.item.created_at, to.created), ttl: seconds(held) }
		if (held !== to.expires) next.slidingttl_expiry = { M: { at: seconds(to.expires), ttl: seconds(held) } }
		if (none(was.item.slidingttl_version)) next.slidingttl_version = { N: String(1 + Math.floor(Math.random() * 2 ** 53)) }
		const names: Record<string, string> = {}, values: Item = {}
		const conditions = [`attribute_exists(#k)`], set: string[] = []
		names['#k'] = this.opts.partitionKey ?? 'pk'
		for (const [i, name] of written.entries()) {
			names[`#${i}`] = name
			if (was.item[name]) values[`:was${i}`] = was.item[name]
			conditions.push(was.item[name] ? `#${i} = :was${i}` : `attribute_not_exists(#${i})`)
			if (!next[name]) continue
			values[`:to${i}`] = next[name]
			set.push(`#${i} = :to${i}`)
		}
		const update = `SET ${set.join(', ')}` + (next.slidingttl_expiry ? '' : ' REMOVE #3')
		// A write that waits longer than the record lives could revive it.
		const left = was.life.expires === 0 || this.opts.now ? undefined : AbortSignal.timeout(Math.min(Math.max(was.life.expires - this.now(), 1000), 2 ** 31 - 1))
		try {
			await this.client.send(new UpdateItemCommand({
				TableName: this.table, Key: this.key(key), UpdateExpression: update, ConditionExpression: conditions.join(' AND '),
				ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
			}), { abortSignal: left })
			return 'landed'
		} catch (err) {
			if (!(err instanceof ConditionalCheckFailedException)) throw err
			if (!err.Item) return 'gone'
			const found = this.meta(err.Item, was.began)
			const wrote = found.life.created === to.created && found.life.expires === to.expires // by an attempt whose answer was lost
			return wrote ? 'landed' : found.life.expires !== 0 && found.life.expires <= found.now ? 'gone' : found
		}
	}
}
