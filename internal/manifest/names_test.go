package manifest

import (
	"os/exec"
	"strings"
	"testing"
)

// FuzzNames: a name of a WorkOrder, and a branch of the policy, that pass here pass git-check-ref-format(1) too, and are
// no path out of the folder that they name.
func FuzzNames(f *testing.F) {
	git, err := exec.LookPath("git")
	if err != nil {
		f.Fatal("this test needs git")
	}
	for _, s := range []string{"a", "a.b", "x.lock", "a..b", ".a", "a/b", "refs/heads/main", "a//b", "a/.b", "a.lock/b", "@", "-a", "HEAD", "a.", "a/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for ref, ok := range map[string]bool{"refs/heads/sallyport/" + s: nameRule(s) == "", "refs/heads/" + s: isRef(s)} {
			if !ok {
				continue
			}
			if strings.Contains(s, "..") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "-") {
				t.Fatalf("%q passes", s)
			}
			if err := exec.Command(git, "check-ref-format", ref).Run(); err != nil {
				t.Fatalf("%q passes, and git refuses it (%v)", ref, err)
			}
		}
		if strings.Contains(s, "/") && nameRule(s) == "" {
			t.Fatalf("%q is a name", s)
		}
	})
}
