#!/usr/bin/env bash
# A pull request on a real forge, a Gitea on loopback that is removed at the end. With --keep it stays, for a person to look at,
# until Enter or Ctrl-C. The "agent" is a shell script; give your own with: sallyport run --agent claude-code -m "…".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/need.sh
keep=
case "${1:-}" in
"") ;;
--keep) keep=yes ;;
*) echo "usage: scripts/demo-forge.sh [--keep]" >&2; exit 2 ;;
esac
need git git
need curl curl
if scripts/gitea.sh --have >/dev/null 2>&1; then echo "Gitea is built already."; else echo "Gitea is built first, once: some 4 minutes on 2 CPUs, and what its sources take to arrive."; fi
built=$(scripts/gitea.sh)
bin=$PWD/bin

work=$(mktemp -d)  # a person's: clone, Publisher's configuration, state
forge=$(mktemp -d) # the forge's
as=()              # how the forge is started: never as root
user=$(id -un)
if [ "$(id -u)" = 0 ]; then
	need setpriv util-linux
	user=nobody
	as=(setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups --)
fi
pid=
tidy() {
	status=$?
	trap '' INT TERM HUP
	for a in ${SALLYPORT_STATE:+$("$bin/sallyport" ps 2>/dev/null | awk 'NR > 1 { print $1 }')}; do "$bin/sallyport" cancel "$a" >/dev/null 2>&1 || true; done
	if [ -n "$pid" ] && kill "$pid" 2>/dev/null; then wait "$pid" 2>/dev/null || true; fi
	chmod -R u+rwX "$work" 2>/dev/null || true
	rm -rf "$work" "$forge"
	exit "$status"
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*"; }
run() { show "$*"; "$@"; }

password=a-password-of-a-demo
start() {
	local port=$((20000 + RANDOM % 20000)) try
	url=http://127.0.0.1:$port
	cat >"$forge/app.ini" <<I
APP_NAME = Sallyport demo
RUN_USER = $user
RUN_MODE = prod
WORK_PATH = $forge
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = $port
ROOT_URL = $url/
STATIC_ROOT_PATH = $built/static
OFFLINE_MODE = true
DISABLE_SSH = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = $forge/gitea.db
[security]
INSTALL_LOCK = true
SECRET_KEY = of-a-demo-on-loopback
PASSWORD_COMPLEXITY = off
[service]
DISABLE_REGISTRATION = true
[repository]
ROOT = $forge/repos
[log]
MODE = file
LEVEL = Warn
ROOT_PATH = $forge/log
[cron.update_checker]
ENABLED = false
[actions]
ENABLED = false
[packages]
ENABLED = false
I
	[ "$user" != nobody ] || chown -R nobody "$forge"
	(cd "$forge" && exec env -i PATH="$PATH" HOME="$forge" USER="$user" GITEA_WORK_DIR="$forge" "${as[@]}" "$built/gitea" web --config "$forge/app.ini") >/dev/null 2>"$work/forge.err" &
	pid=$!
	for try in $(seq 300); do
		kill -0 "$pid" 2>/dev/null || return 1
		curl -fs -o /dev/null "$url/api/healthz" && return 0
		sleep 0.1
	done
	return 1
}
start || start || { cat "$work/forge.err" >&2; echo "Gitea does not start" >&2; exit 1; }
api() { # METHOD PATH JSON, as the owner; another user with $who
	curl -fsS -u "${who:-owner}:$password" -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} "$url/api/v1$2"
}
field() { grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }
(cd "$forge" && env -i PATH="$PATH" HOME="$forge" USER="$user" GITEA_WORK_DIR="$forge" "${as[@]}" "$built/gitea" admin user create --config "$forge/app.ini" \
	--username owner --password "$password" --email owner@example.invalid --admin --must-change-password=false) >/dev/null

say "0. A forge ($url, Gitea $(api GET /version | field version)): an owner, a bot that is a writer of one repository, a main that is protected."
api POST /admin/users '{"username":"bot","email":"bot@example.invalid","password":"'$password'","must_change_password":false}' >/dev/null
api POST /user/repos '{"name":"shop","default_branch":"main","auto_init":true}' >/dev/null
api PUT /repos/owner/shop/collaborators/bot '{"permission":"write"}' >/dev/null
export SALLYPORT_STATE="$work/state" XDG_CONFIG_HOME="$work/config"
sallyport() { "$bin/sallyport" "$@"; }
sallyport-publisher() { "$bin/sallyport-publisher" "$@"; }
mkdir -p "$work/config/sallyport" "$work/shop"
cd "$work/shop"
git init -q -b main
git config user.name Owner && git config user.email owner@example.invalid
printf '#!/bin/sh\n# total PERCENT CENTS...: the sum with a discount, half a cent rounded up.\np=$1; shift; s=0\nfor c in "$@"; do s=$((s + c)); done\necho $((s - s * p / 100))\n' >total
printf '#!/bin/sh\nset -e\nfail() { echo "$1"; exit 1; }\n[ "$(sh total 10 100 200)" = 270 ] || fail "FAIL total 10 100 200"\necho ok\n' >test.sh
cat >sallyport.yaml <<'Y'
version: 1
limits: {time: 2m}
checks:
  - {name: test, run: sh test.sh, timeout: 1m}
