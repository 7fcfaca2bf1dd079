# Sallyport. `make demo` shows the main job, `make demo-forge` a pull request on a real forge; `make test` runs every test. Both say what they miss.
GO      ?= go
BIN     := bin
PREFIX  ?= /usr/local
export CGO_ENABLED = 0

.PHONY: all build demo demo-forge test check bench load fuzz sim crash containment install clean

all: build

build:
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/ ./cmd/...

demo: build
	@scripts/demo.sh

# KEEP=--keep leaves the forge running until Enter.
demo-forge: build
	@scripts/demo-forge.sh $(KEEP)

test: 
	@scripts/test.sh

check:
	$(GO) vet ./...
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

bench: build
	@scripts/bench.sh

# More than a person does (docs/BENCHMARKS.md): LOAD="-only idle -idle 100" for less of it.
load: build
	$(GO) run ./tools/load $(LOAD)

# What untrusted code can still do, here and under the peers: makes the table of docs/CONTAINMENT.md anew.
containment: build
	@scripts/containment.sh

FUZZTIME ?= 20s
fuzz:
	@scripts/fuzz.sh $(FUZZTIME)

# Whole histories in memory (docs/RELIABILITY.md). `make sim SEED=7 N=1` shows one step by step.
N    ?= 100000
SEED ?= 1
sim:
	$(GO) test -count=1 -timeout 0 -run '^TestHistories$$' -v ./test/sim -args -n $(N) -seed $(SEED)

# Each party killed, or told that something failed, at each of its effects; writes the table in docs/RELIABILITY.md. It takes an
# hour or two: with RESULTS=FILE it can be ended and goes on from there.
crash:
	$(GO) test -count=1 -timeout 0 -run '^TestMatrix$$' -v ./test/crash -args -matrix -results "$(RESULTS)"

install: build
	install -d $(PREFIX)/bin
	install -m 0755 $(BIN)/sallyport $(BIN)/sallyport-keeper $(BIN)/sallyport-runner $(BIN)/sallyport-publisher $(BIN)/sallyport-hostile $(PREFIX)/bin/

clean:
	rm -rf $(BIN)
