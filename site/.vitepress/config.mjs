import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

// The site's pages are the documents of the repository as they stand. A link from one of them to
// another stays in the site; one to any other file leads to the repository.
const root = fileURLToPath(new URL('../..', import.meta.url))
const repository = 'https://github.com/slidingttl/slidingttl'

const groups = [
	['Start', { 'What it is': 'README.md', 'Sessions': 'middleware/README.md', 'The promises': 'docs/promises.md', 'The specification': 'docs/specification.md', 'Beside other libraries': 'docs/compare.md' }],
	['Run it', {
		'Running it': 'docs/operations.md', 'Metrics and traces': 'telemetry/README.md', 'How many touches': 'docs/capacity.md',
		'Adopting a keyspace': 'docs/adopting.md', 'The command': 'cmd/slidingttl/README.md', 'Deploying it': 'examples/deploy/README.md',
	}],
	['Stores', {
		'Couchbase': 'drivers/couchbase/README.md', 'Cosmos DB': 'drivers/cosmos/README.md', 'DynamoDB': 'drivers/dynamodb/README.md',
		'Redis and Valkey': 'drivers/redis/README.md', 'go-redis': 'drivers/redis/goredis/README.md', 'SQL': 'drivers/sql/README.md',
		'pgx': 'drivers/sql/pgxsql/README.md', 'A hot tier': 'drivers/hot/README.md',
	}],
	['After death', { 'Retaining': 'docs/retaining.md', 'The archive': 'docs/archive.md', 'Its package': 'archive/README.md', 'SQL over it': 'docs/queries.md' }],
	['Build on it', {
		'Writing a driver': 'docs/writing-a-driver.md', 'From TypeScript': 'examples/typescript/README.md', 'Couchbase in a test': 'drivers/couchbase/couchbasetest/README.md',
		'Cosmos DB in a test': 'drivers/cosmos/cosmostest/README.md', 'Benchmarks': 'bench/README.md', 'Results': 'bench/RESULTS.md',
	}],
	['Project', { Changelog: 'CHANGELOG.md', Contributing: 'CONTRIBUTING.md', Security: 'SECURITY.md' }],
]
const pages = new Set(groups.flatMap(([, items]) => Object.values(items)))

const others = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '*.md', ':!:**/node_modules/**'], { cwd: root, encoding: 'utf8' })
	.split('\0').filter((f) => f && !pages.has(f))

// A page's place in the site, without .html.
const place = (page) => page.replace(/(^|\/)README\.md$/, '$1index.md')
const address = (page) => '/' + place(page).replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')

function resolve(from, href) {
	if (/^([a-z]+:|#|\/\/)/.test(href)) return href
	const [to, hash] = href.split('#')
	const file = path.posix.join(path.posix.dirname(from), to).replace(/\/$/, '')
	const page = [file, path.posix.join(file, 'README.md')].find((f) => pages.has(f))
	if (page) return address(page) + (hash ? '#' + hash : '')
	const name = path.join(root, file)
	if (!existsSync(name)) throw new Error(`${from} links ${href}, which is not there`)
	return `${repository}/${statSync(name).isDirectory() ? 'tree' : 'blob'}/main/${file}`
}

function links(md) {
	md.renderer.rules.code_block = (tokens, i, _, __, self) =>
		`<pre v-pre${self.renderAttrs(tokens[i])}><code>${md.utils.escapeHtml(tokens[i].content)}</code></pre>\n`
	md.core.ruler.push('repository', ({ tokens, env }) => {
		const from = path.posix.relative(root, env.realPath ?? env.path)
		for (const [n, { type, children }] of tokens.entries()) {
			// A head cell without text heads nothing.
			if (type === 'th_open' && !tokens[n + 1].content) tokens[n].tag = tokens[n + 2].tag = 'td'
			if (type === 'code_block') tokens[n].attrSet('tabindex', '0') // it scrolls
			for (const [i, t] of (children ?? []).entries()) {
				if (t.type === 'link_open') t.attrSet('href', resolve(from, t.attrGet('href')))
				// A badge is an image from elsewhere: its link becomes text.
				if (t.type === 'image' && /^https?:/.test(t.attrGet('src'))) {
					Object.assign(t, { type: 'text', content: t.content + ' ' })
				}
			}
		}
	})
}

// GitHub's anchors, which the documents link by.
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-')

export default defineConfig({
	title: 'slidingttl',
	description: 'Records that expire when nobody reads them and when they are old, on stores that know one expiry',
	lang: 'en',
	base: process.env.SITE_BASE ?? '/',
	srcDir: '..',
	srcExclude: others,
	rewrites: (page) => place(page),
	cleanUrls: false,
	metaChunk: true,
	vite: {
		plugins: [{
			// Pages lie outside of this folder, and what they are compiled to imports from here.
			name: 'vue', enforce: 'pre',
			resolveId(id) { return /^vue(\/|$)/.test(id) ? this.resolve(id, fileURLToPath(import.meta.url), { skipSelf: true }) : null },
		}],
	},
	markdown: {
		anchor: { slugify },
		config: links,
		theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
		toc: { slugify },
	},
	themeConfig: {
		nav: [
			{ text: 'Reference', link: 'https://pkg.go.dev/github.com/slidingttl/slidingttl/slidingttl' },
			{ text: 'Repository', link: repository },
		],
		sidebar: groups.map(([text, items]) => ({ text, items: Object.entries(items).map(([text, page]) => ({ text, link: address(page) })) })),
		outline: [2, 3],
		search: { provider: 'local' },
	},
})
