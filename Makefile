# make test: all checks and tests. make bench, make fuzz, make figures: see README.md.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 10s

.PHONY: test lint unit fuzz figures bench bench-quick bench-test

test: lint unit bench-test

lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) ./...

unit:
	$(GO) test -race -shuffle=on ./...

# Each fuzz target for FUZZTIME; make test runs their seeds only.
fuzz:
	@$(GO) list ./... | while read -r pkg; do \
		$(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' | while read -r target; do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done || exit 1; \
	done

figures:
	$(GO) test -run '^$$' -bench 'Figure' -benchtime 1s ./slidingttl

# Side by side with other libraries, in a module of its own: see bench/README.md.
bench:
	cd bench && $(GO) run . -readme ../README.md

# The same with fewer rounds, in under 50 seconds; the results go to bench/quick.
bench-quick:
	cd bench && $(GO) run . -quick -out quick

# The benchmark programs themselves: that they build, are tidy, and still run.
bench-test:
	cd bench && $(GO) vet ./... && $(GO) mod tidy -diff && $(GO) run $(STATICCHECK) ./... && $(GO) test -race -shuffle=on ./...
