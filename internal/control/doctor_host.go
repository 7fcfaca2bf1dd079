package control

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sallyport.dev/sallyport/internal/pattern"
)

// host is what an administrator has or has not made ready for one ordinary user. It is only read, so the same
// answer comes before and after a fix, as root and as the user.
type host struct {
	root string // the file system; "/" but in tests
	name string // the user; "": root, called by nobody else, who needs none of it
	uid  int
	exe  string // the folder of sallyport's programs
	// would is what systemd would delegate to a manager that it has not started; "": not known
	would func(unit string) string
}

// condition is one fact about the host and, unless it is as it should be, what to do.
type condition struct {
	Fact
	fix Fix // zero: nothing
}

// thisHost is made ready for the caller, or for whoever called sudo.
func thisHost() host {
	h := host{root: "/", uid: os.Geteuid(), would: wouldDelegate}
	if exe, err := os.Executable(); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			h.exe = filepath.Dir(exe)
		}
	}
	if h.uid == 0 {
		uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
		if err != nil || uid <= 0 {
			return h
		}
		h.uid = uid
	}
	if u, err := user.LookupId(strconv.Itoa(h.uid)); err == nil {
		h.name = u.Username
	}
	return h
}

func wouldDelegate(unit string) string {
	out, err := exec.Command("systemctl", "show", "--value", "-p", "DelegateControllers", unit).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// read is a file's content without the space around it, "" where there is none.
func (h host) read(name string) string {
	b, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h host) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(h.root, name))
	return err == nil
}

// namespaces is what stands in the way of an ordinary user's user namespaces. proven: one was just made by such a
// user, whatever the settings say.
func (h host) namespaces(proven bool) []condition {
	var out []condition
	add := func(name, value string, f Fix) { out = append(out, condition{Fact{name, value, false}, f}) }
	if proven {
		return nil
	}
	if h.read("proc/sys/kernel/unprivileged_userns_clone") == "0" {
		add("user namespaces", "off for ordinary users", Fix{"kernel.unprivileged_userns_clone is 0; as root:", setting("kernel.unprivileged_userns_clone", "1")})
	}
	if h.read("proc/sys/user/max_user_namespaces") == "0" {
		add("user namespaces", "none may be made", Fix{"user.max_user_namespaces is 0; as root:", setting("user.max_user_namespaces", "10000")})
	}
	if h.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		out = append(out, h.appArmor())
	}
	return out
}

// setting makes a sysctl hold now and after the next boot.
func setting(name, value string) string {
	return fmt.Sprintf("echo '%s = %s' > /etc/sysctl.d/50-sallyport-%[1]s.conf && sysctl -q -p /etc/sysctl.d/50-sallyport-%[1]s.conf", name, value)
}

const appArmorFile = "/etc/apparmor.d/sallyport"

// appArmor lets exactly the installed programs make user namespaces: the driver makes the one that the keeper is
// started in, and a program without a profile of its own stays in its parent's.
func (h host) appArmor() condition {
	const name = "AppArmor profile"
	profile := appArmorProfile(h.exe)
	if h.read(appArmorFile) == strings.TrimSpace(profile) {
		return condition{Fact: Fact{name, appArmorFile, true}}
	}
	if strings.ContainsAny(h.exe, "'\"\\*?[]{}^, \t\n") {
		return condition{Fact{name, "none", false}, Fix{Why: "AppArmor keeps ordinary users from user namespaces: install sallyport in a folder of plain letters and call again"}}
	}
	return condition{Fact{name, "none", false}, Fix{"AppArmor keeps ordinary users from user namespaces; as root:",
		fmt.Sprintf("printf '%%s' '%s' > %s && apparmor_parser -r %[2]s", profile, appArmorFile)}}
}

// appArmorProfile confines nothing: it is a name, so that the permission can be given to it.
func appArmorProfile(dir string) string {
	return "abi <abi/4.0>,\n" +
		"profile sallyport " + dir + "/{sallyport,sallyport-keeper} flags=(unconfined) {\n" +
		"  userns,\n" +
		"}\n"
}

// delegated are the controllers that a user's manager has to be given.
var delegated = []string{"cpu", "memory", "pids"}

const delegationFile = "/etc/systemd/system/user@.service.d/50-sallyport.conf"

