# Sallyport. `make demo` shows the main job; `make test` runs every test. Both say what they miss.
GO      ?= go
BIN     := bin
PREFIX  ?= /usr/local
export CGO_ENABLED = 0

.PHONY: all build demo test check bench fuzz install clean

all: build

build:
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/ ./cmd/...

demo: build
	@scripts/demo.sh

test: 
	@scripts/test.sh

check:
	$(GO) vet ./...
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

bench: build
	@scripts/bench.sh

FUZZTIME ?= 20s
fuzz:
	@scripts/fuzz.sh $(FUZZTIME)

install: build
	install -d $(PREFIX)/bin
	install -m 0755 $(BIN)/sallyport $(BIN)/sallyport-keeper $(BIN)/sallyport-runner $(PREFIX)/bin/

clean:
	rm -rf $(BIN)
