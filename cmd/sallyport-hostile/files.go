package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// deep makes a folder chain: deep FOLDER LEVELS.
func deep(args []string) {
	check(os.MkdirAll(args[0], 0o755))
	check(os.Chdir(args[0]))
	for range number(args[1]) {
		check(unix.Mkdir("d", 0o755))
		check(unix.Chdir("d"))
	}
	check(os.WriteFile("bottom", []byte("x"), 0o644))
}

// hide fills the disk with files that have no name: hide HOW MEGABYTES FOLDER. It then waits to be found.
func hide(args []string) {
	how, size, dir := args[0], number(args[1]), args[2]
	switch how {
	case "open":
		fill(dir, size)
	case "mapped":
		for range size {
			f := fill(dir, 1)
			_, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			check(err)
			f.Close()
		}
	case "in-flight":
		for range size {
			f := fill(dir, 1)
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			check(err)
			check(unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0))
			f.Close()
		}
	case "many":
		var all []*os.File
		for range size {
			all = append(all, fill(dir, 1))
		}
		defer runtime.KeepAlive(all)
	case "thread":
		// The first thread ends, another keeps the file: what /proc shows of the process is then empty.
		go func() {
			runtime.LockOSThread()
			f := fill(dir, size)
			time.Sleep(60 * time.Second)
			runtime.KeepAlive(f)
			won("kept %d MiB for a minute (%s)", size, how)
			os.Exit(0)
		}()
		runtime.LockOSThread()
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	case "read-only":
		// Read-only and named nowhere: by way of /proc/self/fd.
		f := fill(dir, size)
		g, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		check(err)
		f.Close()
		defer runtime.KeepAlive(g)
	}
	fmt.Println("hidden")
	time.Sleep(60 * time.Second)
	won("kept %d MiB for a minute (%s)", size, how)
}

// fill writes a file of megabytes that has no name any more.
func fill(dir string, megabytes int) *os.File {
	f, err := os.CreateTemp(dir, "hidden-")
	check(err)
	check(os.Remove(f.Name()))
	b := make([]byte, 1<<20)
	for i := range megabytes {
		b[0] = byte(i)
		_, err := f.Write(b)
		check(err)
	}
	return f
}

// names makes files whose names are hostile to a program or a person: names FOLDER.
func names(args []string) {
	check(os.MkdirAll(args[0], 0o755))
	for i, n := range []string{"new\nline", "esc\x1b[2Jape", "\xff\xfeinvalid", ":(top)magic", "-rf", "--upload-pack=x", " leading", "trailing ", "tab\there",
		"quote\"'`$(id)", "a:b", "con", "nul.txt", "\u202egnp.exe", "caf\u00e9", "cafe\u0301", strings.Repeat("n", 255), "*", "?", "[a]", "~", "$HOME", "%s%n", "\\..\\x", "#1", ";id", "!cmd"} {
		check(os.WriteFile(args[0]+"/"+n, fmt.Appendf(nil, "%d\n", i), 0o644))
	}
}

// marks tries to forge what overlayfs keeps about its layers: marks FOLDER.
func marks(args []string) {
	dir := args[0] + "/marked"
	check(os.MkdirAll(dir, 0o755))
	file := dir + "/file"
	check(os.WriteFile(file, []byte("x"), 0o644))
	for _, ns := range []string{"user.overlay.", "trusted.overlay.", "user.overlay.overlay."} {
		for _, mark := range []string{"opaque", "redirect", "metacopy", "origin", "whiteout", "impure", "nlink", "upper", "uuid", "protattr"} {
			for _, p := range []string{dir, file, args[0]} {
				_ = unix.Lsetxattr(p, ns+mark, []byte("y"), 0)
			}
		}
	}
	for name, mode := range map[string]uint32{"char": unix.S_IFCHR, "block": unix.S_IFBLK} {
		for _, dev := range []uint64{0, unix.Mkdev(1, 5), unix.Mkdev(254, 0)} {
			if err := unix.Mknod(fmt.Sprintf("%s/%s%d", dir, name, dev), mode|0o666, int(dev)); err == nil {
				won("made a %s device %d", name, dev)
			}
		}
	}
	check(unix.Mkfifo(dir+"/fifo", 0o666))
	check(unix.Mknod(dir+"/socket", unix.S_IFSOCK|0o666, 0))
}

// fileFlags asks for attributes that outlive permissions: fileflags FILE.
func fileFlags(args []string) {
	f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o644)
	check(err)
	for name, flag := range map[string]uint32{"immutable": 0x10, "append": 0x20} {
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flag)); err == nil {
			won("set %s", name)
		}
	}
	if err := unix.Fsetxattr(int(f.Fd()), "security.capability", []byte{1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0); err == nil {
		won("gave a file capabilities")
	}
	_ = f.Chmod(0o6777)
}

// bulk makes many files: bulk FOLDER COUNT BYTES.
func bulk(args []string) {
	count, size := number(args[1]), number(args[2])
	b := make([]byte, size)
	for i := range count {
		dir := fmt.Sprintf("%s/%d", args[0], i/1000)
		if i%1000 == 0 {
			check(os.MkdirAll(dir, 0o755))
		}
		check(os.WriteFile(fmt.Sprintf("%s/%d", dir, i), b, 0o644))
	}
}
