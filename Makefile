# admitd: everything a developer does has a name here. `make help` lists them.

SHELL := /usr/bin/env bash -euo pipefail
.DEFAULT_GOAL := help

GO      ?= go
BIN     := $(CURDIR)/bin
TOOL    := $(GO) tool -modfile=tools/go.mod
LINT    := $(BIN)/golangci-lint
LINTVER := v2.15.0
FUZZ_S  ?= 20s
COUNT   ?= 10
REF     ?= HEAD~1
RUNARGS ?=

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# Rooms where goroutines share state: they are tested a second time with the
# race detector. The rest is single-threaded arithmetic and parsing; internal/arch
# fails when a room with goroutines, locks or atomics is missing.
RACE_ROOMS ?= algorithms client clock cmd limiter observe internal/admin internal/baseline internal/config/watch internal/daemon \
  internal/decide internal/demo internal/eventqueue internal/fleet internal/history internal/httpjson internal/ingress \
  internal/lab internal/modelhttp internal/modelmongo internal/modelpostgres internal/modelpulsar internal/modelwork \
  internal/mongowire internal/shadow internal/testkit internal/top internal/topkeys internal/tracing internal/tuner
RACE_PKGS   = $(foreach d,$(RACE_ROOMS),$(if $(wildcard $(d)),./$(d)/...))

# Every directory with a go.mod of its own: heavy test parts that must stay out
# of the product's dependency graph.
NESTED = $(shell find . -mindepth 2 -name go.mod -not -path './.bench-ref/*' -not -path './bin/*' -printf '%h\n' | sort)

# Grounds of the proving range; empty = all.
GROUND ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/admitd, static
	CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags '$(LDFLAGS)' -o $(BIN)/admitd ./cmd/admitd

PREFIX ?= /usr/local

install: build ## install the program and its shell completions below PREFIX (/usr/local)
	install -D -m 0755 $(BIN)/admitd $(DESTDIR)$(PREFIX)/bin/admitd
	for shell in bash:share/bash-completion/completions/admitd zsh:share/zsh/site-functions/_admitd fish:share/fish/vendor_completions.d/admitd.fish; do \
	  mkdir -p "$(DESTDIR)$(PREFIX)/$$(dirname "$${shell#*:}")"; \
	  $(BIN)/admitd completion "$${shell%%:*}" > "$(DESTDIR)$(PREFIX)/$${shell#*:}"; done

run: build ## build, then run the demo (RUNARGS="--for 10s")
	$(BIN)/admitd demo $(RUNARGS)

test: deps ## install what the tests need, then run every test of every module
	@mkdir -p $(BIN) && rm -f $(BIN)/skipped
	@ADMITD_SKIPPED=$(BIN)/skipped scripts/go-test.sh $(GO) test -timeout 10m ./...
	$(GO) test -timeout 10m -race -short $(RACE_PKGS)
	@ADMITD_SKIPPED=$(BIN)/skipped $(MAKE) --no-print-directory test-nested
	@scripts/skipped.sh $(BIN)/skipped

test-quick: ## the tests of the main module that need no server of others, without the race detector
	$(GO) test -timeout 5m -short ./...

test-nested: ## the tests of the nested modules only, less the proving range
	@for d in $(filter-out ./proving/%,$(NESTED)); do \
	  if [[ -z "$$(cd $$d && $(GO) list ./... 2>/dev/null)" ]]; then continue; fi; \
	  echo "== $$d"; (cd $$d && $(CURDIR)/scripts/go-test.sh $(GO) test -timeout 10m ./...); \
	done

prove: build ## real servers and foreign clients; GROUND=postgres for one, PROVE_STRICT=1 fails what is absent
	@proving/run.sh $(GROUND)

prove-table: ## bring what make prove showed into docs/proving.md
	@proving/table.sh

deps: ## Debian packages the tests use; needs root only when one is missing
	@scripts/install-test-deps.sh

check: fmt-check lint vet arch tidy-check test ## everything a commit must pass

race: ## all packages with the race detector
	$(GO) test -race -count=1 ./...

cpus: ## all packages at 1, 2 and 4 processors, race detector, uncached
	$(GO) test -race -short -count=1 -cpu 1,2,4 ./...

arch: ## import directions and house rules
	$(GO) test -count=1 ./internal/arch

vet: ## go vet, and a build for the other systems on which top, client and lab may run
	$(GO) vet ./...
	@for os in darwin windows; do echo "== $$os"; GOOS=$$os $(GO) build ./... || exit 1; done

lint: $(LINT) ## golangci-lint, in every module
	$(LINT) run --allow-parallel-runners ./...
	@for d in $(NESTED); do \
	  if [[ -z "$$(cd $$d && $(GO) list ./... 2>/dev/null)" ]]; then continue; fi; \
	  echo "== $$d"; (cd $$d && $(LINT) run --allow-parallel-runners ./... 2> >(grep -v exclusion_rules >&2)); \
	done

fmt: $(LINT) ## rewrite formatting
	$(LINT) fmt ./...

fmt-check: $(LINT) ## what fmt would change
	$(LINT) fmt --diff ./...

tidy-check: ## go.mod and go.sum of every module say what the code says
	$(GO) mod tidy -diff
	@for d in $(NESTED); do (cd $$d && $(GO) mod tidy -diff); done

$(LINT):
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTVER)

