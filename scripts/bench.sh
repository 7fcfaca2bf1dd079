#!/usr/bin/env bash
# Sallyport against peers and baselines, in one run of at most six minutes: ratios of medians, taken in turns.
# Arguments go to the program: -only start,worktree,tools,attempt,first,secrets,egress,requests  -rounds 15
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/need.sh
need git git
need go golang
need node nodejs
need npm npm
need bwrap bubblewrap
need mitmdump mitmproxy
[ -x bin/sallyport ] || { echo "missing: bin/sallyport. Call: make bench" >&2; exit 1; }
CGO_ENABLED=0 go run ./tools/bench -programs bin "$@"
