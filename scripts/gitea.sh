#!/usr/bin/env bash
# Builds the real Gitea that the forge tests run against, once for each version of it and of Go, and prints the folder:
# gitea (the program), static/ (what it reads beside). The first time takes minutes; --have prints or fails, and builds nothing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/need.sh"
module=$root/tools/forge
name=code.gitea.io/gitea
version=$(awk -v m="$name" '$1 == m { print $2; exit }' "$module/go.mod")
go=$(cd "$module" && go env GOVERSION)
# Not /tmp: what takes minutes to build should outlive a boot. Root's is readable by all, as Gitea does not run as root.
if [ "$(id -u)" = 0 ]; then cache=/var/cache/sallyport; else cache=${XDG_CACHE_HOME:-$HOME/.cache}/sallyport; fi
dir=$cache/gitea-$version-$go
if [ -x "$dir/gitea" ]; then echo "$dir"; exit 0; fi
[ "${1:-}" != --have ] || { echo "missing: Gitea $version built with $go. Call scripts/gitea.sh once." >&2; exit 1; }
need go golang
need gcc gcc
need git git
need flock util-linux
umask 022
mkdir -p "$cache"
exec 9>"$cache/gitea.lock"
flock 9
if [ -x "$dir/gitea" ]; then echo "$dir"; exit 0; fi
new=$dir.new
rm -rf "$new"
mkdir -p "$new/static/public/assets/.vite"
echo "building Gitea $version with $go (once, some minutes)" >&2
cd "$module"
go mod download "$name"
src=$(go list -m -f '{{.Dir}}' "$name")
CGO_ENABLED=1 nice go build -trimpath -ldflags "-s -w -X main.Version=${version#v}" \
	-tags 'sqlite sqlite_unlock_notify' -o "$new/gitea" "$name" >&2
cp -r --no-preserve=mode,ownership "$src/templates" "$src/options" "$new/static/"
echo '{}' >"$new/static/public/assets/.vite/manifest.json" # its pages are not built: only the API is asked
rm -rf "$dir"
mv "$new" "$dir"
echo "$dir"
