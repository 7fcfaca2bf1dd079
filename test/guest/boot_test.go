package guest_test

import (
	"context"
	"testing"
	"time"

	"sallyport.dev/sallyport/tools/guest"
	"sallyport.dev/sallyport/tools/guest/talk"
)

func TestBoot(t *testing.T) {
	b := guest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	m, err := guest.Boot(ctx, b, t.TempDir(), guest.Config{Local: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	a, err := m.Run(ctx, talk.Command{Argv: []string{"/bin/bash", "-c", `uname -r; id; mount; ls -la / /home; cat /sys/fs/cgroup/cgroup.controllers; git --version; cat /proc/uptime; awk 1 /dev/null; ps ax|head -5; df -h /; date; for i in /usr/bin/*; do ldd $i 2>&1|grep "not found"; done | sort | uniq -c; free -m`}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Timeout: 60 * time.Second})
	t.Logf("%+v %s %s %v", a.Exit, a.Stdout, a.Stderr, err)
	t.Log(m.Console())
}