measure: ## the figures in docs, as tests that assert times: on a quiet machine only
	ADMITD_BENCH=1 $(GO) test -count=1 -v -run 'Cost|Idle|Storm|Neighbour|Scrap' ./internal/ingress/... ./observe ./dashboards
	cd internal/testkit/mongobackend && ADMITD_BENCH=1 $(GO) test -count=1 -v -run Overload .
	ADMITD_BENCH=1 $(GO) test -count=1 -v -run EightProcesses -bench Script ./internal/fleet

# What fuzzing finds interesting is kept here; what fails goes to testdata.
FUZZ_CORPUS ?= $(HOME)/.cache/admitd-fuzz

fuzz: ## every fuzz target for FUZZ_S seconds each; the corpus is kept in FUZZ_CORPUS
	@$(GO) list ./... | while read -r p; do \
	  { $(GO) test -list '^Fuzz' "$$p" | grep '^Fuzz' || true; } | while read -r f; do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(if $(filter %s %m %h %x,$(FUZZ_S)),$(FUZZ_S),$(FUZZ_S)s) "$$p" \
	      -args -test.fuzzcachedir="$(FUZZ_CORPUS)/$$p" || exit 1; \
	  done || exit 1; \
	done

SOAK ?= 100000000
soak: ## 10^8 decisions under the race detector, permits counted by the test (SOAK=…)
	ADMITD_SOAK=$(SOAK) $(GO) test -race -count=1 -timeout 12h -run PermitsAreConserved ./limiter

mutants: ## 47 small mutations of limiter, algorithms, lab and config, each of which a test must catch
	scripts/mutants.sh

bench: ## benchmarks of the main module, COUNT runs each
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bench.new

# Comparisons of bench-all; empty = all.
NAMES ?=

bench-all: ## every comparison with its peers, written into docs/performance.md; NAMES=wire for one
	scripts/bench-all.sh $(NAMES)

bench-compare: ## benchmarks here against REF, with benchstat
	rm -rf .bench-ref && git worktree prune && git worktree add --detach .bench-ref $(REF)
	trap 'git worktree remove --force .bench-ref' EXIT; \
	  (cd .bench-ref && $(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./... > ../bench.old); \
	  $(MAKE) --no-print-directory bench > /dev/null; \
	  $(TOOL) benchstat bench.old bench.new

cover: ## coverage over the whole main module
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./... > /dev/null
	$(GO) tool cover -func=cover.out | tail -1

vuln: ## known vulnerabilities; needs the network, or VULNDB=/path/to/a/mirror
	@if [[ -n "$${VULNDB:-}" ]]; then \
	  test -s "$$VULNDB/index/db.json" || { echo "vuln: no database in $$VULNDB" >&2; exit 1; }; \
	  echo "database: $$(cat "$$VULNDB/index/db.json")"; \
	  $(TOOL) govulncheck -db "file://$$VULNDB" ./...; \
	else $(TOOL) govulncheck ./...; fi

lab: build ## run the overload lab, rewrite docs/lab/results.md and the table in README.md; the page is bin/lab.html
	cd internal/lab/peers && $(GO) test -count=1 -timeout 2h -run WriteComparison . -args -out $(CURDIR)/docs/lab/peers.json
	$(BIN)/admitd lab report --peers docs/lab/peers.json --out docs/lab/results.md --insert README.md --html $(BIN)/lab.html

lab-full: build ## every variant of every scenario; the report is bin/lab-full.md, the page bin/lab-full.html
	$(BIN)/admitd lab report --full --out $(BIN)/lab-full.md --html $(BIN)/lab-full.html

lab-targets: build ## what the default reaches of its targets, in every variant: docs/lab/targets.md
	$(BIN)/admitd lab run --full --algorithm none,knee+queue --targets docs/lab/targets.md > $(BIN)/lab-targets.txt

lab-ceilings: build ## compute the best fixed limits of scenarios that have changed, into internal/lab/ceilings.json
	$(BIN)/admitd lab ceilings --full --from internal/lab/ceilings.json --out internal/lab/ceilings.json

FALSIFY ?= --for 3m
lab-falsify: build ## search for the scenarios in which the default does worst, into bin/falsify (FALSIFY="--for 10m --seed 7")
	$(BIN)/admitd lab falsify $(FALSIFY) --out $(BIN)/falsify --json $(BIN)/falsify.json

docs: ## rewrite the generated documents
	$(GO) generate ./...

packages: ## deb, rpm, chart, bill of materials and release notes, into bin/packages; ARCH=arm64
	scripts/packages.sh

packages-test: ## build the packages twice, install them in throw-away roots, lint and render the chart
	scripts/packages-test.sh

image: ## build the container image as far as this machine allows
	scripts/verify-image.sh

clean: ## remove what the other targets leave behind
	rm -rf $(BIN)/admitd cover.out bench.new bench.old .bench-ref

.PHONY: help build install run test test-nested prove prove-table deps check race cpus arch vet lint fmt fmt-check tidy-check \
  measure fuzz soak mutants bench bench-all bench-compare cover vuln lab lab-full lab-targets lab-ceilings lab-falsify docs packages packages-test image clean