// systemd is what a user's drivers need of it to be given limits and to outlive the login.
func (h host) systemd() []condition {
	if h.name == "" {
		return nil
	}
	out := []condition{h.subordinate()}
	if !h.exists("run/systemd/system") {
		return append([]condition{{Fact: Fact{"service manager", "not systemd: limits need a cgroup that " + h.name + " can write", true}}}, out...)
	}
	if h.exists("sys/fs/cgroup/cgroup.controllers") {
		out = append([]condition{h.delegation()}, out...)
	}
	return append(out, h.lingering())
}

// delegation asks the kernel what the user's manager was given, or systemd what it would give to one.
func (h host) delegation() condition {
	name := "delegated to " + h.name
	unit := fmt.Sprintf("user@%d.service", h.uid)
	folder := fmt.Sprintf("sys/fs/cgroup/user.slice/user-%d.slice/%s", h.uid, unit)
	have := strings.Fields(h.read(folder + "/cgroup.controllers"))
	if !h.exists(folder) {
		have = strings.Fields(h.would(unit))
	}
	if len(have) == 0 {
		return condition{Fact: Fact{name, "not known: systemd runs no manager for " + h.name + " now", false}}
	}
	missing := slices.DeleteFunc(slices.Clone(delegated), func(c string) bool { return slices.Contains(have, c) })
	fact := Fact{name, strings.Join(have, " "), len(missing) == 0}
	if len(missing) == 0 {
		return condition{Fact: fact}
	}
	why := "systemd does not delegate " + strings.Join(missing, ", ") + " to " + h.name
	content := "[Service]\nDelegate=" + strings.Join(delegated, " ")
	if h.read(delegationFile) == content {
		return condition{fact, Fix{Why: why + " yet: it will when its manager starts next, after the last logout or a reboot"}}
	}
	return condition{fact, Fix{why + "; as root:", fmt.Sprintf("mkdir -p %s && printf '%s\\n' > %s && systemctl daemon-reload",
		filepath.Dir(delegationFile), strings.ReplaceAll(content, "\n", `\n`), delegationFile)}}
}

// lingering: without it systemd ends all that is a user's with the last session.
func (h host) lingering() condition {
	name := "lingering of " + h.name
	if h.exists("var/lib/systemd/linger/" + h.name) {
		return condition{Fact: Fact{name, "on", true}}
	}
	return condition{Fact{name, "off", false}, Fix{"lingering is off: systemd ends " + h.name + "'s runs with its last logout; as root:", "loginctl enable-linger " + strconv.Itoa(h.uid)}}
}

// subordinateCount is how many ids usermod's own default gives.
const subordinateCount = 65536

var plainName = pattern.New(`^[a-z_][a-z0-9_-]*$`)

// subordinate ids are for a sandbox under an id of its own. No run uses them yet: what an ordinary user's sandbox
// shows copy-on-write is that user's.
func (h host) subordinate() condition {
	name := "subordinate ids of " + h.name
	uids, afterUIDs := h.idRange("etc/subuid")
	gids, afterGIDs := h.idRange("etc/subgid")
	from := max(afterUIDs, afterGIDs)
	span := fmt.Sprintf("%d-%d", from, from+subordinateCount-1)
	var flags []string
	if uids == "" {
		flags = append(flags, "--add-subuids "+span)
	}
	if gids == "" {
		flags = append(flags, "--add-subgids "+span)
	}
	if len(flags) == 0 {
		return condition{Fact: Fact{name, uids, true}}
	}
	fact := Fact{name, "none", false}
	if !plainName.MatchString(h.name) {
		return condition{Fact: fact}
	}
	return condition{fact, Fix{h.name + " has no subordinate ids (for a sandbox with an id of its own; no run needs them yet); as root:",
		// usermod refuses where the files are not there.
		"touch /etc/subuid /etc/subgid && usermod " + strings.Join(flags, " ") + " " + h.name}}
}

// idRange is the user's own line of a subid(5) file, in words, and the first id after everybody's.
func (h host) idRange(file string) (own string, after int) {
	after = 100000 // where login.defs begins
	for line := range strings.Lines(h.read(file)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil {
			continue
		}
		after = max(after, first+count)
		if f[0] == h.name || f[0] == strconv.Itoa(h.uid) {
			own = fmt.Sprintf("%d from %d", count, first)
		}
	}
	return own, after
}
