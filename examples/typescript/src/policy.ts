// The arithmetic and the decisions of docs/specification.md; numbers in comments are its rules.
// Durations and instants are whole milliseconds.

export interface Policy { idle: number; max: number; slack?: number; max_slack?: number; promote?: boolean }

/** Zero means none: a record of another program has no created_at, and some have no expiry. */
export interface Life { created: number; expires: number }

export type Foreign = 'adopt' | 'read only' | 'reject'

/** Rule is a policy on a store of a resolution, for processes whose clocks are at most skew apart. */
export class Rule {
	constructor(readonly policy: Policy, readonly step: number, readonly skew: number) {}

	cap(created: number) { return created + this.policy.max } // A1
	deadline(created: number, at: number) { // A2
		return this.policy.promote ? this.cap(created) : Math.min(at + this.policy.idle, this.cap(created))
	}
	expiry(created: number, at: number) { // A3
		return this.policy.promote ? this.up(this.cap(created)) : this.written(created, at)
	}
	written(created: number, at: number) { // A4
		return this.up(Math.min(at + this.policy.idle + (this.policy.slack ?? 0), this.cap(created)))
	}
	up(at: number) { return Math.ceil(at / this.step) * this.step } // A5

	dead(l: Life, now: number) { // L1
		return l.expires !== 0 && l.expires <= now || l.created !== 0 && this.cap(l.created) <= now
	}
	due(l: Life, at: number) { return l.created === 0 || l.expires < this.deadline(l.created, at) } // D1

	/** What a touch that is due writes. */
	touched(l: Life, at: number): Life {
		if (l.created === 0) return { created: at, expires: this.expiry(at, at) } // F1
		return { created: l.created, expires: Math.max(l.expires, this.expiry(l.created, at)) } // D3
	}

	/** The life to which an expiry beyond the policy is lowered. */
	lowered(l: Life, now: number): Life | undefined { // T1, T2
		const { idle, slack = 0, max_slack = 0, promote } = this.policy
		const cap = this.cap(l.created)
		const most = promote ? cap : Math.min(now + idle + Math.max(slack, max_slack), cap)
		if (l.created === 0 || l.expires <= most + this.skew + this.step) return undefined
		return { created: l.created, expires: this.up((promote ? cap : Math.min(now + idle + slack, cap)) + this.skew) }
	}
}

/** Memory is what a process must remember between accesses. */
export class Memory {
	private readonly seed = Math.random()
	private readonly lowered = new Map<string, number>()
	private behindUntil = 0

	/** J: the same until the expiry moves, mostly small, and another in each process (D2). */
	share(rule: Rule, key: string, expires: number): number {
		let h = 0x811c9dc5
		for (const c of `${this.seed} ${expires} ${key}`) h = Math.imul(h ^ c.codePointAt(0)!, 0x01000193)
		h = Math.imul(h ^ h >>> 15, 0x2c1b3c6d)
		const draw = ((h ^ h >>> 13) >>> 0) / 2 ** 32
		return Math.floor((rule.policy.slack ?? 0) / 16 / 6 * -Math.log(1 - draw * (1 - Math.exp(-6))))
	}

	/** What an access writes over a live record, if anything. */
	plan(rule: Rule, key: string, l: Life, now: number, foreign: Foreign): Life | undefined {
		if (l.created > now + rule.skew && l.created < now + 365 * 86_400_000) this.behindUntil = now + 60_000 // T4
		if (l.created === 0 && foreign !== 'adopt') return undefined
		if (rule.due(l, now + this.share(rule, key, l.expires))) return rule.touched(l, now)
		const window = (rule.policy.idle + (rule.policy.slack ?? 0)) / 8 // T3
		if (now < this.behindUntil || now - (this.lowered.get(key) ?? -Infinity) < window) return undefined
		const to = rule.lowered(l, now)
		if (to) {
			if (this.lowered.size > 10_000) this.lowered.clear()
			this.lowered.set(key, now)
		}
		return to
	}
}

/** Meta is a record without its value. began and now are the times before and after it was read; up is now rounded up (A6). */
export interface Meta { life: Life; version: string; began: number; now: number; up: number }

export interface Stored<V> extends Meta { value: V }

/** What a store must do: read, and compare and swap a life. */
export interface Driver<M extends Meta, V> {
	step: number
	/** The record, alive or dead. */
	read(key: string): Promise<M & Stored<V> | undefined>
	/** Writes a life over the record that was read: 'gone' if it is dead or absent, else what is stored instead. */
	touch(key: string, was: M, to: Life): Promise<'landed' | 'gone' | M>
}

export class ForeignError extends Error {}

/** Toucher reads records, and keeps alive what it has read. */
export class Toucher<M extends Meta, V> {
	memory = new Memory()
	private readonly rule: Rule
	constructor(private readonly driver: Driver<M, V>, policy: Policy, readonly foreign: Foreign = 'adopt', skew = 60_000) {
		this.rule = new Rule(policy, driver.step, skew)
	}

	/** The live record, untouched; undefined: there is none. */
	async peek(key: string): Promise<M & Stored<V> | undefined> {
		for (;;) {
			const r = await this.driver.read(key)
			if (!r || this.rule.dead(r.life, r.began)) return undefined
			if (this.rule.dead(r.life, r.now)) continue // it may have been touched meanwhile (L3)
			if (r.life.created === 0 && this.foreign === 'reject') throw new ForeignError('record without created_at')
			return r
		}
	}

	/** The live record, touched if that is due. A touch that fails is the caller's to count: the record was read (C6). */
	async get(key: string, failed: (err: unknown) => void = () => {}): Promise<M & Stored<V> | undefined> {
		const r = await this.peek(key)
		if (!r) return undefined
		let was: M = r
		let to = this.memory.plan(this.rule, key, r.life, r.up, this.foreign)
		try {
			for (let attempt = 0; to && attempt < 16; attempt++) {
				const found = await this.driver.touch(key, was, to)
				if (found === 'gone') return undefined
				if (found === 'landed') return { ...r, life: to }
				if (found.life.created !== r.life.created || found.life.created === 0) return r // another life (C2)
				was = found // planned again; what a conflict handed back is not lowered (T5)
				to = this.rule.due(found.life, r.up) ? this.rule.touched(found.life, r.up) : undefined
			}
		} catch (err) {
			failed(err)
		}
		return r
	}
}