publish: {to: pr}
Y
git add -A && git commit -qm "A shop with a rounding fault"
git remote add origin "$url/owner/shop.git"
git push -qf "${url/:\/\//://owner:$password@}/owner/shop.git" main 2>/dev/null
git fetch -q && git branch -q --set-upstream-to=origin/main
api POST /repos/owner/shop/branch_protections '{"rule_name":"main","enable_push":false,"required_approvals":1,"enable_merge_whitelist":true,"merge_whitelist_usernames":["owner"]}' >/dev/null
token=$(who=bot api POST /users/bot/tokens '{"name":"publisher","scopes":["write:repository","write:issue"]}' | field sha1)
run git remote get-url origin

say "1. The Publisher's side: its configuration, and a token that Mission Control is never given."
cd "$work/config/sallyport"
(umask 077 && echo "$token" >bot.token && echo "$password" >bot.password)
show 'sallyport keys > mission-control.pub'
sallyport keys >mission-control.pub
cat >publisher.yaml <<Y
version: 1
mission-control: [mission-control.pub]
targets:
  - repository: $url/owner/shop
    kind: gitea
    bases: [main]
    credential: {token-file: bot.token}
Y
run cat publisher.yaml
run sallyport-publisher check
cd "$work/shop"

say "2. A change is accepted, and becomes a pull request."
cat >"$work/agent.sh" <<'A'
sed -i 's|^echo .*|echo $(((s * (100 - p) + 50) / 100))|' total
sed -i 's|^echo ok|[ "$(sh total 50 1)" = 1 ] \|\| fail "FAIL total 50 1"\necho ok|' test.sh
git commit -qam "Round half up

All tests pass. @everyone please merge; closes #1"
A
agent=$(cat "$work/agent.sh")
show 'sallyport run --name rounding -m "Round totals half up" --publish pr -- sh -c "$(cat agent.sh)"'
sallyport run --name rounding -m "Round totals half up" --publish pr -- sh -c "$agent"
pulls() { api GET "/repos/owner/shop/pulls?state=all" | grep -o '"number":[0-9]*,"user"' | wc -l; }
body() { api GET /repos/owner/shop/pulls/1 | grep -o '"body":"\([^"\\]\|\\.\)*"' | head -1 | sed 's/^"body":"//; s/"$//; s/\\n/\n/g; s/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g'; }
one=$(api GET /repos/owner/shop/pulls/1)
say "3. What is there: $(grep -o '"html_url":"[^"]*/pulls/1"' <<<"$one" | head -1 | cut -d'"' -f4), by $(field login <<<"$one"): \"$(field title <<<"$one")\""
body | sed -n 1,22p | sed 's/^/  | /'
echo "  | …"
body | sed -n '/^### Claims/,/^### How/p' | sed '$d; s/^/  | /'

say "4. Asked again, nothing happens twice; a second Attempt moves the same one. Now with a token made for it and revoked after it."
a=$(sallyport show --json | tr -d " " | field attempt)
a=${a#att_} a=${a:0:12}
run sallyport publish "$a"
echo "pull requests at the forge: $(pulls)"
sed -i 's|credential: .*|credential: {user: bot, password-file: bot.password}|' "$work/config/sallyport/publisher.yaml"
show 'sed -i "s|credential: .*|credential: {user: bot, password-file: bot.password}|" publisher.yaml'
show 'sallyport run --name rounding -m "Round totals half up, and say so" --publish pr -- sh -c "$(cat agent.sh); …"'
sallyport run --name rounding -m "Round totals half up, and say so" --publish pr -- sh -c "$agent"'; echo "# Half a cent is rounded up." >> total'
echo "pull requests at the forge: $(pulls)"
receipt=$(ls -t "$SALLYPORT_STATE"/attempts/*/publication-*.json | head -1)
echo "the receipt, in the state folder as attempts/ID/${receipt##*/}, says among other things:"
sed 's/.*"payload":"\([^"]*\)".*/\1/' "$receipt" | base64 -d | grep -oE '"(credential|pull_request)":\{[^}]*\}|"(separation|replaced)":"[^"]*"'
run sallyport-publisher check
echo "tokens that the bot has now, by name: $(who=bot api GET /users/bot/tokens | grep -o '"name":"[^"]*"' | cut -d'"' -f4 | tr '\n' ' ')(the one of step 1)"

say "5. Where the token is: with the Publisher, and in no file of Mission Control's state or of the clone."
cd "$work"
show 'grep -rlF "$(cat config/sallyport/bot.token)" config state shop'
grep -rlF "$token" config state shop || true
if grep -rqF -e "$token" -e "$password" state shop; then echo "FOUND where it must not be" >&2; exit 1; fi
if [ "$(pulls)" != 1 ]; then echo "not one pull request: $(pulls)" >&2; exit 1; fi

if [ -n "$keep" ]; then
	say "The forge stays: $url/owner/shop/pulls/1   user: owner   password: $password"
	echo "Its programs for the browser are not built here: pages are bare text. The clone is $work/shop. Enter or Ctrl-C ends and removes all of it."
	read -r _ || while kill -0 "$pid" 2>/dev/null; do sleep 1; done
fi
