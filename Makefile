# Headrace: every task of the house. `make help` lists them; the scripts that they call say how.

SHELL := /bin/bash

# Go 1.26.8 has vulnerabilities that a server can reach; what is built and shipped here is clean.
export GOTOOLCHAIN := go1.27.3
# The version comes by -ldflags below; go's own stamp fails in a checkout of another owner.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

# git is not needed: a source archive builds too, and calls itself devel.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

SEEDS ?= 300
FIRST ?= 1
TIME  ?= 30s

# Of chaos; the seed 0 draws one.
KILLS  ?= 100
SEED   ?= 0
STORES ?= sqlite,postgres

.DEFAULT_GOAL := help
.PHONY: help setup demo test check sim chaos mutants fuzz bench bin/headrace

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need (Debian or Ubuntu), or say what to install
	@scripts/setup

demo: bin/headrace ## build headrace and let it vet, test, build and weigh itself
	bin/headrace run --fresh examples/self-build.yaml

# SQLite is C turned into Go: what the race detector would watch there is no access of ours, and takes four fifths of the time.
RACE := -race -gcflags=modernc.org/...=-race=0

test: setup ## run every test with the race detector, and list what could not run
	@go run ./internal/testreport ./internal/sim # with it, the simulator plays a few of its seeds only
	@go run ./internal/testreport $(RACE) -shuffle=on -timeout=20m ./...

check: ## format, vet, lint, vulnerabilities, modules, cross-builds, generated files
	@scripts/check

sim: ## run the engine in virtual time: make sim SEEDS=5000 [FIRST=1]
	go test ./internal/sim -run '^TestSeeds$$' -count=1 -timeout 0 -seeds $(SEEDS) -first $(FIRST)

chaos: setup ## kill a server and its workers under load, on each store: make chaos [KILLS=100] [SEED=1] [STORES=sqlite,postgres]
	go test -tags chaos ./cmd/headrace -run '^TestChaos$$' -count=1 -timeout 0 -v -artifacts -chaos.kills $(KILLS) -chaos.seed $(SEED) -chaos.stores $(STORES)

mutants: ## plant each known fault and see a test catch it
	@go run ./internal/mutants

fuzz: ## run each fuzz target in turn: make fuzz [TIME=30s]
	@scripts/fuzz $(TIME)

bench: setup ## measure the engine, on SQLite and PostgreSQL and beside River: make bench [BENCH="-only drain,idle"]
	go run ./internal/benchmark $(BENCH)

# Phony: go's own cache knows better than file times whether there is something to do.
bin/headrace:
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/headrace
