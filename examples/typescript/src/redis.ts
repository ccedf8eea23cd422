// Records on Redis, by docs/specification.md.

import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { Driver, Life, Meta, Stored } from './policy.js'

const mark = '\0sl1 ', latest = 999_999_999_999_999

const half = () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, '0') // of a version
const pad = (at: number) => String(at).padStart(15, '0')
export const metaText = (l: Life, version: string) => `${pad(l.created)} ${pad(l.expires)} ${version}`

function parseHeader(text: string): { life: Life; version: string } {
	const m = /^(\d{15}) (\d{15}) ((?!0{16})[0-9a-f]{16}) $/.exec(text)
	if (!m) throw new Error('header must have created_at and the expiry as 15 digits each and the version as 16 hexadecimal digits, not all zero, with a space after each')
	return { life: { created: Number(m[1]), expires: Number(m[2]) }, version: m[3] }
}

// The server's time decides, and the caller's where that is later. The answer is 1, 0 for a record that is
// dead or absent, or the header that is stored instead.
const touch = `
local key, head, foreign = KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 53), nil
local meta = string.sub(head, 6, 53)
if string.sub(head, 1, 5) ~= '\\0sl1 ' then
  foreign = redis.call('GET', key)
  if not foreign then return 0 end
  local expiry = math.min(math.max(redis.call('PEXPIRETIME', key), 0), 999999999999999)
  meta = string.format('%015.0f %015.0f %s', 0, expiry, string.sub(redis.sha1hex(foreign), 1, 16))
end
local time = redis.call('TIME')
local now = math.max(ARGV[1], time[1] * 1000 + math.floor(time[2] / 1000))
local expiry = tonumber(string.sub(meta, 17, 31))
if expiry and expiry ~= 0 and expiry <= now then return 0 end
if meta ~= ARGV[2] or not foreign and string.sub(head, 54) ~= ' ' then
  return meta .. (foreign and ' ' or string.sub(head, 54))
end
if foreign then redis.call('SET', key, '\\0sl1 ' .. ARGV[3] .. ' ' .. foreign, 'KEEPTTL') end
redis.call('PEXPIREAT', key, ARGV[4])
if not foreign and redis.call('SETRANGE', key, 5, ARGV[3]) < 54 then
  redis.call('DEL', key)
end
return 1`

export interface Options {
	retain?: number // as in every other process
	now?: () => number // in tests; else the server's time is used
}

export class RedisDriver implements Driver<Meta, Buffer> {
	readonly step = 1
	constructor(private readonly client: Redis, private readonly opts: Options = {}) {}

	async read(key: string): Promise<Stored<Buffer> | undefined> {
		const answers = await this.client.multi().getBuffer(key).pexpiretime(key).time().exec()
		const [bytes, expiry, time] = answers!.map(([err, answer]) => {
			if (err) throw err
			return answer
		}) as [Buffer | null, number, [number, number]]
		const at = this.opts.now?.() ?? Number(time[0]) * 1000 + Number(time[1]) / 1000
		const now = Math.floor(at), times = { began: now, now, up: Math.ceil(at) }
		if (!bytes) return undefined
		if (bytes.toString('latin1', 0, 5) !== mark) {
			const version = createHash('sha1').update(bytes).digest('hex').slice(0, 16)
			return { value: bytes, life: { created: 0, expires: Math.min(Math.max(expiry, 0), latest) }, version, ...times }
		}
		return { value: bytes.subarray(54), ...parseHeader(bytes.toString('latin1', 5, 54)), ...times }
	}

	async touch(key: string, was: Meta, to: Life): Promise<'landed' | 'gone' | Meta> {
		const version = was.life.created === 0 ? half() + half() : was.version
		const answer = await this.client.eval(touch, 1, key, was.now, metaText(was.life, was.version),
			metaText(to, version), to.expires + Math.ceil(this.opts.retain ?? 0))
		if (answer === 1) return 'landed'
		if (answer === 0) return 'gone'
		return { ...was, ...parseHeader(String(answer)) }
	}
}
