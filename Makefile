# make test: all checks and tests. make cover, make fuzz, make figures: see README.md.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 10s

.PHONY: test lint unit browser fuzz figures

test: lint unit

lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet -tags browser ./...
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) -tags browser ./...

unit:
	$(GO) test -race -shuffle=on ./...
	cd bench && $(GO) vet ./... && $(GO) test ./...

# The session example in headless Chromium, which must be on the PATH.
browser:
	$(GO) test -race -tags browser -run Browser ./examples/sessions

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
