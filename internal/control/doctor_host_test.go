package control

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layOut makes files below a folder; a name that ends in / is a folder.
func layOut(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host{root: root, name: "dev", uid: 1001, exe: "/usr/local/bin", would: func(string) string { return "" }}
}

const userManager = "sys/fs/cgroup/user.slice/user-1001.slice/user@1001.service/cgroup.controllers"

// ready is a host on which nothing is to be done.
func ready() map[string]string {
	return map[string]string{
		"run/systemd/system/": "", "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n", userManager: "cpu memory pids\n",
		"var/lib/systemd/linger/dev": "", "etc/subuid": "dev:100000:65536\n", "etc/subgid": "dev:100000:65536\n",
		"proc/sys/kernel/unprivileged_userns_clone": "1\n", "proc/sys/user/max_user_namespaces": "9000\n", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0\n",
	}
}

// One thing at a time is not as it should be: exactly that is offered, and nothing once it is.
func TestHostFixes(t *testing.T) {
	for _, k := range []struct {
		name   string
		change map[string]string // "-": the file is not there
		want   []string          // the commands; "": a sentence
	}{
		{"nothing to do", nil, nil},
		{"not systemd", map[string]string{"run/systemd/system/": "-", "var/lib/systemd/linger/dev": "-", userManager: "memory pids"}, nil},
		{"cgroup v1", map[string]string{"sys/fs/cgroup/cgroup.controllers": "-", userManager: "-"}, nil},
		{"no cpu", map[string]string{userManager: "memory pids\n"},
			[]string{`mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu memory pids\n' > /etc/systemd/system/user@.service.d/50-sallyport.conf && systemctl daemon-reload`}},
		{"no cpu yet", map[string]string{userManager: "memory pids\n", delegationFile: "[Service]\nDelegate=cpu memory pids\n"}, []string{""}},
		{"nobody is logged in", map[string]string{userManager: "-", "var/lib/systemd/linger/dev": "-"}, []string{"loginctl enable-linger 1001"}},
		{"no lingering", map[string]string{"var/lib/systemd/linger/dev": "-"}, []string{"loginctl enable-linger 1001"}},
		{"no ids", map[string]string{"etc/subuid": "-", "etc/subgid": "other:100000:65536\nmore:300000:5\n"}, []string{"touch /etc/subuid /etc/subgid && usermod --add-subuids 300005-365540 --add-subgids 300005-365540 dev"}},
		{"ids by number", map[string]string{"etc/subuid": "1001:100000:65536\n", "etc/subgid": "# none\n"}, []string{"touch /etc/subuid /etc/subgid && usermod --add-subgids 165536-231071 dev"}},
		{"userns off", map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0"},
			[]string{"echo 'kernel.unprivileged_userns_clone = 1' > /etc/sysctl.d/50-sallyport-kernel.unprivileged_userns_clone.conf && sysctl -q -p /etc/sysctl.d/50-sallyport-kernel.unprivileged_userns_clone.conf"}},
		{"AppArmor", map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
			[]string{"printf '%s' '" + appArmorProfile("/usr/local/bin") + "' > /etc/apparmor.d/sallyport && apparmor_parser -r /etc/apparmor.d/sallyport"}},
		{"AppArmor has it", map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1", appArmorFile: appArmorProfile("/usr/local/bin")}, nil},
		{"AppArmor has another", map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1", appArmorFile: appArmorProfile("/opt/old")},
			[]string{"printf '%s' '" + appArmorProfile("/usr/local/bin") + "' > /etc/apparmor.d/sallyport && apparmor_parser -r /etc/apparmor.d/sallyport"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			files := ready()
			for name, content := range k.change {
				if files[name] = content; content == "-" {
					delete(files, name)
				}
			}
			var d Doctor
			h := layOut(t, files)
			d.with(h.namespaces(false))
			d.with(h.systemd())
			var got []string
			for _, f := range d.Fixes {
				if got = append(got, f.Command); f.Why == "" {
					t.Errorf("no reason for %q", f.Command)
				}
			}
			if !slices.Equal(got, k.want) {
				t.Errorf("got  %q\nwant %q", got, k.want)
			}
			for _, f := range d.Facts {
				if !f.OK && len(k.want) == 0 && k.name != "nobody is logged in" {
					t.Errorf("%+v, and nothing to do about it", f)
				}
			}
		})
	}
}

// A command line is made of these: neither may end a word of it.
func TestHostFixesQuoteNothing(t *testing.T) {
	files := ready()
	delete(files, "etc/subuid")
	files["proc/sys/kernel/apparmor_restrict_unprivileged_userns"] = "1"
	h := layOut(t, files)
	h.name, h.exe = "a;reboot", "/opt/it's mine"
	var d Doctor
	d.with(h.namespaces(false))
	d.with(h.systemd())
	for _, f := range d.Fixes {
		if strings.Contains(f.Command, "reboot") || strings.Contains(f.Command, "mine") {
			t.Errorf("%q", f.Command)
		}
	}
	h = layOut(t, map[string]string{"run/systemd/system/": "", "sys/fs/cgroup/cgroup.controllers": ""})
	asked := ""
	h.would = func(unit string) string { asked = unit; return "memory pids\n" }
	if c := h.delegation(); asked != "user@1001.service" || c.Value != "memory pids" || !strings.Contains(c.fix.Command, delegationFile) {
		t.Errorf("asked %q: %+v", asked, c)
	}
	if h.name = ""; h.systemd() != nil {
		t.Error("root needs nothing of it")
	}
}
