package guest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"sallyport.dev/sallyport/tools/guest"
)

// installPublisher does what docs/guide-publishing.md says, with a target that nobody serves.
const installPublisher = `set -eu
grep -q '^sallyport-publisher:' /etc/passwd || { echo 'sallyport-publisher:x:990:990::/nonexistent:/usr/sbin/nologin' >> /etc/passwd; echo 'sallyport-publisher:x:990:dev' >> /etc/group; }
mkdir -p /etc/sallyport-publisher /run/systemd/system/sallyport-publisher.service.d /run/store
/usr/local/bin/sallyport keys > /etc/sallyport-publisher/mission-control.pub
echo abc > /run/store/token; chmod 600 /run/store/token
cat > /etc/sallyport-publisher/publisher.yaml <<'Y'
version: 1
state: /var/lib/sallyport-publisher
listen: /run/sallyport-publisher/publisher.sock
peers: [1001]
mission-control: [mission-control.pub]
targets:
  - repository: http://127.0.0.1:9/owner/shop
    kind: gitea
    bases: [main]
    credential: {token-file: $CREDENTIALS_DIRECTORY/token}
Y
chmod 644 /etc/sallyport-publisher/*
printf '[Service]\nLoadCredential=token:/run/store/token\nStandardOutput=append:/run/publisher.log\nStandardError=append:/run/publisher.log\n' > /run/systemd/system/sallyport-publisher.service.d/token.conf
systemctl daemon-reload
set +e
systemctl start sallyport-publisher
for i in $(seq 100); do test -S /run/sallyport-publisher/publisher.sock && break; sleep 0.2; done
test -S /run/sallyport-publisher/publisher.sock || { systemctl status --no-pager -l sallyport-publisher; dmesg | tail -5; }
cat /run/publisher.log
systemctl show -P ActiveState sallyport-publisher
stat -c '%U %G %a' /run/sallyport-publisher /run/sallyport-publisher/publisher.sock /var/lib/sallyport-publisher
pid=$(systemctl show -P MainPID sallyport-publisher); grep -E '^(Uid|NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/$pid/status | tr -s '\t ' ' '
stat -c '%U %G %a' /run/credentials/sallyport-publisher.service/token
/sbin/runuser -u sallyport-publisher -- /usr/local/bin/sallyport-publisher keys --config /etc/sallyport-publisher/publisher.yaml
`

// TestPublisherUnit runs the shipped unit where systemd is process 1: it starts with all of its hardening, reads what systemd loaded
// for it, and listens where only its group may ask.
func TestPublisherUnit(t *testing.T) {
	base := guest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), wholeTest)
	defer cancel()
	unit, err := os.ReadFile("../../contrib/systemd/sallyport-publisher.service")
	if err != nil {
		t.Fatal(err)
	}
	m, err := guest.Boot(ctx, base, t.TempDir(), guest.Config{Local: programs(ctx, t), Systemd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := session{ctx: ctx, machine: m}
	s.root(t, "mkdir -p /run/systemd/system\ncat > /run/systemd/system/sallyport-publisher.service <<'UNIT'\n"+string(unit)+"UNIT\n")
	a := s.run(t, installPublisher, 0, "/", "", attemptMost)
	got := string(a.Stdout)
	t.Logf("exit %d\n%s%s", a.Exit, got, a.Stderr)
	for _, want := range []string{
		"active\n", "sallyport-publisher sallyport-publisher 750\n", "sallyport-publisher sallyport-publisher 660\n", "sallyport-publisher sallyport-publisher 700\n",
		"not usable: ", "listening on /run/sallyport-publisher/publisher.sock\n", "Uid: 990 990 990 990\n", "NoNewPrivs: 1\n", "CapEff: 0000000000000000\n", "CapBnd: 0000000000000000\n", "Seccomp: 2\n", "-----BEGIN PUBLIC KEY-----\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing: %q", want)
		}
	}
	for _, never := range []string{"others can read it", "no such file", "cannot be read", "not permitted"} {
		if strings.Contains(got, never) {
			t.Errorf("found: %q", never)
		}
	}
}
