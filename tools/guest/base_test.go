package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseURIs(t *testing.T) {
	const good = "'http://mirror.test/d/dash_0.5.12-2_amd64.deb' dash_0.5.12-2_amd64.deb 91848 SHA256:33ea\n" +
		"'http://mirror.test/g/git_2.39.5-0%2bdeb12u3_amd64.deb' git_1%3a2.39.5-0+deb12u3_amd64.deb 7264380 SHA256:637a\n"
	list, err := parseURIs(good)
	if err != nil || len(list) != 2 || list[1] != (archive{file: "git_1%3a2.39.5-0+deb12u3_amd64.deb", digest: "SHA256:637a"}) {
		t.Fatalf("%v %v", list, err)
	}
	back := slices.Clone(list)
	slices.Reverse(back)
	if keyOf(list) != keyOf(back) {
		t.Error("the key depends on the order")
	}
	back[0].digest = "SHA256:0000"
	if keyOf(list) == keyOf(back) {
		t.Error("the key does not depend on the content")
	}
	for _, bad := range []string{"x", "'u' f 1 MD5Sum:00\n", "'u' ../f 1 SHA256:00\n", "W: something went wrong here\n"} {
		if _, err := parseURIs(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

// What cpio(1) lists of an archive is what was put in.
func TestInitialFiles(t *testing.T) {
	modules := t.TempDir()
	for _, n := range []string{"01-b.ko", "00-a.ko"} {
		if err := os.WriteFile(filepath.Join(modules, n), []byte(n+" content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := initialFiles([]byte("program"), modules)
	if err != nil {
		t.Fatal(err)
	}
	if len(data)%4 != 0 || !bytes.HasPrefix(data, []byte("070701")) {
		t.Errorf("%d bytes, %q", len(data), data[:6])
	}
	// Walked by the format's own lengths.
	var got []string
	for at := 0; ; {
		name, content, next := cpioEntry(t, data, at)
		if name == "TRAILER!!!" {
			break
		}
		got, at = append(got, name+"="+content), next
	}
	if want := []string{"init=program", "modules=", "modules/00-a.ko=00-a.ko content", "modules/01-b.ko=01-b.ko content"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func cpioEntry(t *testing.T, data []byte, at int) (name, content string, next int) {
	t.Helper()
	const header = 110
	number := func(field int) int {
		n := 0
		for _, c := range data[at+6+8*field : at+14+8*field] {
			n = n*16 + strings.IndexByte("0123456789abcdef", c)
		}
		return n
	}
	size, nameSize := number(6), number(11)
	name = string(data[at+header : at+header+nameSize-1])
	from := (at + header + nameSize + 3) &^ 3
	return name, string(data[from : from+size]), (from + size + 3) &^ 3
}

// An image made by anybody holds files of root, whole.
func TestMakeImage(t *testing.T) {
	for _, p := range []string{"mke2fs", "debugfs"} {
		if _, err := find(p); err != nil {
			t.Skipf("missing: %s (Debian: apt-get install e2fsprogs)", p)
		}
	}
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("content\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	img := filepath.Join(t.TempDir(), "a,b.img")
	if err := makeImage(img, from, 16<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := output("", "debugfs", "-R", "cat file", img); err != nil || out != "content\n" {
		t.Errorf("%q %v", out, err)
	}
	out, err := output("", "debugfs", "-R", "stat file", img)
	if err != nil || !strings.Contains(out, "Mode:  0640") || !strings.Contains(strings.Join(strings.Fields(out), " "), "User: 0 Group: 0") {
		t.Errorf("%s %v", out, err)
	}
}

func TestLoadOrder(t *testing.T) {
	found, err := findModules(t.TempDir())
	if err != nil || len(found) != 0 {
		t.Fatalf("%v %v", found, err)
	}
	if order, err := loadOrder(found, drivers); err != nil || len(order) != 0 {
		t.Errorf("built-in drivers: %v %v", order, err)
	}
	notELF := filepath.Join(t.TempDir(), "x.ko")
	if err := os.WriteFile(notELF, []byte("not a module"), 0o644); err != nil {
		t.Fatal(err)
	}
	if order, err := loadOrder(map[string]string{"x": notELF}, []string{"x"}); err == nil {
		t.Errorf("a file that is no module passed: %v", order)
	}
}
